"""Measure what is lost where a plan of the exact agent is played as a game, whose rules choose addresses and windows.

    python -m benchmarks.game_replay                         # all games of suite game-v1 with a kept plan
    python -m benchmarks.game_replay --jobs 2 --write docs/game.md

The plans are those in results/plans (see `benchmarks.proofs`). Each is followed by a game (`nearest_actions`), and
from that game on 2,000 games are annealed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from rich.progress import track

from benchmarks.cores import single_cores
from benchmarks.proofs import OPEN, kept_plan
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, publish
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.search.game_local_search import GameLocalSearch
from memplace_env.envs.malloc_game import MallocGameEnv, nearest_actions
from memplace_env.leaderboard.pinned import task_of
from memplace_env.leaderboard.suite import best_known, load_suite
from memplace_env.placement.simulator import evaluate_plan

GAMES: Final = 2_000
SHARES: Final = (0.5, 0.9, 1.0)
"""Quantiles of the table's columns."""


def measure(env_id: str) -> dict[str, Any]:
    """Return the latencies in ps of an id's kept plan, of the game that follows it, and after `GAMES` more."""
    task, plan = task_of(env_id), kept_plan(env_id)
    assert plan is not None
    env = MallocGameEnv(task)
    states = env.problem.new_states(1)
    env.problem.replay(states, nearest_actions(env.problem, plan)[None].copy())
    game = env.problem.plan(states[0])
    evaluator = GameEvaluator(env, budget=GAMES)
    evaluator.offer(game)
    GameLocalSearch().run(evaluator, seed=0)
    best = evaluator.incumbent
    assert best is not None
    return {
        "id": env_id,
        "plan_ps": evaluate_plan(task, plan).latency_ps,
        "game_ps": evaluate_plan(task, game).latency_ps,
        "annealed_ps": evaluate_plan(task, best).latency_ps,
    }


def table(records: Sequence[dict[str, Any]], proven: set[str]) -> str:
    """Return a Markdown table: by how much games are slower than plans, over proven games and over all."""
    rows = []
    for what, chosen in (("proven", [r for r in records if r["id"] in proven]), ("all", records)):
        for name, field in (("the game that follows the plan", "game_ps"), (f"after {GAMES:,} games", "annealed_ps")):
            loss = np.array([record[field] / record["plan_ps"] - 1 for record in chosen])
            quantiles = [f"{value:+.2%}" for value in np.quantile(loss, SHARES, method="higher")]
            rows.append([f"{what}, {len(chosen)}", name, *quantiles, f"{(loss <= OPEN).sum()}"])
    return markdown_table(["games", "played", "median", "nine of ten at most", "worst", "at most 0.01 %"], rows)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="games side by side (default 1)")
    options = parser.parse_args()
    known = best_known()
    ids = [env_id for env_id in load_suite("game-v1").instances if kept_plan(env_id) is not None]
    with single_cores(options.jobs) as pool:
        records = list(track(pool.map(measure, ids), "playing", len(ids)))
    proven = {env_id for env_id in ids if known[env_id].best_ps <= known[env_id].bound_ps * (1 + OPEN)}
    heads = ["id", "plan_ps", "game_ps", "annealed_ps"]
    rows = sorted([record[head] for head in heads] for record in records)
    publish({"replay": table(records, proven)}, options.write, {"game-replay.csv": DataFile(heads, rows)})


if __name__ == "__main__":
    main()

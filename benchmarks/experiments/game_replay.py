"""Loss where a plan of the exact agent is played as a game, whose rules choose addresses and windows.

The plans are the kept ones of the games of suite game-v1 (see the experiment `proofs`). Each is followed by a game
(`nearest_actions`), and from that game on 2,000 games are annealed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, Final

import numpy as np

from benchmarks.experiments.proofs import OPEN, kept_plan
from benchmarks.harness import Experiment, Records, data, table
from benchmarks.ledger import Record
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.search.game_local_search import GameLocalSearch
from memplace_env.envs.best_known import known_results
from memplace_env.envs.malloc_game import MallocGameEnv, nearest_actions
from memplace_env.placement.simulator import evaluate_plan
from memplace_leaderboard.pinned import task_of
from memplace_leaderboard.suite import load_suite

GAMES: Final = 2_000


def settings(records: Records = ()) -> list[Record]:
    """Return the games with a kept plan."""
    return [{"id": env_id} for env_id in load_suite("game-v1").instances if kept_plan(env_id) is not None]


def measure(run: Record) -> Record:
    """Return the latencies in ps of an id's kept plan, of the game that follows it, and after `GAMES` more."""
    task, plan = task_of(run["id"]), kept_plan(run["id"])
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
        **run,
        "plan_ps": evaluate_plan(task, plan).latency_ps,
        "game_ps": evaluate_plan(task, game).latency_ps,
        "annealed_ps": evaluate_plan(task, best).latency_ps,
    }


def rows(records: Records) -> Iterator[tuple[str, str, Any]]:
    """Yield how much slower games are than plans, over proven games and over all: both names, and float64[games]."""
    known = known_results()
    proven = [r for r in records if known[r["id"]].best_ps <= known[r["id"]].bound_ps * (1 + OPEN)]
    for what, chosen in (("proven", proven), ("all", records)):
        for name, field in (("the game that follows the plan", "game_ps"), (f"after {GAMES:,} games", "annealed_ps")):
            loss = np.array([record[field] / record["plan_ps"] - 1 for record in chosen])
            yield f"{what}, {len(chosen)}", name, loss


def quantile(share: float) -> Callable[[tuple[str, str, Any]], str]:
    """Return a cell: a quantile of the losses."""
    return lambda row: f"{np.quantile(row[2], share, method='higher'):+.2%}"


EXPERIMENTS = [
    Experiment(
        "game-replay",
        __doc__,
        {
            "docs/environments.md#replay": table(
                {
                    "games": itemgetter(0),
                    "played": itemgetter(1),
                    "median": quantile(0.5),
                    "nine of ten at most": quantile(0.9),
                    "worst": quantile(1.0),
                    "at most 0.01 %": lambda row: (row[2] <= OPEN).sum(),
                },
                rows,
            ),
            "docs/data/game-replay.csv": data(
                {head: itemgetter(head) for head in ("id", "plan_ps", "game_ps", "annealed_ps")},
                lambda records: sorted(records, key=itemgetter("id")),
            ),
        },
        settings,
        measure,
        key=("id",),
    )
]

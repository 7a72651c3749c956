"""Whether the best known plans of the registered games are games: each is found by the exact agent, and then played.

    python -m benchmarks.game_replay                      # prints a table
    python -m benchmarks.game_replay --write docs/game.md # and puts it into the document
    python -m benchmarks.game_replay --json               # prints the records, one a line

Goes on where it was stopped, from results/game_replay.jsonl; without this file, anew. The loss of a replay is what the
game's rules take from the plan, as they place blocks and time copies themselves; a short search from there on shows how
much of it other moves win back.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import agents
from agents.evaluator import GameEvaluator
from agents.game import GameLocalSearch
from agents.game.wishes import finished, plan_wishes
from benchmarks.as_measured import GAME, as_measured
from benchmarks.cores import single_cores
from benchmarks.headroom import FIELDS as SETTING
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import markdown, write_between_markers
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.registration import Formulation

RESULTS = Path(__file__).parent / "results" / "game_replay.jsonl"
FIELDS = ("name", *SETTING, "seconds", "games")


def runs(names: Sequence[str], seconds: float, games: int) -> list[Record]:
    """Everything that is measured of the ids with these names."""
    return [{"name": name, "workload": name, **GAME[name], "seconds": seconds, "games": games} for name in names]


def measure(run: Record) -> Record:
    """The best plan of so many seconds, its replay, and the best of so many games around that; latencies in seconds."""
    env = MallocGameEnv(**as_measured({key: run[key] for key in SETTING if key in run}, Formulation.GAME))
    solution = agents.Exact().solve(env, time_limit=run["seconds"])
    assert solution.plan is not None
    assert solution.report is not None
    states = finished(env.problem, plan_wishes(env.problem, solution.plan)[None])
    evaluator = GameEvaluator(env, budget=1 + run["games"])
    replayed_s = evaluator.offer_states(states)[0].item()
    GameLocalSearch().run(evaluator, seed=0)
    return {
        **run,
        "decisions": env.problem.num_decisions,
        "plan_s": solution.report.latency_s,
        "bound_s": solution.bound_s,
        "took_s": solution.seconds,
        "replayed_s": replayed_s,
        "searched_s": evaluator.incumbent_latency_s,
    }


def table(records: Sequence[Record]) -> str:
    """One line an id: the plan and how far it may be from the optimum, then what its replay and the search lose."""
    games = ", ".join(sorted({f"{record['games']:,}" for record in records}))
    heads = ["workload", "decisions", "plan ms", "gap", "replayed ms", "loss", f"loss after {games} games"]
    return markdown(heads, map(_row, records))


def _row(record: Record) -> list[str]:
    plan_s = record["plan_s"]
    losses = [f"{record[latency] / plan_s - 1:.3%}" for latency in ("replayed_s", "searched_s")]
    gap, ms = f"{plan_s / record['bound_s'] - 1:.3%}", [f"{record[key] * 1e3:.4f}" for key in ("plan_s", "replayed_s")]
    return [record["name"], str(record["decisions"]), ms[0], gap, ms[1], *losses]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="wall time of the exact agent")
    parser.add_argument("--games", type=int, default=2000, help="of the search from the replay on")
    parser.add_argument("--workload", nargs="+", choices=GAME, default=[*GAME], metavar="NAME", help="only these")
    parser.add_argument("--jobs", type=int, default=2, help="programs side by side, each on its own core")
    parser.add_argument("--json", action="store_true", help="print records rather than a table")
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    options = parser.parse_args()
    with single_cores(options.jobs) as pool:
        asked = runs(options.workload, options.seconds, options.games)
        records = Ledger(RESULTS, FIELDS).complete(asked, measure, pool)
    print("\n".join(map(json.dumps, records)) if options.json else table(records))
    if options.write:
        write_between_markers(options.write, "replay", table(records))


if __name__ == "__main__":
    main()

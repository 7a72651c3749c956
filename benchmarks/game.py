"""mallocGame: XLA's memory-space assignment, its autotuner, searches, and what is proven.

    python -m benchmarks.game                              # every registered MallocGame id, as a table
    python -m benchmarks.game --seconds 60 --write docs/game.md
    python -m benchmarks.game --grid --write docs/game.md  # every setting that might have an id, see game_grid.py
    python -m benchmarks.game --choose                     # the settings that the rule chooses, from the saved grid

Both go on where they were stopped, from results/game.jsonl and results/game_grid.jsonl; without these files, anew. Each
search has one core and the same wall time: two side by side use two, so times compare whatever uses threads.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import agents
from agents.xla_msa import PUBLIC_SETS
from benchmarks import game_grid
from benchmarks.as_measured import GAME, as_measured
from benchmarks.cores import single_cores
from benchmarks.headroom import FIELDS as SETTING
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import markdown, setting_text, write_between_markers
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.registration import Formulation
from memplace_env.views.text.headlines import stall_note

RESULTS = Path(__file__).parent / "results" / "game.jsonl"
FIELDS = ("name", *SETTING, "solver", "seed", "seconds")
XLA = {f"xla-msa {each.name}": each.options for each in PUBLIC_SETS}
AT_ONCE = (*XLA, "greedy-player")
"""Take no time to speak of."""
RANDOM = ("xla-autotune", "game-local-search", "portfolio")
"""Depend on the seed."""
COLUMNS = (*XLA, "xla-autotune", "greedy-player", "beam-search", "game-local-search", "portfolio")
SOLVERS = (*COLUMNS, "exact")
ENDLESS = 10**9
TINY = "synthetic:diamond?ops=9&seed=1"


def runs(names: Sequence[str], seconds: float, proof_seconds: float, seeds: int) -> list[Record]:
    """Everything that is measured of the ids with these names."""
    limits: dict[str, float | None] = dict.fromkeys(AT_ONCE) | {"exact": proof_seconds}
    return [
        {"name": name, "workload": name, **GAME[name], "solver": solver, "seed": seed, "seconds": limit}
        for name in names
        for solver in SOLVERS
        for limit in [limits.get(solver, seconds)]
        for seed in range(seeds if solver in RANDOM else 1)
    ]


def solver_of(name: str) -> agents.Agent[Any]:
    """The agent of a column."""
    return agents.XlaMsa(XLA[name]) if name in XLA else agents.make_agent(name)


def measure(run: Record) -> Record:
    """What one solver finds with one seed, in seconds."""
    _load_compiled_code()
    env = MallocGameEnv(**as_measured({key: run[key] for key in SETTING if key in run}, Formulation.GAME))
    limit, seed = run["seconds"], run["seed"]
    solution = solver_of(run["solver"]).solve(env, budget=ENDLESS, time_limit=limit, seed=seed)
    assert solution.report is not None
    return {
        **run,
        "chip": env.accelerator.name,
        "decisions": env.problem.num_decisions,
        "all_backing_s": solution.native_latency_s,
        "latency_s": solution.report.latency_s,
        "bound_s": solution.bound_s,
        "took_s": solution.seconds,
        "stall": stall_note(solution.report),
    }


@cache
def _load_compiled_code() -> None:
    env = MallocGameEnv(TINY)
    for name in SOLVERS:
        solver_of(name).solve(env, budget=2000, time_limit=2.0)


def table(records: Sequence[Record]) -> str:
    """One line an id: the latency of the best of XLA's public option sets, then speed-ups over it.

    Of several seeds the mean of the latencies counts; behind it, from the slowest to the fastest.
    """
    by_name: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        by_name.setdefault(record["name"], {}).setdefault(record["solver"], []).append(record)
    heads = ["workload", "setting", "decisions", "all-backing ms", "best of xla-msa ms", "all-backing", *COLUMNS]
    heads += ["exact", "bound", "gap of exact", "exact s"]
    return markdown(heads, [_row(name, found) for name, found in by_name.items()])


def _row(name: str, found: dict[str, list[Record]]) -> list[str]:
    some = found["greedy-player"][0]
    reference_s = min(found[solver][0]["latency_s"] for solver in XLA)
    setting = ", ".join(filter(None, [some["chip"], setting_text(some)]))
    row = [name, setting, str(some["decisions"]), f"{some['all_backing_s'] * 1e3:.3f}", f"{reference_s * 1e3:.3f}"]
    row += [f"{reference_s / some['all_backing_s']:.3f}", *(_cell(found[solver], reference_s) for solver in COLUMNS)]
    exact = found["exact"][0]
    row += [_cell([exact], reference_s), f"{reference_s / exact['bound_s']:.3f}"]
    return [*row, f"{exact['latency_s'] / exact['bound_s'] - 1:.3%}", f"{exact['took_s']:.1f}"]


def _cell(records: Sequence[Record], reference_s: float) -> str:
    """Mean speed-up, the range if there is one, and how much the first plan stalls if it does."""
    speedups = [reference_s / record["latency_s"] for record in records]
    mean = reference_s / statistics.mean(record["latency_s"] for record in records)
    low, high = f"{min(speedups):.3f}", f"{max(speedups):.3f}"
    return f"{mean:.3f}{'' if low == high else f' ({low}–{high})'}{records[0]['stall']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="wall time of each search")
    parser.add_argument("--proof-seconds", type=float, help="wall time of the exact agent; default: as each search")
    parser.add_argument("--seeds", type=int, default=3, help="of what is random")
    parser.add_argument("--grid", action="store_true", help="every setting that might have an id")
    parser.add_argument("--choose", action="store_true", help="what the rule chooses from the saved grid")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds for the proof of a setting of the grid")
    parser.add_argument("--workload", help="only this one")
    parser.add_argument("--jobs", type=int, default=2, help="searches side by side, each on its own core")
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    options = parser.parse_args()
    if options.choose:
        records = game_grid.saved()
        content = f"{game_grid.table(game_grid.choose(records))}\n{game_grid.summary(records)}"
    elif options.grid:
        settings = [each for each in game_grid.grid() if options.workload in (None, each["workload"])]
        records = game_grid.complete(settings, options.time_limit, options.jobs)
        content = f"{game_grid.summary(records)}\n{game_grid.table(records)}"
    else:
        names = [name for name in GAME if options.workload in (None, name)]
        proof_seconds = options.seconds if options.proof_seconds is None else options.proof_seconds
        asked = runs(names, options.seconds, proof_seconds, options.seeds)
        with single_cores(options.jobs) as pool:
            content = table(Ledger(RESULTS, FIELDS).complete(asked, measure, pool))
    print(content)
    if options.write:
        marker = "choice" if options.choose else "grid" if options.grid else "game"
        write_between_markers(options.write, marker, content)


if __name__ == "__main__":
    main()

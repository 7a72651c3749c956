"""Compare searches of mallocGame: XLA's memory-space assignment, its autotuner, our searches, and the proven bound.

    python -m benchmarks.game                                   # the games of suite quick-v1, as a table
    python -m benchmarks.game --names BERT GPT2 --seconds 60    # other registered games, with more time
    python -m benchmarks.game --write docs/game.md

A run that was stopped continues with what is missing in results/game.jsonl. Each search has one core and the same wall
time. Two searches side by side use two cores, so times compare whatever uses threads.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import memplace_agents
from benchmarks.cores import single_cores
from benchmarks.ledger import SETTING, Ledger, Record
from benchmarks.tables import benchmark_parser, markdown_table, milliseconds, publish
from memplace_agents.xla_msa import PUBLIC_SETS
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.registration import GAME, Formulation
from memplace_env.leaderboard.suite import load_suite
from memplace_env.report.plans.headlines import stall_note

RESULTS = Path(__file__).parent / "results" / "game.jsonl"
FIELDS = ("name", *SETTING, "solver", "seed", "seconds")
XLA = {f"xla-msa {public.name}": public.options for public in PUBLIC_SETS}
INSTANT = (*XLA, "greedy-player")
"""Solvers without a time limit, as they take milliseconds."""
SEEDED = ("xla-autotune", "game-local-search", "cross-entropy", "portfolio")
"""Solvers whose plan depends on the seed."""
COLUMNS = ("greedy-player", "xla-autotune", "game-local-search", "cross-entropy", "portfolio")
SOLVERS = (*XLA, *COLUMNS, "exact")
ENDLESS = 10**9
TINY = "synthetic:diamond?ops=9&seed=1"
"""Program whose game loads compiled code before the first measurement."""


def quick_games() -> list[str]:
    """Return the names of the games in suite quick-v1."""
    ids = {Formulation.GAME.traits.env_id(name): name for name in GAME}
    return [ids[env_id] for env_id in load_suite("quick-v1").instances if env_id in ids]


def runs(names: Sequence[str], seconds: float, proof_seconds: float, seeds: int) -> list[Record]:
    """Return the settings of all runs on the games with these names."""
    limits: dict[str, float | None] = dict.fromkeys(INSTANT) | {"exact": proof_seconds}
    return [
        {"name": name, "workload": name, **GAME[name], "solver": solver, "seed": seed, "seconds": limit}
        for name in names
        for solver in SOLVERS
        for limit in [limits.get(solver, seconds)]
        for seed in range(seeds if solver in SEEDED else 1)
    ]


def solver_of(name: str) -> memplace_agents.Agent[Any]:
    """Return the agent of a solver's name."""
    return memplace_agents.XlaMsa(XLA[name]) if name in XLA else memplace_agents.make_agent(name)


def measure(run: Record) -> Record:
    """Return a run's setting with its latency, its bound, its seconds and its stalls."""
    _load_compiled_code()
    env = MallocGameEnv(**{key: run[key] for key in SETTING if key in run})
    limit, seed = run["seconds"], run["seed"]
    solution = solver_of(run["solver"]).solve(env, budget=ENDLESS, time_limit=limit, seed=seed)
    assert solution.report is not None
    return {
        **run,
        "chip": env.accelerator.name,
        "decisions": env.problem.num_decisions,
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
    """Return a Markdown table with a row for each game: speed-ups over the faster of XLA's public option sets.

    A solver with several seeds has the mean of its latencies, and in brackets the slowest and the fastest run.
    """
    by_name: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        by_name.setdefault(record["name"], {}).setdefault(record["solver"], []).append(record)
    heads = ["game", "decisions", "xla-msa ms", *COLUMNS, "exact", "bound"]
    return markdown_table(heads, [_row(name, by_solver) for name, by_solver in by_name.items()])


def _row(name: str, by_solver: dict[str, list[Record]]) -> list[str]:
    reference_s = min(by_solver[solver][0]["latency_s"] for solver in XLA)
    row = [name, str(by_solver["greedy-player"][0]["decisions"]), milliseconds(reference_s)]
    row += [_cell(by_solver[solver], reference_s) for solver in (*COLUMNS, "exact")]
    return [*row, f"{reference_s / by_solver['exact'][0]['bound_s']:.3f}"]


def _cell(records: Sequence[Record], reference_s: float) -> str:
    """Return the mean speed-up, the range if there is one, and the first plan's stalls if it has any."""
    speedups = [reference_s / record["latency_s"] for record in records]
    mean = reference_s / statistics.mean(record["latency_s"] for record in records)
    low, high = f"{min(speedups):.3f}", f"{max(speedups):.3f}"
    return f"{mean:.3f}{'' if low == high else f' ({low}–{high})'}{records[0]['stall']}"


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--names", nargs="+", choices=GAME, default=quick_games(), metavar="NAME", help="games")
    parser.add_argument("--seconds", type=float, default=6.0, help="wall time of each search (default 6)")
    parser.add_argument("--proof-seconds", type=float, default=30.0, help="wall time of the exact agent (default 30)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each solver that depends on one (default 3)")
    parser.add_argument("--jobs", type=int, default=2, help="searches side by side, each on its own core (default 2)")
    options = parser.parse_args()
    settings = runs(options.names, options.seconds, options.proof_seconds, options.seeds)
    with single_cores(options.jobs) as pool:
        records = Ledger(RESULTS, FIELDS).complete(settings, measure, pool)
    publish({"game": table(records)}, options.write)


if __name__ == "__main__":
    main()

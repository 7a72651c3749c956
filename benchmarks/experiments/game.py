"""Searches of mallocGame: XLA's memory-space assignment, its autotuner, our searches, and the proven bound.

The games are those of suite quick-v1. Each search has one core and the same wall time. Two searches side by side use
two cores, so times compare whatever uses threads.
"""

from __future__ import annotations

import statistics
from functools import cache, partial
from typing import Any, NamedTuple

import memplace_agents
from benchmarks.harness import Columns, Experiment, Records, milliseconds, table
from benchmarks.ledger import SETTING, Record
from memplace_agents.xla_msa import PUBLIC_SETS
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.registration import GAME, Formulation
from memplace_env.program.model_file import as_written
from memplace_env.report.plans.headlines import stall_note
from memplace_leaderboard.suite import load_suite

XLA = {f"xla-msa {public.name}": public.options for public in PUBLIC_SETS}
INSTANT = (*XLA, "greedy-player")
"""Solvers without a time limit, as they take milliseconds."""
SEEDED = ("xla-autotune", "game-local-search", "cross-entropy", "portfolio")
"""Solvers whose plan depends on the seed."""
SEARCHES = ("greedy-player", "xla-autotune", "game-local-search", "cross-entropy", "portfolio")
SOLVERS = (*XLA, *SEARCHES, "exact")
ENDLESS = 10**9
TINY = "synthetic:diamond?ops=9&seed=1"
"""Program whose game loads compiled code before the first measurement."""


SECONDS, PROOF_SECONDS, SEEDS = 6.0, 30.0, 3
"""Wall time of each search and of the exact agent, and seeds of each solver that depends on one."""


def settings(records: Records = ()) -> list[Record]:
    """Return the settings of all runs."""
    limits: dict[str, float | None] = dict.fromkeys(INSTANT) | {"exact": PROOF_SECONDS}
    ids = {Formulation.GAME.traits.env_id(name): name for name in GAME}
    return [
        {"name": name, "workload": name, **GAME[name], "solver": solver, "seed": seed, "seconds": limit}
        for name in (ids[env_id] for env_id in load_suite("quick-v1").instances if env_id in ids)
        for solver in SOLVERS
        for limit in [limits.get(solver, SECONDS)]
        for seed in range(SEEDS if solver in SEEDED else 1)
    ]


def solver_of(name: str) -> memplace_agents.Agent[Any]:
    """Return the agent of a solver's name."""
    return memplace_agents.XlaMsa(XLA[name]) if name in XLA else memplace_agents.make_agent(name)


def measure(run: Record) -> Record:
    """Return a run's setting with its latency, its bound, its seconds and its stalls."""
    _load_compiled_code()
    chip = run.get("accelerator", Formulation.GAME.traits.accelerator)
    env = MallocGameEnv(**{key: run[key] for key in SETTING if key in run}, **as_written(chip))
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


class Searches(NamedTuple):
    """The records of one game by solver."""

    name: str
    runs: dict[str, list[Record]]

    @property
    def reference_s(self) -> float:
        """Latency of the faster of XLA's public option sets."""
        return min(float(self.runs[solver][0]["latency_s"]) for solver in XLA)

    def cell(self, solver: str) -> str:
        """Return the mean speed-up, the range over seeds if there is one, and the first plan's stalls if it has any."""
        records, reference_s = self.runs[solver], self.reference_s
        speedups = [reference_s / record["latency_s"] for record in records]
        mean = reference_s / statistics.mean(record["latency_s"] for record in records)
        low, high = f"{min(speedups):.3f}", f"{max(speedups):.3f}"
        return f"{mean:.3f}{'' if low == high else f' ({low}–{high})'}{records[0]['stall']}"


def by_game(records: Records) -> list[Searches]:
    """Return the records game by game."""
    found: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        found.setdefault(record["name"], {}).setdefault(record["solver"], []).append(record)
    return [Searches(*item) for item in found.items()]


COLUMNS: Columns = {
    "game": lambda game: game.name,
    "decisions": lambda game: game.runs["greedy-player"][0]["decisions"],
    "xla-msa ms": lambda game: milliseconds(game.reference_s),
    **{solver: partial(Searches.cell, solver=solver) for solver in (*SEARCHES, "exact")},
    "bound": lambda game: f"{game.reference_s / game.runs['exact'][0]['bound_s']:.3f}",
}
EXPERIMENTS = [
    Experiment(
        "game",
        __doc__,
        {"docs/environments.md#game": table(COLUMNS, by_game)},
        settings,
        measure,
        key=("name", *SETTING, "solver", "seed", "seconds"),
    )
]

"""Part `steps`: plan-gradient on maps, beside local search, in a minute of one core each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from benchmarks.learning import statistics
from benchmarks.learning.curves import Panel, draw, grid_to
from benchmarks.learning.part import Part, Shown
from benchmarks.learning.runs import BEST_RULE, EXACT, SEARCHES, first_ids, free, limited
from benchmarks.learning.statistics import Shares
from benchmarks.ledger import Record
from benchmarks.tables import markdown_table
from memplace_env.envs.registration import Formulation

PROGRAMS = ("ResNet50", "ResNet101", "BERT")
"""Programs of the EGRL paper."""
MAPS = {name: Formulation.ONE_SHOT.traits.env_id(name) for name in PROGRAMS}
IDS = tuple(first_ids(Formulation.ONE_SHOT, 12))
"""Other maps by a rule, which have seed 0 only."""
SECONDS = 60.0
SOLVERS = {
    SEARCHES[Formulation.ONE_SHOT]: "local search",
    "plan-gradient": "plan-gradient",
    "cross-entropy": "cross-entropy",
}
"""Solvers with seeds, and their names in tables."""


def runs(seeds: int, records: Sequence[Record] = ()) -> list[Record]:
    """Return the settings of all runs; all programs with one seed come before the next seed, and other maps last."""
    programs = tuple(MAPS.values())
    others = tuple(env_id for env_id in IDS if env_id not in programs)
    seeded = [*product(range(seeds), programs, SOLVERS), *product([0], others, SOLVERS)]
    settings = [limited(env_id, solver, seed, seconds=SECONDS) for seed, env_id, solver in seeded]
    return [*free(programs), *settings, *free(others)]


def best_rule(records: Sequence[Record], env_ids: Sequence[str]) -> Shares:
    """Return the shares of the best rule on one-shot environments."""
    return Shares.of(records, env_ids, BEST_RULE)


def exact_record(records: Sequence[Record], env_id: str) -> Record:
    """Return the record of the exact agent's run on an environment."""
    return next(record for record in records if (record["id"], record["solver"]) == (env_id, EXACT))


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table with a row for each program, and one for the first ids once all of these are recorded:
    percentages of the best known gain, means of the seeds.
    """
    heads = ["program", "exact", "best rule", *SOLVERS.values(), "its s", "its maps"]
    rows = []
    for name, env_id in MAPS.items():
        exact, ids = exact_record(records, env_id), (env_id,)
        found = {solver: Shares.of(records, ids, solver, seconds=SECONDS) for solver in SOLVERS}
        rows.append(
            [
                name,
                f"{statistics.speedup(exact):.4f} in {exact['took_s']:.1f} s",
                best_rule(records, ids).cell(),
                *(shares.cell() for shares in found.values()),
                f"{found['plan-gradient'].seconds[0].mean():.1f}",
                f"{found['plan-gradient'].plans.mean():,.0f}",
            ]
        )
    return markdown_table(heads, [*rows, *first_ids_row(records)])


def first_ids_row(records: Sequence[Record]) -> list[list[str]]:
    """Return the row of the first ids, seed 0; none before all of their runs are recorded."""
    first = [record for record in records if record["seed"] == 0]
    timed = {(record["id"], record["solver"]) for record in first if record.get("seconds") == SECONDS}
    if not timed.issuperset(product(IDS, (*SOLVERS, EXACT))):
        return []
    exact = Shares.of(first, IDS, EXACT)
    found = {solver: Shares.of(first, IDS, solver, seconds=SECONDS) for solver in SOLVERS}
    return [
        [
            f"{len(IDS)} ids, one seed",
            f"{exact.mean:.1f} in {exact.seconds.mean():.1f} s",
            best_rule(first, IDS).cell(),
            *(shares.cell() for shares in found.values()),
            f"{found['plan-gradient'].seconds.mean():.1f}",
            f"{found['plan-gradient'].plans.mean():,.0f}",
        ]
    ]


def panels(records: Sequence[Record]) -> list[Panel]:
    """Return the curves of each program."""
    grid = grid_to(SECONDS)
    return [
        Panel(
            name,
            "processor seconds",
            grid,
            {
                title: statistics.curves(records, (env_id,), solver, grid, seconds=SECONDS)
                for solver, title in SOLVERS.items()
            },
            {"best rule": best_rule(records, (env_id,)).mean},
        )
        for name, env_id in MAPS.items()
    ]


def show(records: Sequence[Record]) -> Shown:
    """Return the table and the picture."""
    return Shown({"learning-steps": table(records)}, {}, {"learning-steps.png": draw(panels(records))})


PART = Part(runs, show, ("learning.md",))

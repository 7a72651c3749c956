"""Part `ablations`: EGRL without one of its parts, and the published method with both halves and with each alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from benchmarks.learning import statistics
from benchmarks.learning.egrl import EGRL, MANY, PROGRAMS
from benchmarks.learning.part import Part, Shown
from benchmarks.learning.runs import limited
from benchmarks.learning.statistics import Shares
from benchmarks.learning.steps import MAPS
from benchmarks.ledger import Record
from benchmarks.tables import markdown_table
from memplace_agents.egrl.egrl_config import CONFIGS

ABLATIONS = {f"egrl:{name}": name.replace("-", " ") for name in CONFIGS if name.startswith("no-")}
"""Solvers that are the default without one of its parts, and their names in the table."""
HALVES = {
    "egrl:paper-ea": "paper, population alone",
    "egrl:paper-pg": "paper, gradient alone",
    "egrl:paper": "paper, both",
}
"""The halves of the published method, and both."""
SOLVERS = {EGRL: "default", **ABLATIONS, **HALVES}


def runs(seeds: int, records: Sequence[Record] = ()) -> list[Record]:
    """Return the settings of all runs; all solvers with one seed come before the next seed."""
    return [limited(e, solver, seed, plans=MANY) for seed, solver, e in product(range(seeds), SOLVERS, PROGRAMS)]


def table(records: Sequence[Record], solvers: Sequence[str], whole: str) -> str:
    """Return a Markdown table with a row for each solver: percentages of the best known gain at `MANY` maps.

    Args:
        records: the records of all runs.
        solvers: a row each.
        whole: the solver of which the others lack a part.
    """
    rows = []
    for solver in solvers:
        found = Shares.of(records, PROGRAMS, solver, plans=MANY)
        of_each = [Shares.of(records, (env_id,), solver, plans=MANY).cell() for env_id in PROGRAMS]
        change = (
            "" if solver == whole else statistics.difference(found, Shares.of(records, PROGRAMS, whole, plans=MANY))
        )
        rows.append([SOLVERS[solver], *of_each, f"{found.mean:.1f}", change, f"{found.seconds.mean():.1f}"])
    return markdown_table(["EGRL", *MAPS, "mean", "against the whole", "s"], rows)


def show(records: Sequence[Record]) -> Shown:
    """Return a table of the default's parts, and one of the published method's halves."""
    ours = table(records, (EGRL, *ABLATIONS), EGRL)
    return Shown({"egrl-ablations": ours, "egrl-halves": table(records, tuple(HALVES), "egrl:paper")}, {}, {})


PART = Part(runs, show, ("egrl.md",))

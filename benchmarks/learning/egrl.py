"""Part `egrl`: EGRL beside local search, rules and proofs, at equal evaluations and in equal time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from benchmarks.learning import statistics
from benchmarks.learning.curves import Panel, draw, grid_to
from benchmarks.learning.part import Part, Shown
from benchmarks.learning.runs import BEST_RULE, EXACT, SEARCHES, free, limited
from benchmarks.learning.statistics import Shares
from benchmarks.learning.steps import IDS, MAPS, best_rule
from benchmarks.ledger import Record
from benchmarks.tables import DataFile, markdown_table
from memplace_env.envs.registration import Formulation

PROGRAMS = tuple(MAPS.values())
FEW, MANY = 1_000, 4_000
"""Maps on `IDS` and on `PROGRAMS`."""
EGRL = "egrl"
OTHERS = {SEARCHES[Formulation.ONE_SHOT]: "local search", "cross-entropy": "cross-entropy"}
"""Searches beside it, and their names in tables; EGRL's lead is over the first."""
BASELINES = ("all-backing", "results-first", "weights-first", "native", "density-greedy", "all-fastest")
"""Rules from which EGRL's speed-up is counted, weaker ones first."""


def runs(seeds: int, records: Sequence[Record] = ()) -> list[Record]:
    """Return the settings of all runs; other searches with EGRL's seconds follow once these are known."""
    every, solvers = range(seeds), (EGRL, *OTHERS)
    searches = [limited(e, solver, seed, plans=MANY) for seed, e, solver in product(every, PROGRAMS, solvers)]
    few = [limited(e, solver, seed, plans=FEW) for seed, e, solver in product(every, IDS, solvers)]
    equal = [
        limited(env_id, solver, seed, seconds=seconds)
        for (env_id, seconds), solver, seed in product(seconds_of(records).items(), OTHERS, every)
    ]
    return [*free(tuple(dict.fromkeys((*PROGRAMS, *IDS)))), *searches, *few, *equal]


def seconds_of(records: Sequence[Record]) -> dict[str, float]:
    """Return EGRL's mean processor seconds for `MANY` maps of each program that has records, rounded up."""
    took = {
        env_id: [r["took_s"] for r in records if (r["id"], r["solver"], r.get("plans")) == (env_id, EGRL, MANY)]
        for env_id in PROGRAMS
    }
    return {env_id: float(math.ceil(sum(found) / len(found))) for env_id, found in took.items() if found}


def results_table(records: Sequence[Record]) -> str:
    """Return a Markdown table with a row for each program, and one for the first ids: percentages of the best known."""
    heads = ["environments", "best rule", *OTHERS.values(), "EGRL", "EGRL ahead by"]
    heads += [
        *(f"{title} in EGRL's time" for title in OTHERS.values()),
        f"s: EGRL, {', '.join(OTHERS.values())}, exact",
    ]
    rows = []
    for name, env_id in MAPS.items():
        seconds = seconds_of(records)[env_id]
        equal = [Shares.of(records, (env_id,), solver, seconds=seconds).cell() for solver in OTHERS]
        rows.append(_row(records, name, (env_id,), MANY, equal))
    return markdown_table(heads, [*rows, _row(records, f"{len(IDS)} ids", IDS, FEW, [""] * len(OTHERS))])


def _row(records: Sequence[Record], title: str, env_ids: Sequence[str], plans: int, equal: Sequence[str]) -> list[str]:
    others, egrl = _shares(records, env_ids, plans)
    seconds = [shares.seconds.mean() for shares in (egrl, *others, Shares.of(records, env_ids, EXACT))]
    cells = [*(found.cell() for found in others), egrl.cell(), statistics.difference(egrl, others[0]), *equal]
    spent = " / ".join(f"{mean:.1f}" for mean in seconds)
    return [f"{title}, {plans:,} maps", best_rule(records, env_ids).cell(), *cells, spent]


def _shares(records: Sequence[Record], env_ids: Sequence[str], plans: int) -> tuple[list[Shares], Shares]:
    """Return the shares of the other searches, and of EGRL."""
    *others, egrl = (Shares.of(records, env_ids, solver, plans=plans) for solver in (*OTHERS, EGRL))
    return others, egrl


def baseline_table(records: Sequence[Record]) -> str:
    """Return a Markdown table of the percentage by which EGRL's plans are faster than those of rules, a row each."""
    rows = []
    for name, env_id in MAPS.items():
        egrl = statistics.mean_speedup(records, env_id, EGRL, plans=MANY)
        rules = (*(f"native:{rule}" for rule in BASELINES), BEST_RULE)
        others = [statistics.mean_speedup(records, env_id, rule) for rule in rules]
        rows.append([name, *(f"{100 * (egrl / other - 1):+.1f}" for other in others)])
    return markdown_table(["EGRL's plans over", *BASELINES, "best rule"], rows)


def panels(records: Sequence[Record]) -> list[Panel]:
    """Return the curves of each program over the maps evaluated."""
    grid, shown = grid_to(MANY), {EGRL: "EGRL", **OTHERS}
    return [
        Panel(
            name,
            "maps evaluated",
            grid,
            {title: statistics.curves(records, (env_id,), solver, grid, plans=MANY) for solver, title in shown.items()},
            {"best rule": best_rule(records, (env_id,)).mean},
        )
        for name, env_id in MAPS.items()
    ]


def data_file(records: Sequence[Record]) -> DataFile:
    """Return the figures of the first ids: a row for each."""
    others, egrl = _shares(records, IDS, FEW)
    titles, searches = [*OTHERS.values(), "EGRL"], [*others, egrl]
    columns = [best_rule(records, IDS).of_instances, *(found.of_instances for found in searches)]
    times = [found.seconds.mean(axis=0) for found in searches]
    rows = [
        [env_id, *(f"{value:.2f}" for value in values), *(f"{value:.1f}" for value in spent)]
        for env_id, values, spent in zip(IDS, zip(*columns, strict=True), zip(*times, strict=True), strict=True)
    ]
    return DataFile(
        ["id", *(f"{title} %" for title in ("best rule", *titles)), *(f"{title} s" for title in titles)], rows
    )


def show(records: Sequence[Record]) -> Shown:
    """Return the tables, the figures of the first ids and the picture."""
    tables = {"egrl": results_table(records), "egrl-baselines": baseline_table(records)}
    return Shown(tables, {"egrl-ids.csv": data_file(records)}, {"egrl.png": draw(panels(records))})


PART = Part(runs, show, ("egrl.md",))

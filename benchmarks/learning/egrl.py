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
EGRL, SEARCH = "egrl", SEARCHES[Formulation.ONE_SHOT]
BASELINES = ("all-backing", "results-first", "weights-first", "native", "density-greedy", "all-fastest")
"""Rules from which EGRL's speed-up is counted, weaker ones first."""


def runs(seeds: int, records: Sequence[Record] = ()) -> list[Record]:
    """Return the settings of all runs; local search with EGRL's seconds follows once these are known."""
    every = range(seeds)
    searches = [limited(e, solver, seed, plans=MANY) for seed, e, solver in product(every, PROGRAMS, (EGRL, SEARCH))]
    few = [limited(e, solver, seed, plans=FEW) for seed, e, solver in product(every, IDS, (EGRL, SEARCH))]
    equal = [
        limited(env_id, SEARCH, seed, seconds=seconds)
        for env_id, seconds in seconds_of(records).items()
        for seed in every
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
    heads = ["environments", "best rule", "local search", "EGRL", "EGRL ahead by", "local search in EGRL's time"]
    seconds = seconds_of(records)
    rows = [
        _row(records, name, (env_id,), MANY, Shares.of(records, (env_id,), SEARCH, seconds=seconds[env_id]).cell())
        for name, env_id in MAPS.items()
    ]
    rows.append(_row(records, f"{len(IDS)} ids", IDS, FEW, ""))
    return markdown_table([*heads, "s: EGRL, local search, exact"], rows)


def _row(records: Sequence[Record], title: str, env_ids: Sequence[str], plans: int, equal: str) -> list[str]:
    search, egrl = _pair(records, env_ids, plans)
    seconds = [shares.seconds.mean() for shares in (egrl, search, Shares.of(records, env_ids, EXACT))]
    cells = [search.cell(), egrl.cell(), statistics.difference(egrl, search), equal]
    spent = " / ".join(f"{mean:.1f}" for mean in seconds)
    return [f"{title}, {plans:,} maps", best_rule(records, env_ids).cell(), *cells, spent]


def _pair(records: Sequence[Record], env_ids: Sequence[str], plans: int) -> tuple[Shares, Shares]:
    """Return the shares of local search and of EGRL."""
    search, egrl = (Shares.of(records, env_ids, solver, plans=plans) for solver in (SEARCH, EGRL))
    return search, egrl


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
    grid, shown = grid_to(MANY), {EGRL: "EGRL", SEARCH: "local search"}
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
    search, egrl = _pair(records, IDS, FEW)
    rule = best_rule(records, IDS)
    columns = [rule.of_instances, search.of_instances, egrl.of_instances]
    times = [search.seconds.mean(axis=0), egrl.seconds.mean(axis=0)]
    rows = [
        [env_id, *(f"{value:.2f}" for value in values), *(f"{value:.1f}" for value in spent)]
        for env_id, values, spent in zip(IDS, zip(*columns, strict=True), zip(*times, strict=True), strict=True)
    ]
    return DataFile(["id", "best rule %", "local search %", "EGRL %", "local search s", "EGRL s"], rows)


def show(records: Sequence[Record]) -> Shown:
    """Return the tables, the figures of the first ids and the picture."""
    tables = {"egrl": results_table(records), "egrl-baselines": baseline_table(records)}
    return Shown(tables, {"egrl-ids.csv": data_file(records)}, {"egrl.png": draw(panels(records))})


PART = Part(runs, show, ("egrl.md",))

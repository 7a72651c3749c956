"""Gains that the event simulator leaves to find, and the settings that have an id `...-Event-v0`.

Seconds are processor seconds.

What is left. A plan leaves its latency by the event simulator over that of the best plan found, minus 1. The best found
is the fastest plan that any solver of the table evaluated on that machine, in any of three seeds; among them is a local
search of 4,000 measurements that begins with the best of all rules' and exact plans. It bounds from below what there is
to find. Solvers with seeds have their mean.

The settings. Maps on nnp-i at their ids' batches, with one and with two tile buffers, maps on intel-npu-4000 at batch 8
and games were selected before anything was measured. The same maps on intel-npu-4000 at batch 1, and MobileNetV2 at
both batches, were added after a reviewer saw that the batch matters.

The rule for ids. A setting of the table has an id with the event simulator on the chip's own mechanisms, whether or not
it has one without events, where `LEAST` or more is left over each cheap solver: the rules (maps: native, all-fastest,
density-greedy in all variants; games: XLA's public option sets, the greedy player), the exact agent with and without
its tie-break under the chip's costs, and the calibrated agent with 100 measurements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from benchmarks.experiments import event_cases
from benchmarks.experiments.event_cases import (
    ABLATED,
    BATCH_1,
    BEST_RULE,
    CALIBRATED,
    CASES,
    CHANGES,
    FROM_BEST,
    NO_TIE_BREAK,
    NPU,
    TWO_BUFFERS,
    Case,
)
from benchmarks.harness import Columns, Experiment, Records, Row, data, milliseconds, table
from benchmarks.ids_file import IDS, with_variant
from benchmarks.ledger import Record
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS

END: Final = "Event"
LEAST: Final = 0.02
CHEAP: Final = (BEST_RULE, NO_TIE_BREAK, "exact", CALIBRATED)
"""Cheap solvers, over which enough must be left for an id."""
SHOWN: Final = 10
"""Most rows of a table of settings; of the table of what is left, half for each formulation."""
TITLES: Final = {
    "native": "native",
    "all-fastest": "all-fastest",
    "all-backing": "all backing",
    "xla-msa": "XLA's sets",
    "density-greedy": "density-greedy, best of ten",
    "greedy-player": "greedy player",
    BEST_RULE: "best rule",
    NO_TIE_BREAK: "exact without tie-break",
    "exact": "exact",
    CALIBRATED: "calibrated, 100",
    "local-search-100": "local search, 100",
    "local-search-500": "local search, 500",
    "local-search-4000": "local search, 4000",
    FROM_BEST: "from the best, 4000",
}
"""Names of solvers in tables."""


class Results(NamedTuple):
    """The records of one case.

    Attributes:
        case: the case.
        runs: its records by solver.
    """

    case: Case
    runs: Mapping[str, Sequence[Record]]

    @property
    def best(self) -> Record:
        """The record of the best plan found."""
        return min((run for runs in self.runs.values() for run in runs), key=lambda run: float(run["latency_s"]))

    def left(self, solver: str) -> float:
        """Return what a solver leaves, as a fraction, in the mean of its seeds; NaN without records."""
        runs = self.runs.get(solver, ())
        if not runs:
            return math.nan
        return sum(run["latency_s"] for run in runs) / len(runs) / float(self.best["latency_s"]) - 1

    @property
    def least(self) -> tuple[float, str]:
        """The least that a cheap solver leaves, and that solver."""
        return min((self.left(solver), solver) for solver in CHEAP if solver in self.runs)

    @property
    def ratio(self) -> float:
        """Latency of the exact plan without tie-break by the event simulator over that by the costs."""
        (run,) = self.runs[NO_TIE_BREAK]
        return float(run["latency_s"] / run["nominal_s"])

    @property
    def title(self) -> str:
        """The case in words."""
        traits = Formulation(self.case.formulation).traits
        kind = "game" if self.case.formulation == Formulation.GAME else "map"
        chip = "" if NPU in self.case.name else f" {traits.accelerator}"
        return f"{kind} {_named(self.case.name)}{chip}" + (f", {self.case.machine}" if self.case.machine else "")


def results(records: Iterable[Record]) -> list[Results]:
    """Return records by case, in their order."""
    by_case: dict[Case, dict[str, list[Record]]] = {}
    for record in records:
        case = Case(record["formulation"], record["name"], record["machine"])
        by_case.setdefault(case, {}).setdefault(record["solver"], []).append(record)
    return [Results(case, runs) for case, runs in by_case.items()]


def passes(result: Results) -> bool:
    """Return True if the rule gives the case an id; never before all cheap solvers are measured."""
    return result.case.machine == "" and all(result.left(solver) >= LEAST for solver in CHEAP)


def chosen(all_results: Sequence[Results]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the settings that have an id with the event simulator, by formulation and name.

    Raises:
        ValueError: if a map passes at batch 8 and at batch 1: both would have the same name.
    """
    table: dict[str, dict[str, dict[str, Any]]] = {kind.value: {} for kind in FORMULATIONS}
    for result in filter(passes, all_results):
        entries, name = table[result.case.formulation], result.case.name.removesuffix(BATCH_1)
        if name in entries:
            raise ValueError(f"{name} passes at two batches; change the names of event ids to tell them apart.")
        entries[name] = event_cases.settings_of(result.case)
    return table


def group(result: Results) -> str:
    """Return the column of a case in the table of means."""
    if result.case.formulation == Formulation.GAME:
        return "games"
    if NPU in result.case.name:
        return f"maps {NPU}, batch {1 if result.case.name.endswith(BATCH_1) else 8}"
    return ", ".join(filter(None, ("maps nnp-i", result.case.machine)))


def cases(records: Records) -> list[Results]:
    """Return the cases that are no ablations."""
    every = {result.case: result for result in results(records)}
    return [every[case] for case in CASES]


class Means(NamedTuple):
    """A row of the table of means: its title, and its factor on each case, which may be shown as its excess over 1."""

    title: str
    of: Callable[[Results], float]
    excess: bool = True

    def cell(self, found: Sequence[Results]) -> str:
        """Return the geometric mean over some cases."""
        mean = _mean([self.of(result) for result in found])
        return _percent(mean - 1) if self.excess else f"{mean:.2f}"


def of_solver(title: str, of_maps: str, of_games: str) -> Means:
    """Return the row of a solver of maps, and of one of games."""
    return Means(title, lambda r: 1 + r.left(of_games if r.case.formulation == Formulation.GAME else of_maps))


MEANS: Final = (
    Means("event over nominal latency", lambda result: result.ratio, excess=False),
    of_solver("native; XLA's sets", "native", "xla-msa"),
    of_solver("density-greedy; greedy player", "density-greedy", "greedy-player"),
    *(of_solver(TITLES[solver], solver, solver) for solver in (*CHEAP, *event_cases.SEARCHES)),
)


def means(records: Records) -> str:
    """Return a table of geometric means of what solvers leave, in percent."""
    groups: dict[str, list[Results]] = {}
    for result in cases(records):
        groups.setdefault(group(result), []).append(result)
    columns = {f"{title} ({len(found)})": partial(Means.cell, found=found) for title, found in groups.items()}
    return str(table({"solver": lambda row: row.title, **columns}, lambda records: MEANS)(records))


def most_left(records: Records) -> list[Results]:
    """Return the cases where the cheap solvers leave most, at most `SHOWN` in all, half of each formulation."""
    found = sorted(cases(records), key=lambda result: -result.least[0])
    return [r for kind in FORMULATIONS for r in [r for r in found if r.case.formulation == kind][: SHOWN // 2]]


def left(solver: str, of_games: str = "") -> Callable[[Results], str]:
    """Return a cell: what a solver of maps leaves, or one of games, in percent."""
    return lambda r: _percent(r.left(of_games if of_games and r.case.formulation == Formulation.GAME else solver))


def own(records: Records) -> list[Results]:
    """Return the settings on the chips' own mechanisms where the cheap solvers leave most."""
    found = [result for result in cases(records) if not result.case.machine]
    return sorted(found, key=lambda result: -result.least[0])[:SHOWN]


def ablated(name: str, machine: str) -> Callable[[Row], str]:
    """Return a cell: what exact plans leave on a machine with a change, tie-break second."""

    def cell(row: Row) -> str:
        change, by_case = row
        case = Case(Formulation.ONE_SHOT, name, ", ".join(filter(None, (machine, change))))
        return " / ".join(left(s)(by_case[case]) for s in (NO_TIE_BREAK, "exact")) if case in by_case else "–"

    return cell


def machines(records: Records) -> list[tuple[str, dict[Case, Results]]]:
    """Return the changes of machines, each with all cases."""
    by_case = {result.case: result for result in results(records)}
    return [(change, by_case) for change in ("", *(change for change in CHANGES if change != TWO_BUFFERS))]


def share_file(solver: str) -> Callable[[Results], str]:
    """Return a cell of the data file: what a solver leaves, in percent."""
    return lambda result: "" if math.isnan(result.left(solver)) else f"{100 * result.left(solver):.2f}"


def _named(name: str) -> str:
    return f"{name.removesuffix(BATCH_1)}, batch 1" if name.endswith(BATCH_1) else name


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}"


SETTING: Final[Columns] = {"setting": lambda result: result.title}
CHEAP_COLUMNS: Final[Columns] = {TITLES[solver]: left(solver) for solver in CHEAP}
EXPERIMENTS = [
    Experiment(
        "event",
        __doc__,
        {
            "docs/event.md#event-means": means,
            "docs/event.md#event-left": table(
                SETTING
                | {"native; XLA's sets": left("native", "xla-msa")}
                | CHEAP_COLUMNS
                | {TITLES["local-search-500"]: left("local-search-500")},
                most_left,
            ),
            "docs/event.md#event-ids": table(
                SETTING
                | CHEAP_COLUMNS
                | {"least": lambda r: TITLES[r.least[1]], "id": lambda r: "yes" if passes(r) else "no"},
                own,
            ),
            "docs/event.md#event-ablation": table(
                {
                    "machine": lambda row: row[0] or "all mechanisms",
                    **{
                        f"{name} nnp-i, {machine}" if machine else _named(name): ablated(name, machine)
                        for name, machine in ABLATED.items()
                    },
                },
                machines,
            ),
            "docs/data/event.csv": data(
                {
                    "formulation": lambda r: r.case.formulation,
                    "name": lambda r: r.case.name,
                    "machine": lambda r: r.case.machine,
                    "best ms": lambda r: milliseconds(r.best["latency_s"], 6),
                    "best by": lambda r: r.best["solver"],
                    "event over nominal": lambda r: f"{r.ratio:.4f}",
                    **{f"{solver} %": share_file(solver) for solver in TITLES},
                },
                cases,
            ),
            IDS: lambda records: with_variant(END, {"simulator": "event"}, chosen(cases(records))),
        },
        lambda records: event_cases.runs(CASES, event_cases.ablations()),
        event_cases.measure,
        key=(*Case._fields, "solver", "seed"),
    )
]

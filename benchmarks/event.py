"""Measure what the event simulator leaves to find, and select the settings that have an id `...-Event-v0`.

    python -m benchmarks.event                      # measures what is missing, and prints the tables
    python -m benchmarks.event --write docs/event.md       # and docs/data/event.csv, all figures
    python -m benchmarks.event --plot docs/pictures/event.png
    python -m benchmarks.event --register           # and writes memplace_env/envs/ids.json

A run that was stopped continues with what is missing in results/event.jsonl. Seconds are processor seconds.

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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import event_cases
from benchmarks.cores import single_cores
from benchmarks.event_cases import (
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
from benchmarks.event_picture import draw
from benchmarks.ids_file import register_variant
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, milliseconds, publish
from memplace_env._lib.files import write_atomically
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS

RESULTS: Final = Path(__file__).parent / "results" / "event.jsonl"
FIELDS: Final = (*Case._fields, "solver", "seed")
END: Final = "Event"
LEAST: Final = 0.02
CHEAP: Final = (BEST_RULE, NO_TIE_BREAK, "exact", CALIBRATED)
"""Cheap solvers, over which enough must be left for an id."""
DRAWN: Final = Case(Formulation.ONE_SHOT, "ResNet50-intel-npu-4000")
"""Case of the picture."""
GREEDY: Final = ("density-greedy", "greedy-player")
"""The greedy rules of maps and of games."""
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


def groups(all_results: Sequence[Results]) -> dict[str, list[Results]]:
    """Return the cases by the columns of the table of means."""
    columns: dict[str, list[Results]] = {}
    for result in all_results:
        if result.case.formulation == Formulation.GAME:
            title = "games"
        elif NPU in result.case.name:
            title = f"maps {NPU}, batch {1 if result.case.name.endswith(BATCH_1) else 8}"
        else:
            title = ", ".join(filter(None, ("maps nnp-i", result.case.machine)))
        columns.setdefault(title, []).append(result)
    return columns


def means_table(all_results: Sequence[Results]) -> str:
    """Return a Markdown table with a row for each solver: geometric means of what is left, in percent."""
    columns = groups(all_results)
    rows = [["event over nominal latency", *(f"{_mean([r.ratio for r in found]):.2f}" for found in columns.values())]]
    pairs = {"native; XLA's sets": ("native", "xla-msa"), "density-greedy; greedy player": GREEDY}
    alike = {TITLES[solver]: (solver, solver) for solver in CHEAP}
    alike |= {TITLES[solver]: (solver, solver) for solver in event_cases.SEARCHES}
    for title, (of_maps, of_games) in (pairs | alike).items():
        cells = []
        for found in columns.values():
            left = [r.left(of_games if r.case.formulation == Formulation.GAME else of_maps) for r in found]
            cells.append(_percent(_mean([1 + value for value in left]) - 1))
        rows.append([title, *cells])
    heads = ["solver", *(f"{title} ({len(found)})" for title, found in columns.items())]
    return markdown_table(heads, rows)


def left_table(all_results: Sequence[Results]) -> str:
    """Return a Markdown table of the cases where the cheap solvers leave most, at most `SHOWN` of each formulation."""
    rows = []
    for kind in FORMULATIONS:
        found = [result for result in all_results if result.case.formulation == kind]
        shown = sorted(found, key=lambda result: -result.least[0])[: SHOWN // 2]
        first = "xla-msa" if kind == Formulation.GAME else "native"
        columns = (first, *CHEAP, "local-search-500")
        rows += [[result.title, *(_percent(result.left(solver)) for solver in columns)] for result in shown]
    heads = ["native; XLA's sets", *(TITLES[solver] for solver in (*CHEAP, "local-search-500"))]
    return markdown_table(["setting", *heads], rows)


def ids_table(all_results: Sequence[Results]) -> str:
    """Return a Markdown table of the settings on the chips' own mechanisms where the cheap solvers leave most."""
    own = sorted((r for r in all_results if not r.case.machine), key=lambda result: -result.least[0])
    rows = [
        [r.title, *(_percent(r.left(solver)) for solver in CHEAP), TITLES[r.least[1]], "yes" if passes(r) else "no"]
        for r in own[:SHOWN]
    ]
    return markdown_table(["setting", *(TITLES[solver] for solver in CHEAP), "least", "id"], rows)


def ablation_table(all_results: Sequence[Results]) -> str:
    """Return a Markdown table with a row for each mechanism that is off: what exact plans leave, tie-break second."""
    by_case = {result.case: result for result in all_results}
    rows = []
    for change in ("", *(change for change in CHANGES if change != TWO_BUFFERS)):
        row = [change or "all mechanisms"]
        for name, machine in ABLATED.items():
            found = by_case.get(
                Case(Formulation.ONE_SHOT, name, ", ".join(filter(None, (machine, change)))),
            )
            row.append("–" if found is None else " / ".join(_percent(found.left(s)) for s in (NO_TIE_BREAK, "exact")))
        rows.append(row)
    heads = [_named(name) if not machine else f"{name} nnp-i, {machine}" for name, machine in ABLATED.items()]
    return markdown_table(["machine", *heads], rows)


def data_file(all_results: Sequence[Results]) -> DataFile:
    """Return all figures: a row for each case, what each solver leaves in percent."""
    solvers = [solver for solver in TITLES if any(solver in result.runs for result in all_results)]
    rows = []
    for result in all_results:
        left = [result.left(solver) for solver in solvers]
        cells = ["" if math.isnan(value) else f"{100 * value:.2f}" for value in left]
        best = [milliseconds(result.best["latency_s"], 6), result.best["solver"], f"{result.ratio:.4f}"]
        rows.append([*result.case, *best, *cells])
    heads = [*Case._fields, "best ms", "best by", "event over nominal", *(f"{solver} %" for solver in solvers)]
    return DataFile(heads, rows)


def _named(name: str) -> str:
    return f"{name.removesuffix(BATCH_1)}, batch 1" if name.endswith(BATCH_1) else name


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}"


def main() -> None:
    parser: Any = benchmark_parser(__doc__)
    parser.add_argument("--solvers", nargs="+", choices=TITLES, default=list(TITLES), help="measure only these")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="where to draw what the exact plans of `DRAWN` do")
    parser.add_argument("--register", action="store_true", help="write memplace_env/envs/ids.json")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side, each on its own core (default 1)")
    options = parser.parse_args()
    ledger, wanted = Ledger(RESULTS, FIELDS), event_cases.runs(CASES, event_cases.ablations())
    with single_cores(options.jobs) as pool:
        ledger.complete([run for run in wanted if run["solver"] in options.solvers], event_cases.measure, pool)
    every = {result.case: result for result in results(ledger.of(wanted))}
    found = [every[case] for case in CASES]
    tables = {"event-means": means_table(found), "event-left": left_table(found), "event-ids": ids_table(found)}
    tables |= {"event-ablation": ablation_table(list(every.values()))}
    publish(tables, options.write, {"event.csv": data_file(found)})
    if options.plot:
        plans = {
            words: event_cases.exact_plan(DRAWN, s)
            for s, words in ((NO_TIE_BREAK, "without tie-break"), ("exact", "with tie-break"))
        }
        write_atomically(options.plot, draw(event_cases.env_of(DRAWN).task, plans))
    table = chosen(found)
    if options.register and any(table.values()):
        register_variant(END, {"simulator": "event"}, table)
    elif options.register:
        print("The rule gives no setting an id; nothing is written.")


if __name__ == "__main__":
    main()

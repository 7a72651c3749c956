"""Gains that the event simulator leaves to find, and the settings that have an id `...-Event-v0`.

Seconds are processor seconds.

What is left. A plan leaves its latency by the event simulator over that of the best plan found, minus 1. The best found
is the fastest plan that any solver of the table evaluated on that machine, in any of three seeds, or that an earlier
campaign left in best-plans.zip, which has plans of ids only. Among the solvers is a local search of 4,000 measurements
that begins with the best of all rules' and exact plans. It bounds from below what there is to find. Solvers with seeds
have their mean. In the table of mechanisms the best is that of the solvers which ran on all of its machines.

The settings. Maps on nnp-i at their ids' batches, with one and with two tile buffers, maps on intel-npu-4000 at batch 8
and games were selected before anything was measured. The same maps on intel-npu-4000 at batch 1, and MobileNetV2 at
both batches, were added after a reviewer saw that the batch matters.

The rule for ids. A setting of the table has an id with the event simulator on the chip's own mechanisms, whether or not
it has one without events, where `LEAST` or more is left over each cheap solver: the rules (maps: native, all-fastest,
density-greedy in all variants; games: XLA's public option sets, the greedy player), the exact agent with and without
its tie-break under the chip's costs, and the calibrated agent with 100 measurements. An id stays while the plan kept of
it leaves room for the rule: no search of the last campaign was as fast as that of ResNet50 at batch 1. ViT at batch 1
has none, as no plan of it was kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from statistics import geometric_mean
from typing import Any, Final, NamedTuple

import gymnasium as gym

from benchmarks.experiments import proofs
from benchmarks.experiments.event_search import MachineAnnealing, Offered
from benchmarks.experiments.suite import IDS, with_variant
from benchmarks.harness import Experiment, Records, Row, data, milliseconds, table
from benchmarks.ledger import Record
from memplace_agents import Exact, LocalSearch
from memplace_agents.calibrated import Calibrated
from memplace_agents.search.agent import Agent
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.accelerator.event_description import NO_MECHANISMS, Mechanisms
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import EventSimulator, evaluate_plan, time_plan
from memplace_env.program.model_file import as_written

Env = OneShotEnv | MallocGameEnv

SECONDS: Final = 60.0
"""Time limit of an exact solve under the costs."""
TINY: Final = "synthetic:diamond?ops=9&seed=1"
"""Program whose solution loads compiled code before the first one with a time limit."""
SEEDS: Final = range(3)
SEARCHES: Final = {"local-search-100": 100, "local-search-500": 500, "local-search-4000": 4000}
"""Measurements of the searches."""
BEST_RULE: Final = "best-rule"
FROM_BEST: Final = "search-from-best"
CALIBRATED: Final = "calibrated-100"
KEPT: Final = "kept"
NO_TIE_BREAK: Final = "exact-no-tie-break"
RULES: Final = {
    Formulation.ONE_SHOT: ("native", "all-fastest", "density-greedy", BEST_RULE),
    Formulation.GAME: ("all-backing", "xla-msa", "greedy-player", BEST_RULE),
}
"""Solvers that need no search; `BEST_RULE` measures the plans of all rules."""
BUDGETS: Final = {FROM_BEST: max(SEARCHES.values()), **SEARCHES, CALIBRATED: 100}
"""Measurements of the solvers that depend on the seed."""
SOLVERS: Final = {kind: (*rules, NO_TIE_BREAK, "exact", *BUDGETS) for kind, rules in RULES.items()}
"""Solvers by formulation, in the order in which they are measured."""
ABLATION: Final = (BEST_RULE, NO_TIE_BREAK, "exact", FROM_BEST)
"""Solvers of maps on machines without a mechanism."""
TWO_BUFFERS: Final = "two buffers"
END: Final = "Event"
LEAST: Final = 0.02
CHEAP: Final = (BEST_RULE, NO_TIE_BREAK, "exact", CALIBRATED)
"""Cheap solvers, over which enough must be left for an id."""
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


class Case(NamedTuple):
    """A setting on a machine.

    Attributes:
        formulation: value of a `Formulation`.
        name: the setting's name, as in ids.
        machine: changes of the chip's mechanisms, see `CHANGES`, with commas between; empty: the chip's own.
    """

    formulation: str
    name: str
    machine: str = ""


def _two_buffers(on: Mechanisms) -> Mechanisms:
    return replace(on, tiles=on.tiles and replace(on.tiles, buffers=2))


CHANGES: Final[dict[str, Callable[[Mechanisms], Mechanisms]]] = {
    TWO_BUFFERS: _two_buffers,
    "no tiles": lambda on: replace(on, tiles=None),
    "one op in flight": lambda on: replace(on, tiles=on.tiles and replace(on.tiles, ops_in_flight=1)),
    "no DMA engines": lambda on: replace(on, dma=None),
    "no DRAM banks": lambda on: replace(on, dram=None),
    "no mechanism": lambda on: NO_MECHANISMS,
}
_NNP_I: Final = ("BERT", "GPT2", "ResNet50", "InceptionV3", "ConvNeXt-tiny", "DenseNet121", "MobileNetV2", "ViT")
_NPU: Final = ("BERT", "ResNet50", "InceptionV3", "DenseNet121", "ViT", "MobileNetV2")
_GAMES: Final = ("BERT", "GPT2", "T5-small", "ViT", "Whisper-tiny", "ResNet50-intel-npu-4000")
NPU: Final = "intel-npu-4000"
BATCH_1: Final = "-b1"
"""End of the names of cases on that chip at batch 1; the others have batch 8."""
CASES: Final = (
    *(Case(Formulation.ONE_SHOT, name, machine) for name in _NNP_I for machine in ("", TWO_BUFFERS)),
    *(Case(Formulation.ONE_SHOT, f"{name}-{NPU}{batch}") for batch in ("", BATCH_1) for name in _NPU),
    *(Case(Formulation.GAME, name) for name in _GAMES),
)
"""The rows of the tables."""
ABLATED: Final = {
    f"ResNet50-{NPU}": "",
    f"ResNet50-{NPU}{BATCH_1}": "",
    "ResNet50": TWO_BUFFERS,
    "MobileNetV2": TWO_BUFFERS,
}
"""Machines from which mechanisms are taken, by the names of the maps."""


def ablations() -> list[Case]:
    """Return the cases of the table of mechanisms; one that changes nothing of its machine is left out."""
    found = []
    for name, machine in ABLATED.items():
        base, seen = Case(Formulation.ONE_SHOT, name, machine), set[Mechanisms]()
        for change in ("", *CHANGES):
            case = base._replace(machine=", ".join(filter(None, (machine, change))))
            if change != TWO_BUFFERS and mechanisms_of(case) not in seen:
                seen.add(mechanisms_of(case))
                found.append(case)
    return found


def settings_of(case: Case) -> dict[str, Any]:
    """Return the arguments of a case's task: those of its id, or of the suite's grid for maps on intel-npu-4000."""
    traits = Formulation(case.formulation).traits
    if case.name in traits.settings:
        return {"workload": case.name, "accelerator": traits.accelerator, **traits.settings[case.name]}
    name = case.name.removesuffix(BATCH_1)
    workload, batch = name.removesuffix(f"-{NPU}"), 8 if name == case.name else 1
    dims = {"dims": {"sequence": 384}} if workload == "BERT" else {}
    return {"workload": workload, "accelerator": NPU, "batch": batch, "dtype": "int8", **dims}


def mechanisms_of(case: Case) -> Mechanisms:
    """Return the mechanisms of a case's machine."""
    on = load_accelerator(settings_of(case)["accelerator"]).mechanisms
    for change in filter(None, case.machine.split(", ")):
        on = CHANGES[change](on)
    return on


@cache
def env_of(case: Case) -> Env:
    """Return the environment of a case."""
    simulator = EventSimulator(mechanisms=mechanisms_of(case))
    settings = settings_of(case)
    task = resolve_task(**settings, **as_written(settings["accelerator"]), simulator=simulator)
    return MallocGameEnv(task) if case.formulation == Formulation.GAME else OneShotEnv(task)


@cache
def exact_plan(case: Case, solver: str) -> MemoryPlan:
    """Return the exact agent's plan under the costs of a case, which is the same on all machines."""
    if case.machine:
        return exact_plan(case._replace(machine=""), solver)
    _load_compiled_code()
    env = env_of(case)
    task = replace(env.task, simulator=None)
    nominal = MallocGameEnv(task) if isinstance(env, MallocGameEnv) else OneShotEnv(task)
    plan = EXACT[solver]().solve(nominal, budget=10**9, time_limit=SECONDS).plan
    assert plan is not None
    return plan


@cache
def _load_compiled_code() -> None:
    for env in (OneShotEnv(TINY), MallocGameEnv(TINY)):
        Exact().solve(env, budget=10**9, time_limit=SECONDS)


EXACT: Final[Mapping[str, Callable[[], Agent[Any]]]] = {NO_TIE_BREAK: partial(Exact, tie_break="none"), "exact": Exact}
"""Exact agents by solver."""


def settings(records: Records = ()) -> list[Record]:
    """Return the runs of the tables' cases and of those without a mechanism: a whole table with one seed first."""
    measured = dict.fromkeys(ablations(), ABLATION) | {case: SOLVERS[Formulation(case.formulation)] for case in CASES}
    return [
        {**case._asdict(), "solver": solver, "seed": seed}
        for seed in SEEDS
        for solver in dict.fromkeys([*SOLVERS[Formulation.ONE_SHOT], *SOLVERS[Formulation.GAME]])
        for case, solvers in measured.items()
        if solver in solvers and (seed == 0 or solver in BUDGETS)
    ]


def measure(run: Record) -> Record:
    """Return a run with the latency of its best plan, by the machine and by the costs, in seconds."""
    case, solver = Case(run["formulation"], run["name"], run["machine"]), run["solver"]
    env, began = env_of(case), time.process_time()
    solution = _agent(case, solver).solve(env, budget=BUDGETS.get(solver, 10**9), seed=run["seed"])
    assert solution.report is not None
    assert solution.plan is not None
    if not case.machine and (env_id := id_of(case)) in gym.registry:
        proofs.keep(env_id, solution.report.latency_ps, solution.plan)
    return {
        **run,
        "latency_s": solution.report.latency_s,
        "nominal_s": time_plan(replace(env.task, simulator=None), solution.plan).latency_ps * PS,
        "evaluations": solution.evaluations,
        "took_s": round(time.process_time() - began, 3),
    }


def _agent(case: Case, solver: str) -> Agent[Any]:
    if solver in SEARCHES:
        return MachineAnnealing() if case.formulation == Formulation.GAME else LocalSearch()
    if solver == CALIBRATED:
        return Calibrated()
    if solver in EXACT:
        return Offered([exact_plan(case, solver)])
    cheap = cheap_plans(env_of(case).problem)
    if solver == FROM_BEST:
        return Offered([*cheap.values(), *(exact_plan(case, exact) for exact in EXACT)], MachineAnnealing())
    if solver == BEST_RULE:
        return Offered(list(cheap.values()))
    return Offered([plan for name, plan in cheap.items() if name == solver or name.startswith(f"{solver} ")])


@cache
def kept_s(case: Case) -> float:
    """Return the latency of the plan that is kept of a case on the chip's own mechanisms, or infinity."""
    plan = None if case.machine else proofs.kept_plan(id_of(case))
    if plan is None or plan.program_sha256 != env_of(case).task.program.sha256:
        return math.inf
    return evaluate_plan(env_of(case).task, plan).latency_s


class Results(NamedTuple):
    """The records of one case.

    Attributes:
        case: the case.
        runs: its records by solver.
        kept_s: latency of the plan that is kept of it, infinite if none counts.
    """

    case: Case
    runs: Mapping[str, Sequence[Record]]
    kept_s: float = math.inf

    @property
    def best(self) -> Record:
        """The record of the best plan found, `KEPT` if only the one in best-plans.zip is as fast."""
        kept: Record = {"solver": KEPT, "latency_s": self.kept_s}
        return min(*chain.from_iterable(self.runs.values()), kept, key=lambda run: float(run["latency_s"]))

    def left(self, solver: str) -> float:
        """Return what a solver leaves, as a fraction, in the mean of its seeds; NaN without records."""
        runs = self.runs.get(solver, ())
        if not runs:
            return math.nan
        return sum(run["latency_s"] for run in runs) / len(runs) / float(self.best["latency_s"]) - 1

    @property
    def ratio(self) -> float:
        """Latency of the exact plan without tie-break by the event simulator over that by the costs."""
        (run,) = self.runs[NO_TIE_BREAK]
        return float(run["latency_s"] / run["nominal_s"])


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
        entries[name] = settings_of(result.case)
    return table


def id_of(case: Case) -> str:
    """Return the id that a case has if it passes."""
    return Formulation(case.formulation).traits.env_id(f"{case.name.removesuffix(BATCH_1)}-{END}")


def with_ids() -> dict[str, Results]:
    """Return the recorded cases that have an id, by that id."""
    return {id_of(result.case): result for result in filter(passes, cases(EXPERIMENTS[0].recorded()))}


def group(result: Results) -> str:
    """Return the column of a case in the table of means."""
    if result.case.formulation == Formulation.GAME:
        return "games"
    if NPU in result.case.name:
        return f"one-shot {NPU}, batch {1 if result.case.name.endswith(BATCH_1) else 8}"
    return ", ".join(filter(None, ("one-shot nnp-i", result.case.machine)))


def cases(records: Records) -> list[Results]:
    """Return the recorded cases that are no ablations, with the plans that are kept of them."""
    every = {result.case: result for result in results(records)}
    return [every[case]._replace(kept_s=kept_s(case)) for case in CASES if case in every]


class Means(NamedTuple):
    """A row of the table of means: its title, and its factor on each case, which may be shown as its excess over 1."""

    title: str
    of: Callable[[Results], float]
    excess: bool = True

    def cell(self, found: Sequence[Results]) -> str:
        """Return the geometric mean over some cases."""
        mean = geometric_mean(self.of(result) for result in found)
        return f"{100 * (mean - 1):.1f}" if self.excess else f"{mean:.2f}"


def of_solver(title: str, of_maps: str, of_games: str) -> Means:
    """Return the row of a solver of maps, and of one of games."""
    return Means(title, lambda r: 1 + r.left(of_games if r.case.formulation == Formulation.GAME else of_maps))


MEANS: Final = (
    Means("event over nominal latency", lambda result: result.ratio, excess=False),
    of_solver("native; XLA's sets", "native", "xla-msa"),
    of_solver("density-greedy; greedy player", "density-greedy", "greedy-player"),
    *(of_solver(TITLES[solver], solver, solver) for solver in (*CHEAP, *SEARCHES)),
)


def means(records: Records) -> str:
    """Return a table of geometric means of what solvers leave, in percent."""
    groups: dict[str, list[Results]] = {}
    for result in cases(records):
        groups.setdefault(group(result), []).append(result)
    columns = {f"{title} ({len(found)})": partial(Means.cell, found=found) for title, found in groups.items()}
    return str(table({"solver": lambda row: row.title, **columns}, lambda records: MEANS)(records))


def ablated(name: str, machine: str) -> Callable[[Row], str]:
    """Return a cell: what exact plans leave on a machine with a change, tie-break second."""

    def cell(row: Row) -> str:
        change, by_case = row
        case = Case(Formulation.ONE_SHOT, name, ", ".join(filter(None, (machine, change))))
        solvers = (NO_TIE_BREAK, "exact") if case in by_case else ()
        return " / ".join(f"{100 * by_case[case].left(solver):.1f}" for solver in solvers) or "–"

    return cell


def machines(records: Records) -> list[tuple[str, dict[Case, Results]]]:
    """Return the changes of machines, each with all cases; only the solvers count that ran on each machine."""
    by_case = {one.case: one for one in results(run for run in records if run["solver"] in ABLATION)}
    return [(change, by_case) for change in ("", *(change for change in CHANGES if change != TWO_BUFFERS))]


def share_file(solver: str) -> Callable[[Results], str]:
    """Return a cell of the data file: what a solver leaves, in percent."""
    return lambda result: "" if math.isnan(result.left(solver)) else f"{100 * result.left(solver):.2f}"


EXPERIMENTS = [
    Experiment(
        "event",
        __doc__,
        {
            "docs/model.md#event-means": means,
            "docs/model.md#event-ablation": table(
                {
                    "machine": lambda row: row[0] or "all mechanisms",
                    **{
                        f"{name} nnp-i, {machine}" if machine else name.replace(BATCH_1, ", batch 1"): ablated(
                            name, machine
                        )
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
        settings,
        measure,
        key=(*Case._fields, "solver", "seed"),
    )
]

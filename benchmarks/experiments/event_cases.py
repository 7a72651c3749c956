"""Settings, machines and solvers of the experiment `event`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, NamedTuple

from benchmarks.experiments.event_search import MachineAnnealing, Offered
from benchmarks.ledger import Record
from memplace_agents import Exact, LocalSearch
from memplace_agents.calibrated import Calibrated
from memplace_agents.search.agent import Agent
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.accelerator.event_description import NO_MECHANISMS, Mechanisms
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import EventSimulator, time_plan

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
NO_TIE_BREAK: Final = "exact-no-tie-break"
RULES: Final = {
    Formulation.ONE_SHOT: ("native", "all-fastest", "density-greedy", BEST_RULE),
    Formulation.GAME: ("all-backing", "xla-msa", "greedy-player", BEST_RULE),
}
"""Solvers that need no search; `BEST_RULE` measures the plans of all rules."""
SEEDED: Final = (FROM_BEST, *SEARCHES, CALIBRATED)
SOLVERS: Final = (
    *dict.fromkeys(rule for rules in RULES.values() for rule in rules),
    NO_TIE_BREAK,
    "exact",
    *SEEDED,
)
"""All solvers, in the order in which they are measured."""
COLUMNS: Final = {kind: (*rules, NO_TIE_BREAK, "exact", *SEEDED) for kind, rules in RULES.items()}
ABLATION: Final = {Formulation.ONE_SHOT: (BEST_RULE, NO_TIE_BREAK, "exact", FROM_BEST)}
"""Solvers of the tables, by formulation."""
TWO_BUFFERS: Final = "two buffers"


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


def _one_op(on: Mechanisms) -> Mechanisms:
    return replace(on, tiles=on.tiles and replace(on.tiles, ops_in_flight=1))


CHANGES: Final[dict[str, Callable[[Mechanisms], Mechanisms]]] = {
    TWO_BUFFERS: _two_buffers,
    "no tiles": lambda on: replace(on, tiles=None),
    "one op in flight": _one_op,
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
    task = resolve_task(**settings_of(case), simulator=EventSimulator(mechanisms=mechanisms_of(case)))
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


def runs(cases: Sequence[Case], ablated: Sequence[Case]) -> list[Record]:
    """Return the runs of the tables' cases and of those without a mechanism: a whole table with one seed first."""
    measured = {**dict.fromkeys(ablated, ABLATION), **dict.fromkeys(cases, COLUMNS)}
    every = [
        {**case._asdict(), "solver": solver, "seed": seed}
        for seed in SEEDS
        for solver in SOLVERS
        for case, solvers in measured.items()
        if solver in solvers[Formulation(case.formulation)] and (seed == 0 or solver in SEEDED)
    ]
    return every


def measure(run: Record) -> Record:
    """Return a run with the latency of its best plan, by the machine and by the costs, in seconds."""
    case, solver = Case(run["formulation"], run["name"], run["machine"]), run["solver"]
    env, began = env_of(case), time.process_time()
    agent, budget = _agent(case, solver), SEARCHES.get(solver, 10**9)
    if solver in (FROM_BEST, CALIBRATED):
        budget = {FROM_BEST: max(SEARCHES.values()), CALIBRATED: 100}[solver]
    solution = agent.solve(env, budget=budget, seed=run["seed"])
    assert solution.report is not None
    assert solution.plan is not None
    return {
        **run,
        "latency_s": solution.report.latency_s,
        "nominal_s": time_plan(replace(env.task, simulator=None), solution.plan).latency_ps * PS,
        "evaluations": solution.evaluations,
        "took_s": round(time.process_time() - began, 3),
    }


def _agent(case: Case, solver: str) -> Agent[Any]:
    search: Agent[Any] = MachineAnnealing() if case.formulation == Formulation.GAME else LocalSearch()
    if solver in SEARCHES:
        return search
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

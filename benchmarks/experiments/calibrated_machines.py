"""Worth of a machine that was learned on nine programs to the calibrated agent on ResNet50.

Five machines of `memplace_leaderboard.drawn_machines`, whose kinds take turns and whose seeds agents do not know. A
machine is learned from 30 plans of each of the nine programs, each measured once: the plans of all rules, then the
nominal optimum's with other levels for the weights, or the results, of all ops of some types. Agents then measure
`BUDGETS` plans of a new program. Measurements have 5 % noise; every plan is judged without. The best known plan is the
best of everything that was run, a search of `LONG` plans without noise from the optimum of the machine's costs without
events included. Times are of the processor. Exact solves end after 20 s of wall time, so runs on a busy machine may
differ.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, Final

import gymnasium as gym
import numpy as np

from benchmarks.experiments.calibrated import NOMINAL, kept, proven, reports, with_simulator
from benchmarks.harness import Experiment, Records, data, field
from benchmarks.ledger import Record
from memplace_agents import LocalSearch
from memplace_agents.calibrated import Calibrated
from memplace_agents.calibrated.machine_model import MachineModel
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.compiler import native_plan, place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_leaderboard.drawn_machines import MACHINES, MeasuredMachine, drawn_machine, noise_seed
from memplace_leaderboard.scores import share

LEARNED_FROM: Final = (
    *("AlexNet", "ConvNeXt-tiny", "DeiT-small", "GPT2", "InceptionV3"),
    *("MobileNetV2", "Swin-tiny", "ViT", "Whisper-tiny"),
)
UNSEEN: Final = "ResNet50"
MACHINES_USED: Final = tuple((kind, seed) for seed, kind in zip(range(5), [*MACHINES] * 2, strict=False))
PLANS: Final = 30
"""Plans of each program that a machine is learned from."""
CHANGED: Final = 0.2
"""Fraction of the groups of tensors that get another level in one of these plans."""
NOISE: Final = 0.05
LONG: Final = 500
"""Plans of the long search."""
BUDGETS: Final = (1, 20, 100)
ALONE, WITH_MACHINE, KNOWN = "calibrated", "calibrated, machine", "long search"


def settings(records: Records = ()) -> list[Record]:
    """Return all runs; without a machine, one measurement is the nominal plan's."""
    agents = [(NOMINAL, None), (KNOWN, None), *product((ALONE, WITH_MACHINE), BUDGETS)]
    return [
        {"name": UNSEEN, "machine": kind, "seed": seed, "agent": agent, "budget": budget}
        for (kind, seed), (agent, budget) in product(MACHINES_USED, agents)
        if (agent, budget) != (ALONE, 1)
    ]


def measure(run: Record) -> Record:
    """Return a run with the true latency of its plan, that of native, and processor seconds."""
    name, seed, began = f"MemPlace-{run['name']}-v0", run["seed"], time.process_time()
    env: Any = gym.make(name).unwrapped
    truth = with_simulator(env, drawn_machine(run["machine"], seed))
    if run["agent"] == NOMINAL:
        plans = proven(name, None)
    elif run["agent"] == KNOWN:
        plans = _searched(truth, proven(name, seed))
    else:
        learned = _machine(run["machine"], seed) if run["agent"] == WITH_MACHINE else None
        box = _measured(run["machine"], seed, name, run["agent"], run["budget"])
        plans = kept(Calibrated(learned).solve(with_simulator(env, box), budget=run["budget"], seed=seed).plan)
    took = time.process_time() - began
    latency, native = (
        min(report.latency_ps for _, report in reports(truth.task, some)) for some in (plans, [native_plan(env.task)])
    )
    return {**run, "latency_ps": latency, "baseline_ps": native, "cpu_s": round(took, 2)}


def _searched(truth: OneShotEnv, starts: list[MemoryPlan]) -> list[MemoryPlan]:
    evaluator = OneShotEvaluator(truth, budget=LONG)
    for plan in starts:
        evaluator.offer(plan)
    LocalSearch().run(evaluator, 0)
    return kept(evaluator.incumbent)


def _measured(kind: str, seed: int, *run: str | int) -> MeasuredMachine:
    return MeasuredMachine(drawn_machine(kind, seed), NOISE, noise_seed(seed, kind, *run))


@cache
def _machine(kind: str, seed: int) -> MachineModel:
    """Return the machine as it is learned from the nine programs."""
    machine: MachineModel | None = None
    for name in LEARNED_FROM:
        env: Any = gym.make(f"MemPlace-{name}-v0").unwrapped
        task, plans = env.task, _plans(name)
        measured = _measured(kind, seed, name).run_batch(task.program, task.accelerator, plans)
        machine = (machine or MachineModel.of(task)).learned(
            task, plans, [report.latency_s for report in measured], NOISE
        )
    assert machine is not None
    return machine


@cache
def _plans(name: str) -> list[MemoryPlan]:
    """Return `PLANS` plans of a program, the same for each machine and setting of `_machine`."""
    env: Any = gym.make(f"MemPlace-{name}-v0").unwrapped
    task, rng = env.task, np.random.default_rng(0)
    plans = list({plan.to_json(): plan for plan in cheap_plans(env.problem).values()}.values())
    first_op = task.program.live_start
    _, op_type = np.unique(np.array(task.program.op_type), return_inverse=True)
    group = 2 * op_type[first_op] + (task.program.producer >= 0)
    (nominal,) = proven(f"MemPlace-{name}-v0", None)
    levels = nominal.tensor_levels(task.program)
    while len(plans) < PLANS:
        changed = rng.random(group.max() + 1) < CHANGED
        level = rng.integers(task.accelerator.num_levels, size=len(changed))
        plans.append(place_levels(task, np.where(changed[group], level[group], levels)).plan)
    return plans[:PLANS]


def agents(records: Records) -> Iterator[dict[str, Any]]:
    """Yield a row for each agent and budget: mean and least share of the best known gain over native."""
    best: dict[int, int] = {}
    for record in records:
        best[record["seed"]] = min(record["latency_ps"], best.get(record["seed"], record["latency_ps"]))
    shares: dict[tuple[str, int | None], list[float]] = defaultdict(list)
    for record in records:
        value = share(record["latency_ps"], record["baseline_ps"], best[record["seed"]])
        shares[record["agent"], record["budget"]].append(float(value))
    for (agent, budget), values in shares.items():
        if agent != KNOWN:
            yield {"agent": agent, "budget": budget, "mean": np.mean(values), "least": min(values)}


EXPERIMENTS = [
    Experiment(
        "calibrated-machines",
        __doc__,
        {
            "docs/data/calibrated-machines.csv": data(
                {
                    "agent": field("agent"),
                    "measurements": field("budget"),
                    UNSEEN: field("mean", ".3f"),
                    f"{UNSEEN}, least": field("least", ".3f"),
                },
                agents,
            )
        },
        settings,
        measure,
        key=("name", "machine", "seed", "agent", "budget"),
    )
]

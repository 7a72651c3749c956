"""Results of the agent for black boxes on machines whose seeds it does not know, beside its rivals.

The environments are those of suite quick-v1, on five machines of each kind. The machines are those of
`memplace_leaderboard.drawn_machines`, with the seeds 0, 1, ..., which agents get as well. Measurements have 5 %
noise; every plan is judged without. The best known plan is the best of everything that was run, searches of 4,000 plans
without noise from the best plan and the optimum of the machine's costs without events and waits included. Times are of
the processor.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.harness import Experiment, Records, Row, data, field
from benchmarks.ledger import Record
from memplace_agents import Exact, make_agent
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.evaluator import evaluator_for
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.placement.compiler import all_backing, native_plan
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_leaderboard.drawn_machines import MACHINES, MeasuredMachine, drawn_machine, noise_seed
from memplace_leaderboard.scores import share
from memplace_leaderboard.suite import LEAST_GAIN, load_suite

CHEAP, NOMINAL, KNOWN = "cheap plans", "exact, nominal costs", "long searches"
SEEDS, NOISE = 5, 0.05
LONG = 4_000
"""Plans of a long search on the true machine."""
EXACT_SECONDS = 20.0
"""Most seconds of each proof."""
SEARCHES = (("density-greedy", 10), ("local-search", 100), ("local-search", 500), ("calibrated", 100))
"""Agents that measure, and their budgets. Games have no density-greedy, and a local search of their own."""
Env = OneShotEnv | MallocGameEnv


def settings(records: Records = ()) -> list[Record]:
    """Return the settings: what measures nothing, and searches."""
    found = []
    for seed, name, machine in product(range(SEEDS), load_suite("quick-v1").instances, MACHINES):
        setting = {"name": name, "machine": machine, "seed": seed}
        found += [{**setting, "agent": agent} for agent in (CHEAP, NOMINAL, KNOWN)]
        found += [
            {**setting, "noise": NOISE, "agent": agent, "budget": budget}
            for agent, budget in SEARCHES
            if agent != "density-greedy" or not _is_game(name)
        ]
    return found


def measure(run: Record) -> Record:
    """Return a run's setting with the true latency of its plan, that of the baseline, and processor seconds."""
    env: Any = gym.make(run["name"]).unwrapped
    machine, begin = drawn_machine(run["machine"], run["seed"]), time.process_time()
    truth = with_simulator(env, machine)
    plans = _plans(run, env, truth)
    took = time.process_time() - begin
    latency = {plan.to_json(): report.latency_ps for plan, report in reports(truth.task, plans)}
    baseline = all_backing(env.task) if _is_game(run["name"]) else native_plan(env.task)
    (_, report), *_ = reports(truth.task, [baseline])
    return {**run, "latency_ps": min(latency.values()), "baseline_ps": report.latency_ps, "cpu_s": round(took, 2)}


def _plans(run: Record, env: Env, truth: Env) -> list[MemoryPlan]:
    agent, name, seed = run["agent"], run["name"], run["seed"]
    if agent == CHEAP:
        return [*cheap_plans(env.problem).values()]
    if agent == NOMINAL:
        return proven(name, None)
    if agent == KNOWN:
        starts = [*cheap_plans(env.problem).values(), *proven(name, None), *proven(name, seed)]
        evaluator = evaluator_for(truth, (truth.formulation,), budget=len(starts) + LONG, seed=seed)
        for plan in starts:
            evaluator.offer(plan)
        make_agent(_search(name)).run(evaluator, seed)
        return kept(evaluator.incumbent)
    simulator = MeasuredMachine(drawn_machine(run["machine"], seed), run["noise"], noise_seed(seed, name, agent))
    chosen = _search(name) if agent == "local-search" else agent
    return _solved(make_agent(chosen), with_simulator(env, simulator), budget=run["budget"], seed=seed)


@cache
def proven(name: str, seed: int | None) -> list[MemoryPlan]:
    """Return the exact agent's plan by nominal costs, or by those of the machines with a seed, without events."""
    env: Any = gym.make(name).unwrapped
    if seed is not None:
        # The costs of all kinds of machines with one seed are the same.
        env = type(env)(drawn_machine(next(iter(MACHINES)), seed).additive_task(env.task))
    return _solved(Exact(mip_gap=1e-3), env, time_limit=EXACT_SECONDS)


def _solved(agent: Any, env: Any, **limits: Any) -> list[MemoryPlan]:
    return kept(agent.solve(env, **limits).plan)


def kept(plan: MemoryPlan | None) -> list[MemoryPlan]:
    """Return a plan as a list, an empty one if there is none."""
    return [] if plan is None else [plan]


def reports(task: Task, plans: Sequence[MemoryPlan]) -> Iterable[tuple[MemoryPlan, Any]]:
    """Return each plan with its report by a black box."""
    assert task.simulator is not None
    return zip(plans, task.simulator.run_batch(task.program, task.accelerator, plans), strict=True)  # type: ignore[attr-defined]


def with_simulator(env: Env, simulator: Any) -> Any:
    """Return the environment of the same task, timed by a simulator."""
    return type(env)(replace(env.task, simulator=simulator))


def _is_game(name: str) -> bool:
    return formulation_of_id(name) is Formulation.GAME


def _search(name: str) -> str:
    return "game-local-search" if _is_game(name) else "local-search"


def agents(records: Records) -> list[dict[str, Any]]:
    """Return a row for each agent: name, noise, mean shares of the best known gain by machine, and its worst plan.

    Instances on which less than `LEAST_GAIN` is to gain do not count in means, but they do in the worst.
    """
    by_machine: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        by_machine[record["name"], record["machine"], record["seed"]].append(record)
    rows: dict[str, dict[str, Any]] = {}
    for (_, machine, _), found in by_machine.items():
        best, base = min(record["latency_ps"] for record in found), found[0]["baseline_ps"]
        cheap = next(record["latency_ps"] for record in found if record["agent"] == CHEAP)
        for record in found:
            name = f"{record['agent']}, {record['budget']}" if "budget" in record else record["agent"]
            empty = {"name": name, "noise": record.get("noise"), "worst": -1.0, **{kind: [] for kind in MACHINES}}
            row = rows.setdefault(name, empty)
            row["worst"] = max(row["worst"], record["latency_ps"] / cheap - 1)
            if base / best - 1 >= LEAST_GAIN:
                row[machine].append(float(share(record["latency_ps"], base, best)))
    return sorted((row for row in rows.values() if row["name"] != KNOWN), key=lambda row: row["noise"] is not None)


def mean_share(row: Row, machine: str) -> str:
    """Return the mean share on a kind of machine."""
    return f"{np.mean(row[machine]):.3f}"


EXPERIMENTS = [
    Experiment(
        "calibrated",
        __doc__,
        {
            "docs/data/calibrated.csv": data(
                {
                    "agent, measurements": lambda row: row["name"],
                    "noise": field("noise", ".0%"),
                    **{machine: partial(mean_share, machine=machine) for machine in MACHINES},
                    "worst against cheap plans": field("worst", "+.1%"),
                },
                agents,
            )
        },
        settings,
        measure,
        key=("name", "machine", "noise", "seed", "agent", "budget"),
    )
]

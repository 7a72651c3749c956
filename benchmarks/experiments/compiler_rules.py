"""Two orders in which tensors get fast memory when an assignment requests more than there is.

Rule A serves tensors in execution order ("weights-before-results"); the environments use it. Rule B serves results by
falling size, then weights by the time that a byte of them saves ("by-size"). Both choose addresses the same way.
"""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numpy as np

import memplace_agents
from benchmarks.harness import SHOWN, Columns, Experiment, Row, field, table
from benchmarks.ledger import Record
from memplace_env.envs.registration import Formulation
from memplace_env.placement.compiler.compile import evaluate_assignments
from memplace_env.placement.compiler.placing_order import Order, schedule_of
from memplace_env.program.program import Ints

RULES: dict[str, Order] = {"A": "weights-before-results", "B": "by-size"}
RANDOM_ASSIGNMENTS = 2000
SECONDS = 10.0
"""Time limit of the exact agent."""


def measure(run: Record) -> Record:
    """Return the optimum's gain over native and, by rule, three figures.

    "random" is the mean speed-up of random assignments over native, "fastest" the speed-up where every tensor asks for
    the fastest level, "kept" the gain of the optimum's levels when they are compiled.
    """
    env = gym.make(Formulation.ONE_SHOT.traits.env_id(run["name"])).unwrapped
    problem, task, native_ps = env.problem, env.task, env.problem.native_report.latency_ps  # type: ignore[attr-defined]
    exact = memplace_agents.Exact().solve(env, time_limit=run["seconds"])
    optimal = np.full(task.program.num_tensors, task.backing)
    optimal[task.program.use_tensor] = exact.plan.use_level
    every = np.arange(task.program.num_tensors)
    shape = RANDOM_ASSIGNMENTS, problem.num_decisions
    random = np.random.default_rng(0).integers(0, task.accelerator.num_levels, shape)
    figures: Record = {**run, "gain": exact.speedup - 1}
    for rule, order in RULES.items():

        def latency_ps(assignments: Ints, decision_of: Ints, order: Order = order) -> Ints:
            return evaluate_assignments(schedule_of(task, order), assignments, decision_of).latency_ps

        fastest, compiled = latency_ps(np.stack([np.zeros_like(optimal), optimal]), every)
        figures[rule] = {
            "random": float((native_ps / latency_ps(random, problem.decision_of)).mean()),
            "fastest": native_ps / fastest,
            "kept": native_ps / compiled - 1,
        }
    return figures


def cell(key: str, rule: str) -> Callable[[Row], str]:
    """Return a cell: a figure of a rule."""
    return lambda record: f"{record[rule][key]:.3f}"


COLUMNS: Columns = {
    "program": field("name"),
    **{
        f"{subject}, {rule}": cell(key, rule)
        for subject, key in (("random", "random"), ("all-fastest", "fastest"))
        for rule in RULES
    },
    "optimum's gain kept, A": lambda r: "–" if r["gain"] < 1e-4 else f"{r['A']['kept'] / r['gain']:.3f}",
    "optimum": lambda record: f"{1 + record['gain']:.3f}",
}
EXPERIMENTS = [
    Experiment(
        "compiler-rules",
        __doc__,
        {"docs/model.md#rules": table(COLUMNS)},
        lambda records: [{"name": name, "seconds": SECONDS} for name in SHOWN],
        measure,
        key=("name", "seconds"),
    )
]

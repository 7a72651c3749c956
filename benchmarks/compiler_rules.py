"""Compare two orders in which tensors get fast memory when an assignment requests more than there is.

    python -m benchmarks.compiler_rules                       # ten registered one-shot settings on nnp-i
    python -m benchmarks.compiler_rules --write docs/model.md

Rule A serves tensors in execution order ("weights-before-results"); the environments use it. Rule B serves results by
falling size, then weights by the time that a byte of them saves ("by-size"). Both choose addresses the same way.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from rich.progress import track

import memplace_agents
from benchmarks.tables import SHOWN, benchmark_parser, markdown_table, publish
from memplace_env.envs.registration import Formulation
from memplace_env.placement.compiler.evaluate import evaluate_assignments
from memplace_env.placement.compiler.placing_order import Order, schedule_of
from memplace_env.program.program import Ints

RULES: dict[str, Order] = {"A": "weights-before-results", "B": "by-size"}
RANDOM_ASSIGNMENTS = 2000


def measure(name: str, time_limit: float) -> dict[str, Any]:
    """Return the optimum's gain over native and, by rule, three figures.

    "random" is the mean speed-up of random assignments over native, "fastest" the speed-up where every tensor asks for
    the fastest level, "kept" the gain of the optimum's levels when they are compiled.
    """
    env = gym.make(Formulation.ONE_SHOT.traits.env_id(name)).unwrapped
    problem, task, native_ps = env.problem, env.task, env.problem.native_report.latency_ps  # type: ignore[attr-defined]
    exact = memplace_agents.Exact().solve(env, time_limit=time_limit)
    optimal = np.full(task.program.num_tensors, task.backing)
    optimal[task.program.use_tensor] = exact.plan.use_level
    every = np.arange(task.program.num_tensors)
    shape = RANDOM_ASSIGNMENTS, problem.num_decisions
    random = np.random.default_rng(0).integers(0, task.accelerator.num_levels, shape)
    figures: dict[str, Any] = {"gain": exact.speedup - 1}
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


def table(results: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table with a row for each program."""
    rows = []
    for name, figures in results.items():
        cells = [f"{figures[rule][key]:.3f}" for key in ("random", "fastest") for rule in RULES]
        gain = figures["gain"]
        cells += ["–" if gain < 1e-4 else f"{figures['A']['kept'] / gain:.3f}"]
        rows.append([name, *cells, f"{1 + gain:.3f}"])
    heads = [f"{subject}, {rule}" for subject in ("random", "all-fastest") for rule in RULES]
    return markdown_table(["program", *heads, "optimum's gain kept, A", "optimum"], rows)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds for the exact solver (default 30)")
    options = parser.parse_args()
    results = {name: measure(name, options.time_limit) for name in track(SHOWN, "measuring")}
    publish({"rules": table(results)}, options.write)


if __name__ == "__main__":
    main()

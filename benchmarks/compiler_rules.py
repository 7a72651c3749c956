"""Who steps back when a map asks for too much: the environment's rule, and the one that decides by size.

    python -m benchmarks.compiler_rules                       # the registered one-shot settings
    python -m benchmarks.compiler_rules --write docs/model.md

A counts bytes in execution order ("weights-before-results"), B lets results ask by falling size and then weights by
what a byte of them saves ("by-size"). Addresses are chosen the same way under both.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import agents
from benchmarks.as_measured import ONE_SHOT, as_measured
from benchmarks.tables import markdown, write_between_markers
from memplace_env.compiler.evaluate import evaluate_choices
from memplace_env.compiler.schedule import Order, schedule_of
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.registration import Formulation
from memplace_env.workload.program import Ints

RULES: dict[str, Order] = {"A": "weights-before-results", "B": "by-size"}
RANDOM_MAPS = 2000


def measure(name: str, time_limit: float) -> dict[str, Any]:
    """Speed-ups over native by rule: of random maps (mean), of the map that asks for the fastest level; share kept."""
    env = OneShotEnv(**as_measured({"workload": name, **ONE_SHOT[name]}, Formulation.ONE_SHOT))
    problem, task, native_ps = env.problem, env.task, env.problem.native_report.latency_ps
    exact = agents.Exact().solve(env, time_limit=time_limit)
    optimal = np.full(task.program.num_tensors, task.backing)
    optimal[task.program.use_tensor] = exact.plan.use_level
    every = np.arange(task.program.num_tensors)
    random = np.random.default_rng(0).integers(0, task.accelerator.num_levels, (RANDOM_MAPS, problem.map_size))
    figures: dict[str, Any] = {"gain": exact.speedup - 1}
    for name, order in RULES.items():

        def latency_ps(maps: Ints, slot: Ints, order: Order = order) -> Ints:
            return evaluate_choices(schedule_of(task, order), maps, slot).latency_ps

        fastest, kept = latency_ps(np.stack([np.zeros_like(optimal), optimal]), every)
        figures[name] = {
            "random": float((native_ps / latency_ps(random, problem.slot)).mean()),
            "fastest": native_ps / fastest,
            "kept": native_ps / kept - 1,
        }
    return figures


def table(results: dict[str, dict[str, Any]]) -> str:
    """One line a program."""
    rows = []
    for name, figures in results.items():
        cells = [f"{figures[rule][key]:.3f}" for key in ("random", "fastest") for rule in RULES]
        gain = figures["gain"]
        cells += ["–" if gain < 1e-4 else f"{figures[rule]['kept'] / gain:.3f}" for rule in RULES]
        rows.append([name, *cells, f"{1 + gain:.3f}"])
    heads = [f"{what}, {rule}" for what in ("random maps", "map of all-fastest", "optimum kept") for rule in RULES]
    return markdown(["id", *heads, "optimum"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds for the exact solver")
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    options = parser.parse_args()
    results = {name: measure(name, options.time_limit) for name in track(ONE_SHOT, "measuring")}
    print(table(results))
    if options.write:
        write_between_markers(options.write, "rules", table(results))


if __name__ == "__main__":
    main()

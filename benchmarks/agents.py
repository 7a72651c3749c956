"""The agents on the three paper workloads at the paper's budget, beside the heuristics and the proven optimum.

python -m benchmarks.agents                        # prints the table
python -m benchmarks.agents --write docs/agents.md
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from rich.progress import track

import agents
from benchmarks.as_measured import ONE_SHOT, as_measured
from benchmarks.tables import markdown, save_results, write_between_markers
from memplace_env.compiler import HEURISTICS
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.registration import Formulation
from memplace_env.simulator import judge_plan

RESULTS = Path(__file__).parent / "results" / "agents.json"
PAPER = ("ResNet50", "ResNet101", "BERT")
SEARCHES = ("random", "greedy-dp", "local-search", "egrl")


def measure(workload: str, budget: int, seeds: int) -> dict[str, Any]:
    """Speed-ups over native on the workload's registered environment, by solver; a list with one for each seed."""
    env = OneShotEnv(**as_measured({"workload": workload, **ONE_SHOT[workload]}, Formulation.ONE_SHOT))
    native = env.problem.native_report.latency_s
    speedups: dict[str, list[float]] = {}
    for name, heuristic in HEURISTICS.items():
        speedups[name] = [native / judge_plan(env.task, heuristic(env.task)).latency_s]
    speedups["density-greedy, best of ten"] = [agents.DensityGreedy().solve(env).speedup]
    for name in SEARCHES:
        runs = [agents.make_agent(name).solve(env, budget=budget, seed=seed) for seed in range(seeds)]
        speedups[name] = [run.speedup for run in runs]
    exact = agents.make_agent("exact").solve(env)
    speedups["exact"] = [exact.speedup]
    speedups["bound"] = [native / exact.bound_s]
    return {"workload": workload, "settings": ONE_SHOT[workload], "budget": budget, "speedup": speedups}


def table(results: list[dict[str, Any]]) -> str:
    """One line a solver, one column a workload; mean and standard deviation where there are several seeds."""
    rows = []
    for name in results[0]["speedup"]:
        cells = []
        for result in results:
            values = result["speedup"][name]
            varies = len(values) > 1 and max(values) > min(values)
            spread = f" ± {statistics.stdev(values):.3f}" if varies else ""
            cells.append(f"{statistics.mean(values):.3f}{spread}")
        rows.append([name, *cells])
    return markdown(["speed-up over native", *[f"{r['workload']}" for r in results]], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=4000, help="plans each search may evaluate")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", type=Path, nargs="+", help="documents whose table is replaced; saves the results")
    options = parser.parse_args()
    results = [measure(name, options.budget, options.seeds) for name in track(PAPER, "measuring")]
    print(table(results))
    if options.write:
        save_results(RESULTS, results)
        for document in options.write:
            write_between_markers(document, "agents", table(results))


if __name__ == "__main__":
    main()

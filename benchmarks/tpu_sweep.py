"""TPUv4i with less and less CMEM: what the simulator says beside what was published.

    python -m benchmarks.tpu_sweep                                   # prints the table
    python -m benchmarks.tpu_sweep --plot docs/pictures/tpu_sweep.png

ResNet-50, batch 16, bfloat16: the best plan that greedy play, XLA's solver and local search find at each capacity,
relative to the full 128 MiB. Published (Jouppi et al., ISCA 2021): figure 13, geometric means of production and MLPerf
programs; figure 10, ResNet-50 with CMEM against without: 1.50x.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import agents
from benchmarks.tables import markdown
from memplace_env.accelerator import load_accelerator
from memplace_env.envs.malloc_game import MallocGameEnv

MEBIBYTE = 2**20
CAPACITIES = (0, 16, 72, 112, 128)
PRODUCTION = {0: 69, 16: 82, 72: 90, 112: 98, 128: 100}
MLPERF = {0: 76, 16: 87, 72: 97, 112: 100}
SOLVERS = ("greedy-player", "xla-msa", "game-local-search")


def latency_s(capacity_mib: int, budget: int) -> float:
    """Best known latency with so much CMEM; with none, everything is in HBM."""
    chip = load_accelerator("tpu-v4i")
    fast = replace(chip.levels[0], capacity_bytes=max(capacity_mib * MEBIBYTE, 1))
    env = MallocGameEnv("ResNet50", replace(chip, levels=(fast, chip.levels[1])), batch=16, dtype="bfloat16")
    if capacity_mib == 0:
        return env.problem.all_backing_ps * 1e-12
    solutions = [agents.make_agent(name).solve(env, budget=budget) for name in SOLVERS]
    return min(solution.report.latency_s for solution in solutions if solution.report)


def plot(performance: dict[int, float], path: Path) -> None:
    """Simulated and published performance against capacity."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    axes.plot(list(performance), list(performance.values()), "o-", label="ResNet-50, batch 16, simulated")
    axes.plot(list(PRODUCTION), list(PRODUCTION.values()), "s--", label="production programs, published")
    axes.plot(list(MLPERF), list(MLPERF.values()), "^--", label="MLPerf programs, published")
    axes.set(xlabel="CMEM (MiB)", ylabel="performance (% of that with 128 MiB)", ylim=(0, 105), xticks=CAPACITIES)
    axes.set_title("TPUv4i with less CMEM", loc="left", fontweight="bold")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=2000, help="games that local search may play at each capacity")
    parser.add_argument("--plot", type=Path, help="PNG to draw")
    options = parser.parse_args()
    latencies = {capacity: latency_s(capacity, options.budget) for capacity in CAPACITIES}
    performance = {capacity: 100 * latencies[128] / latency for capacity, latency in latencies.items()}
    rows = [
        [f"{capacity} MiB", f"{latencies[capacity] * 1e3:.3f}", f"{performance[capacity]:.0f} %"]
        + [f"{published[capacity]} %" if capacity in published else "" for published in (PRODUCTION, MLPERF)]
        for capacity in CAPACITIES
    ]
    print(markdown(["CMEM", "ms", "simulated", "published, production", "published, MLPerf"], rows))
    print(f"\n128 MiB against none: {latencies[0] / latencies[128]:.2f}x, published 1.50x")
    if options.plot:
        plot(performance, options.plot)


if __name__ == "__main__":
    main()

"""ResNet-50 on tpu-v4i with less of its fast memory (CMEM), beside the published curve.

    python -m benchmarks.tpu_sweep
    python -m benchmarks.tpu_sweep --plot docs/pictures/tpu_sweep.png

Published: Jouppi et al., "Ten Lessons From Three Generations Shaped Google's TPUv4i" (ISCA 2021): performance with part
of CMEM as a share of that with all 128 MiB, mean of their production applications (figure 13), and the speed-up of
ResNet-50 by CMEM in MLPerf's server scenario (figure 10).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from rich.progress import track

import agents
from agents.xla_msa import PUBLIC_SETS
from benchmarks.tables import markdown
from memplace_env.accelerator import Accelerator, load_accelerator
from memplace_env.envs.malloc_game import MallocGameEnv

MIB = 2**20
PUBLISHED = {0: 0.69, 16: 0.82, 72: 0.90, 112: 0.98, 128: 1.0}
PUBLISHED_RATIO = 1.5
"""Published speed-up of ResNet-50 from no CMEM to all of it."""


def with_capacity(chip: Accelerator, mib: int) -> Accelerator:
    """The same chip with that much fast memory."""
    return replace(chip, levels=(replace(chip.levels[0], capacity_bytes=mib * MIB), *chip.levels[1:]))


def best_latency_s(chip: Accelerator, mib: int, batch: int, games: int) -> float:
    """Latency of the best plan that XLA's assignment or the searches find; without fast memory the only one."""
    env = MallocGameEnv("ResNet50", with_capacity(chip, max(mib, 1)), batch=batch, dtype="bfloat16", fusion="epilogue")
    if mib == 0:
        return agents.GreedyPlayer().solve(env).native_latency_s
    solvers: list[agents.Agent] = [agents.XlaMsa(each.options) for each in PUBLIC_SETS]
    solvers += [agents.BeamSearch(), agents.GameLocalSearch()]
    plans = [solver.solve(env, budget=games).report for solver in solvers]
    return min(report.latency_s for report in plans if report is not None)


def sweep(batch: int, games: int) -> dict[int, float]:
    """Performance with so many MiB, as a share of that with 128."""
    chip = load_accelerator("tpu-v4i")
    latency = {mib: best_latency_s(chip, mib, batch, games) for mib in track(PUBLISHED, "measuring")}
    return {mib: latency[128] / latency[mib] for mib in PUBLISHED}


def table(simulated: dict[int, float]) -> str:
    """One line a capacity."""
    rows = [[f"{mib} MiB", f"{simulated[mib]:.0%}", f"{share:.0%}"] for mib, share in PUBLISHED.items()]
    rows.append(["128 MiB against none", f"{1 / simulated[0]:.2f}x", f"{PUBLISHED_RATIO:.2f}x"])
    return markdown(["CMEM", "simulated, ResNet-50", "published"], rows)


def plot(simulated: dict[int, float], path: Path) -> None:
    """Both curves as a picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, curve, style in (
        ("published, mean of production applications", PUBLISHED, "o--"),
        ("simulated, ResNet-50, best known plan", simulated, "s-"),
    ):
        axes.plot(list(curve), [100 * share for share in curve.values()], style, label=name)
    axes.set(xlabel="CMEM in MiB", ylabel="performance, % of 128 MiB", xticks=list(PUBLISHED), ylim=(0, 105))
    axes.set_title("Performance of tpu-v4i by fast memory\nResNet-50: bfloat16, batch 16")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=20_000, help="of each search")
    parser.add_argument("--plot", type=Path, help="where to put a picture")
    options = parser.parse_args()
    simulated = sweep(16, options.games)
    print(table(simulated))
    if options.plot:
        plot(simulated, options.plot)


if __name__ == "__main__":
    main()

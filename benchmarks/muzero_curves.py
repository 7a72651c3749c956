"""MuZero's learning curves, and a plan of its beside XLA's.

python -m benchmarks.muzero_curves MatMul-strassen2 --seconds 60    # the two plans, into docs/pictures
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import agents
from agents.xla_msa import PUBLIC_SETS
from benchmarks.as_measured import GAME
from memplace_env.analysis import Judged
from memplace_env.files import write_atomically
from memplace_env.registration import game_id
from memplace_env.views.figures.comparison import two_maps
from memplace_env.views.style import new_figure, to_png

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
LEARNERS = {"muzero": "#1f6fb4", "muzero, true rules": "#d1495b"}
LINES = {"xla-autotune": ":", "greedy-player": "--", "game-local-search": "-."}
"""Others whose result is drawn as a horizontal line."""


def draw_curves(runs: Sequence[dict[str, Any]], workloads: Sequence[str]) -> list[Path]:
    """Write muzero-WORKLOAD.png for each workload, from runs as `benchmarks.muzero_table.measure` gives them.

    Against decisions and against seconds: the best latency so far (thick) and the mean latency of each round's games
    (thin), a line for each seed.
    """
    return [write_atomically(PICTURES / f"muzero-{w.lower()}.png", _curves(runs, w)) for w in workloads]


def _curves(runs: Sequence[dict[str, Any]], workload: str) -> bytes:
    figure = new_figure(1100, 460)
    own = [run for run in runs if run["workload"] == workload]
    for place, (column, name) in enumerate(((0, "thousand decisions searched"), (1, "seconds"))):
        axes = figure.add_axes((0.07 + 0.37 * place, 0.12, 0.33, 0.78))
        low, high = np.inf, -np.inf
        for run in own:
            if run["agent"] in LEARNERS and run["rounds"]:
                rounds, colour = np.array(run["rounds"]), LEARNERS[run["agent"]]
                rounds = rounds[np.diff(rounds[:, 0], prepend=0) > 0]  # a round that the time cut off says nothing
                rounds[:, 0] /= 1000
                seconds, best = np.array([[second, latency] for _, second, latency in run["curve"]]).T
                reached = best[np.maximum(np.searchsorted(seconds, rounds[:, 1], side="right") - 1, 0)] * 1e3
                label = run["agent"] if run["seed"] == 0 else None
                axes.plot(rounds[:, column], reached, color=colour, linewidth=1.8, label=label)
                axes.plot(rounds[:, column], rounds[:, 2] * 1e3, color=colour, linewidth=0.8, alpha=0.6)
                low, high = min(low, reached.min()), max(high, reached.max())
        for agent, style in LINES.items():
            values = [run["latency_s"] * 1e3 for run in own if run["agent"] == agent]
            if values:
                axes.axhline(np.mean(values), color="black", linestyle=style, linewidth=1, label=agent)
                low, high = min(low, *values), max(high, *values)
        margin = 0.25 * (high - low) or 0.01 * high
        axes.set(xlim=(0, None), ylim=(low - margin, high + margin), xlabel=name)
        if place == 0:
            axes.set(ylabel="latency in ms", title=f"{game_id(workload)}: best (thick), mean of a round (thin)")
            axes.title.set_fontsize(10)
            handles, labels = axes.get_legend_handles_labels()
        else:
            axes.tick_params(labelleft=False)
    figure.legend(handles, labels, loc="upper left", bbox_to_anchor=(0.78, 0.9), frameon=False, fontsize=9)
    return to_png(figure)


def draw_plans(workload: str, seconds: float, seed: int = 0) -> Path:
    """Write muzero-WORKLOAD-plan.png: the best plan of XLA's public option sets, and what MuZero finds in that time."""
    env = gym.make(game_id(workload)).unwrapped
    plans = [agents.XlaMsa(each.options).solve(env) for each in PUBLIC_SETS]
    xla = max(plans, key=lambda solution: solution.speedup)
    muzero = agents.MuZero().solve(env, budget=10**9, seed=seed, time_limit=seconds)
    named = []
    for name, solution in (("XLA's solver", xla), ("MuZero", muzero)):
        assert solution.plan is not None
        assert solution.report is not None
        named.append(Judged(solution.plan, solution.report, name))
        print(f"{name}: {solution.report.latency_s * 1e3:.3f} ms")
    figure = two_maps(env.task, *named)  # type: ignore[attr-defined]
    return write_atomically(PICTURES / f"muzero-{workload.lower()}-plan.png", to_png(figure))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=GAME)
    parser.add_argument("--seconds", type=float, default=60.0, help="wall time of MuZero")
    options = parser.parse_args()
    print(draw_plans(options.workload, options.seconds))


if __name__ == "__main__":
    main()

"""Learning curves: best speed-up against evaluations, a figure for each workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memplace_env.files import write_atomically
from memplace_env.views.style import new_figure, to_png

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
_COLOURS = (
    "#1f6fb4",
    "#7fb2dc",
    "#0b3d66",
    "#d1495b",
    "#edae49",
    "#8d5a97",
    "#3a7d44",
    "#9a9a9a",
    "#555555",
    "#c17c3e",
    "#e377c2",
    "#17a2a2",
    "#b5bd4c",
    "#ff7f0e",
    "#c49c94",
    "#000080",
)


def draw(results: Sequence[dict[str, Any]], best: dict[str, float], shown: Sequence[str]) -> list[Path]:
    """Write egrl-WORKLOAD.png for each workload: the mean over seeds, and the range between the seeds.

    Args:
        results: runs as `benchmarks.egrl_table.measure` gives them.
        best: proven optimum of each workload.
        shown: agents, in the order of the legend.
    """
    written = []
    for workload, optimum in best.items():
        figure = new_figure(1000, 500)
        axes = figure.add_axes((0.06, 0.11, 0.62, 0.82))
        at = np.unique(np.geomspace(1, 4000, 400).astype(int))
        for colour, agent in zip(_COLOURS, shown, strict=False):
            runs = [r["curve"] for r in results if (r["agent"], r["workload"]) == (agent, workload)]
            if runs:
                heights = np.array([_heights(curve, at) for curve in runs])
                axes.fill_between(at, heights.min(0), heights.max(0), color=colour, alpha=0.15, linewidth=0)
                axes.plot(
                    at,
                    heights.mean(0),
                    color=colour,
                    linewidth=1.6,
                    label=f"{agent} ({len(runs)} seed{'s' * (len(runs) > 1)})",
                )
        axes.axhline(optimum, color="black", linestyle="--", linewidth=1, label="proven optimum")
        axes.axhline(1, color="black", linestyle=":", linewidth=1, label="native")
        axes.set(xscale="log", xlim=(1, 4000), ylim=(0.4, optimum * 1.03))
        axes.set(xlabel="maps evaluated", ylabel="best speed-up over native", title=f"MemPlace-{workload}-v0")
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8)
        written.append(write_atomically(PICTURES / f"egrl-{workload.lower()}.png", to_png(figure)))
    return written


def _heights(curve: Sequence[Sequence[float]], at: NDArray[np.int64]) -> NDArray[np.float64]:
    """The best speed-up after each of `at` evaluations; nan before the first."""
    steps, values = np.array(curve).T
    index = np.searchsorted(steps, at, side="right") - 1
    return np.where(index >= 0, values[index], np.nan)

"""Pictures of learning: returns over processor seconds, with the seeds as a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from memplace_env.report.plans.block_kinds import BlockKind
from memplace_env.report.style import AXIS_PT, BLOCK_COLOURS, FAINT, INK, NOTE_PT, PANEL_PT, new_figure, to_png

GRID = 200
"""Points of time at which seeds are compared."""
MEAN, BEST, SEARCH, RULE = (
    BLOCK_COLOURS[kind] for kind in (BlockKind.COPIED_WEIGHT, BlockKind.WEIGHT, BlockKind.ACTIVATION, BlockKind.OUTPUT)
)
"""Colours of PPO's mean and best return, of the search, and of the best rule or XLA's solver."""
Curve = Sequence[Sequence[float | None]]
"""Rows of processor seconds, mean of the last returns (None: no episode has ended) and best return so far."""


class Panel(NamedTuple):
    """The figures of one environment.

    Attributes:
        learning: a curve of PPO for each seed.
        search: a curve of the local search for each seed.
        levels: returns that need no search, by their label.
        optimum: proven return.
        seconds: end of the axis, processor seconds.
    """

    learning: Sequence[Curve]
    search: Sequence[Curve]
    levels: Mapping[str, float]
    optimum: float
    seconds: float


def draw(panels: Mapping[str, Panel]) -> bytes:
    """Return a PNG with a panel for each environment."""
    figure = new_figure(480 * len(panels) + 60, 420)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (env_id, panel) in zip(axes, panels.items(), strict=True):
        _draw_panel(axis, env_id, panel)
    axes[0].set_ylabel("return", fontsize=AXIS_PT, color=INK)
    figure.tight_layout()
    return to_png(figure)


def _draw_panel(axis: Any, env_id: str, panel: Panel) -> None:
    _band(axis, panel, panel.search, 2, "local search: best", SEARCH)
    _band(axis, panel, panel.learning, 1, "PPO: mean of the last 256", MEAN)
    _band(axis, panel, panel.learning, 2, "PPO: best", BEST)
    for (label, level), style in zip(panel.levels.items(), ("--", ":", "-."), strict=False):
        axis.axhline(level, color=RULE, linestyle=style, linewidth=1.2, label=label)
    axis.axhline(panel.optimum, color=INK, linewidth=1.2, label="proven optimum")
    # Returns of the first rounds may be far below everything else; the axis begins a little below the rules.
    low = min(panel.levels.values())
    margin = 0.08 * (panel.optimum - low)
    axis.set_ylim(low - 6 * margin, panel.optimum + margin)
    axis.set_xlim(0, panel.seconds)
    axis.set_title(env_id, fontsize=PANEL_PT, color=INK)
    axis.set_xlabel("processor seconds", fontsize=AXIS_PT, color=INK)
    axis.grid(color=FAINT, linewidth=0.6)
    axis.legend(loc="lower right", fontsize=NOTE_PT)


def _band(axis: Any, panel: Panel, curves: Sequence[Curve], column: int, label: str, colour: str) -> None:
    """Draw the median of the seeds, and the range of all of them as a band, where all have a value."""
    times = np.linspace(0, panel.seconds, GRID)
    values = np.array([_sampled(curve, column, times) for curve in curves])
    shown = ~np.isnan(values).any(axis=0)
    times, values = times[shown], values[:, shown]
    axis.fill_between(times, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.25, linewidth=0)
    axis.plot(times, np.median(values, axis=0), color=colour, linewidth=1.6, label=label)


def _sampled(curve: Curve, column: int, times: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    """Return the last value of a column at or before each time; NaN before the first."""
    rows = [(row[0], row[column]) for row in curve if row[0] is not None and row[column] is not None]
    index = np.searchsorted([row[0] for row in rows], times, side="right") - 1
    return [float(rows[i][1]) if i >= 0 else np.nan for i in index]

"""Pictures of learning: shares of the best known gain over processor seconds or plans, with the seeds as bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from memplace_env.report.plans.block_kinds import BlockKind
from memplace_env.report.style import AXIS_PT, BLOCK_COLOURS, FAINT, INK, MUTED, NOTE_PT, PANEL_PT, new_figure, to_png
from memplace_leaderboard.scores import Floats

COLOURS = [BLOCK_COLOURS[kind] for kind in (BlockKind.WEIGHT, BlockKind.ACTIVATION, BlockKind.INPUT, BlockKind.OUTPUT)]
"""Colours of the searches, in their order."""
MOST_LINES = 7
GRID = 200
"""Points at which seeds are compared."""
MARGIN = 0.04
"""Fraction of the axis above the highest and below the lowest line."""


class Panel(NamedTuple):
    """One system of axes.

    Attributes:
        title: what is shown.
        xlabel: what `grid` counts.
        grid: float64[G].
        searches: float64[seeds, G] by label, percentages of the best known gain.
        levels: percentages that need no search, by label.
    """

    title: str
    xlabel: str
    grid: Floats
    searches: Mapping[str, Floats]
    levels: Mapping[str, float]


def grid_to(end: float) -> Floats:
    """Return the points at which seeds are compared, from the first after 0 to the end."""
    return np.linspace(0, end, GRID + 1)[1:]


def draw(panels: Sequence[Panel]) -> bytes:
    """Return a PNG with the panels side by side.

    Raises:
        ValueError: if a panel has more than `MOST_LINES` lines.
    """
    figure = new_figure(480 * len(panels) + 60, 420)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        if len(panel.searches) + len(panel.levels) > MOST_LINES:
            raise ValueError(f"{panel.title} has more than {MOST_LINES} lines; leave some out.")
        _draw_panel(axis, panel)
    axes[0].set_ylabel("% of the best known gain", fontsize=AXIS_PT, color=INK)
    figure.tight_layout()
    return to_png(figure)


def _draw_panel(axis: Any, panel: Panel) -> None:
    for (label, values), colour in zip(panel.searches.items(), COLOURS, strict=False):
        shown = ~np.isnan(values).any(axis=0)
        at, values = panel.grid[shown], values[:, shown]
        axis.fill_between(at, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2, linewidth=0)
        axis.plot(at, values.mean(axis=0), color=colour, linewidth=1.8, label=label)
    for (label, level), style in zip(panel.levels.items(), ("--", ":", "-."), strict=False):
        axis.axhline(level, color=MUTED, linestyle=style, linewidth=1.4, label=label)
    low = min([*panel.levels.values(), *(float(values[:, -1].min()) for values in panel.searches.values())])
    high = max([100.0, *(float(np.nanmax(values)) for values in panel.searches.values())])
    # Shares of the first plans may be far below everything else; the axis begins below the rules and the last plans.
    space = max(high - low, 1.0)
    axis.set_ylim(low - 2 * MARGIN * space, high + MARGIN * space)
    axis.set_xlim(0, panel.grid[-1])
    axis.set_title(panel.title, fontsize=PANEL_PT, color=INK)
    axis.set_xlabel(panel.xlabel, fontsize=AXIS_PT, color=INK)
    axis.grid(color=FAINT, linewidth=0.6)
    axis.legend(loc="lower right", fontsize=NOTE_PT)

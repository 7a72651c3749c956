"""The memory map: who is where in each on-chip memory at which op, and what every op costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memplace_env.analysis.judged import Judged, native_baseline
from memplace_env.task import Task
from memplace_env.views.figures.level import draw_block_legend, draw_level, plan_maps
from memplace_env.views.figures.panels import Page
from memplace_env.views.figures.time_strip import draw_times
from memplace_env.views.style import new_figure
from memplace_env.views.text.headlines import task_title
from memplace_env.views.text.quantities import cut, ratio, seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = Page()

_HEADER, _PANEL_TITLE, _GAP = 96, 28, 10
_STRIP, _FOOTER = 150, 52


def memory_map(task: Task, judged: Judged, baseline: Judged | None = None) -> Figure:
    """Draw a plan, 1200 x 800 pixels.

    One panel for each on-chip memory: ops across, addresses up, a rectangle for each block, coloured by what it
    holds, pale while its copy is under way. Below, the time of each op: compute, what memory adds, stalls.

    Args:
        task: what is placed where.
        judged: the plan, which must be valid, and the report on it.
        baseline: what to compare with; None: native's plan.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    base = baseline or native_baseline(task)
    figure = new_figure(PAGE.width, PAGE.height)
    (shown,) = plan_maps(task, judged)
    heights = _panel_heights([level.capacity_bytes for level in task.accelerator.levels[:-1]])
    top = float(PAGE.height - _HEADER)
    for level, height in enumerate(heights):
        top -= _PANEL_TITLE + height
        draw_level(figure, PAGE.panel(top, height), shown, level)
        top -= _GAP
    draw_times(figure, PAGE.panel(_FOOTER, _STRIP), shown, base)
    speedup = f"speed-up {ratio(base.report.latency_ps / judged.report.latency_ps)} over {base.name}"
    latency = f"{seconds(judged.report.latency_s)} per inference  ·  {speedup} ({seconds(base.report.latency_s)})"
    PAGE.head(figure, cut(task_title(task), 90), latency)
    draw_block_legend(figure, PAGE, [shown])
    return figure


def _panel_heights(capacities: Sequence[int]) -> list[float]:
    """Pixels of each panel: bigger memories get more, but far less than in proportion, so that small ones show."""
    room = PAGE.height - _HEADER - _FOOTER - _STRIP - _PANEL_TITLE - len(capacities) * (_PANEL_TITLE + _GAP)
    weights = np.array(capacities, dtype=np.float64) ** 0.25
    heights: list[float] = (room * weights / weights.sum()).tolist()
    return heights

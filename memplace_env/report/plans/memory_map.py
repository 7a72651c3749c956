"""The memory map: the blocks in each on-chip memory by op and address, and the time of every op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memplace_env.placement.task import Task
from memplace_env.report.panels import Page
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan, native_baseline
from memplace_env.report.plans.headlines import task_title
from memplace_env.report.plans.level_panel import draw_block_legend, draw_level, plan_maps
from memplace_env.report.plans.time_strip import draw_times
from memplace_env.report.quantities import cut, ratio, seconds
from memplace_env.report.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = Page()

_HEADER, _PANEL_TITLE, _GAP = 96, 28, 10
_STRIP, _FOOTER = 150, 52


def memory_map(task: Task, evaluated: EvaluatedPlan, baseline: EvaluatedPlan | None = None) -> Figure:
    """Draw a plan, 1200 x 800 pixels.

    One panel for each on-chip memory: ops across, addresses up, a rectangle for each block, coloured by its
    content, pale while its copy is under way. Below, the time of each op: compute, what memory adds, stalls.

    Args:
        task: the program and the chip.
        evaluated: the plan, which must be valid, and its report.
        baseline: the plan to compare with; None: native's.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    base = baseline or native_baseline(task)
    figure = new_figure(PAGE.width, PAGE.height)
    (shown,) = plan_maps(task, evaluated)
    heights = _panel_heights([level.capacity_bytes for level in task.accelerator.levels[:-1]])
    top = float(PAGE.height - _HEADER)
    for level, height in enumerate(heights):
        top -= _PANEL_TITLE + height
        draw_level(figure, PAGE.panel(top, height), shown, level)
        top -= _GAP
    draw_times(figure, PAGE.panel(_FOOTER, _STRIP), shown, base)
    speedup = f"speed-up {ratio(base.report.latency_ps / evaluated.report.latency_ps)} over {base.name}"
    latency = f"{seconds(evaluated.report.latency_s)} per inference  ·  {speedup} ({seconds(base.report.latency_s)})"
    PAGE.head(figure, cut(task_title(task), 90), latency)
    draw_block_legend(figure, PAGE, [shown])
    return figure


def _panel_heights(capacities: Sequence[int]) -> list[float]:
    """Return the pixels of each panel: larger memories get more, but far less than in proportion."""
    room = PAGE.height - _HEADER - _FOOTER - _STRIP - _PANEL_TITLE - len(capacities) * (_PANEL_TITLE + _GAP)
    weights = np.array(capacities, dtype=np.float64) ** 0.25  # the root is our choice: 4 MiB shows beside 32 GiB
    heights: list[float] = (room * weights / weights.sum()).tolist()
    return heights

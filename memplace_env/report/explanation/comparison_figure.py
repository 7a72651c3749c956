"""The picture of `memplace compare`: two plans' blocks in the memories that decide, and the lead of one plan."""

from __future__ import annotations

from itertools import product
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from memplace_env._lib.units import PS
from memplace_env.placement.task import Task
from memplace_env.report.explanation.routes import deciding_levels, routes_between, what_decides
from memplace_env.report.panels import Page, label_axis, panel_title, style_axes
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.plans.headlines import task_title
from memplace_env.report.plans.memory_map import draw_block_legend, draw_level, plan_maps
from memplace_env.report.quantities import ratio, seconds, time_scale
from memplace_env.report.style import AHEAD, AXIS_PT, INK, LOST, MUTED, TITLE_PT, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEADER, _TITLE, _GAP, _LEAD, _FOOTER = 132, 28, 10, 150, 52
_MAP, _SEVERAL_MAPS = 255, 170
"""Height of a panel, where one memory is drawn and where there are several."""


def two_maps(task: Task, first: EvaluatedPlan, second: EvaluatedPlan) -> Figure:
    """Draw two plans of a task one above the other, 1200 pixels wide and the higher the more memories decide.

    The panels show the memories of `deciding_levels` as in `memory_map`. Below, how far the second plan is ahead of
    the first before each op: it rises where the second is faster.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    levels = deciding_levels(task, routes_between(task, first, second))
    height = _MAP if len(levels) == 1 else _SEVERAL_MAPS
    page = Page(_HEADER + 2 * len(levels) * (_TITLE + height + _GAP) + _TITLE + _LEAD + _FOOTER)
    figure = new_figure(page.width, page.height)
    maps = plan_maps(task, first, second)
    top = float(page.height - _HEADER)
    for level, shown in product(levels, maps):
        top -= _TITLE + height
        title = f"{task.accelerator.levels[level].name}, {shown.evaluated.name}"
        draw_level(figure, page.panel(top, height), shown, level, title)
        top -= _GAP
    axes = figure.add_axes(page.panel(_FOOTER, _LEAD))
    axes.set_xlabel(maps[0].op_axis)
    _draw_lead(figure, axes, first, second, maps[0].slots)
    title = task_title(task)[:100]
    latencies = [f"{evaluated.name} {seconds(evaluated.report.latency_s)}" for evaluated in (first, second)]
    speedup = ratio(first.report.latency_ps / second.report.latency_ps)
    line = f"{latencies[0]}  ·  {latencies[1]}, {speedup} as fast"
    page.head(figure, title, line, TITLE_PT if len(title) <= 70 else 12)
    for at, line in enumerate(wrap(what_decides(task, first, second), 130, max_lines=2, placeholder=" …")):
        page.write(figure, page.left, 79 + 17 * at, line, fontsize=AXIS_PT)
    draw_block_legend(figure, page, maps, 124)
    return figure


def _draw_lead(figure: Figure, axes: Axes, first: EvaluatedPlan, second: EvaluatedPlan, slots: int) -> None:
    """Draw the second plan's lead before each op, and at the end."""
    gains = np.append(first.op_ps - second.op_ps, first.report.tail_ps - second.report.tail_ps)
    lead = np.concatenate([[0], np.cumsum(gains)])[: slots + 1] * PS
    scale = time_scale(float(np.abs(lead).max()))
    style_axes(axes)
    op, height = np.arange(len(lead)), lead / scale.size
    axes.fill_between(op, 0, height, where=height >= 0, color=AHEAD, alpha=0.35, linewidth=0, interpolate=True)
    axes.fill_between(op, 0, height, where=height <= 0, color=LOST, alpha=0.35, linewidth=0, interpolate=True)
    axes.plot(op, height, color=INK, linewidth=1.2)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.set_xlim(0, slots)
    axes.locator_params(axis="y", nbins=5)
    label_axis(axes, f"ahead by ({scale.unit})")
    best, ops = int(gains.argmax()), len(gains) - 1
    where = f"op {best}" if best < ops else "the end of the program"
    panel_title(figure, axes, "Lead", f"of {second.name} over {first.name}; most is gained in {where}")

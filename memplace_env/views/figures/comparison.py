"""Two plans of one task: what each keeps in the fastest memory, and where one gains on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memplace_env.analysis.judged import Judged
from memplace_env.task import Task
from memplace_env.units import PS
from memplace_env.views.figures.level import draw_block_legend, draw_level, plan_maps
from memplace_env.views.figures.panels import Page, label_axis, panel_title, style_axes
from memplace_env.views.style import AHEAD, INK, LOST, MUTED, TITLE_PT, new_figure
from memplace_env.views.text.headlines import task_title
from memplace_env.views.text.quantities import ratio, seconds, time_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE = Page(height=900)

_HEADER, _TITLE, _GAP, _MAP, _LEAD, _FOOTER = 96, 28, 10, 255, 150, 52


def two_maps(task: Task, first: Judged, second: Judged) -> Figure:
    """Draw two plans of a task one above the other, 1200 x 900 pixels.

    The panels show the fastest memory as in `memory_map`. Below, how far the second plan is ahead of the first before
    each op: it rises where the second is faster.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    figure = new_figure(PAGE.width, PAGE.height)
    maps = plan_maps(task, first, second)
    top = float(PAGE.height - _HEADER)
    for shown in maps:
        top -= _TITLE + _MAP
        title = f"{shown.judged.name}, {task.accelerator.levels[0].name}"
        draw_level(figure, PAGE.panel(top, _MAP), shown, 0, title)
        top -= _GAP
    axes = figure.add_axes(PAGE.panel(_FOOTER, _LEAD))
    axes.set_xlabel(maps[0].op_axis)
    _draw_lead(figure, axes, first, second, maps[0].slots)
    title = task_title(task)[:100]
    told = [f"{judged.name} {seconds(judged.report.latency_s)}" for judged in (first, second)]
    speedup = ratio(first.report.latency_ps / second.report.latency_ps)
    PAGE.head(figure, title, f"{told[0]}  ·  {told[1]}, {speedup} as fast", TITLE_PT if len(title) <= 70 else 12)
    draw_block_legend(figure, PAGE, maps)
    return figure


def _draw_lead(figure: Figure, axes: Axes, first: Judged, second: Judged, slots: int) -> None:
    """By how much the second plan is ahead before each op, and at the end."""
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

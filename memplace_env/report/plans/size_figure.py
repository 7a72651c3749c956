"""The picture of `memplace size`: latency over the size of the fastest memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memplace_env.placement.task import Task
from memplace_env.report.panels import Page, label_axis, style_axes
from memplace_env.report.plans.headlines import task_title
from memplace_env.report.quantities import cut, size, time_scale
from memplace_env.report.style import AXIS_PT, INK, LATENCY, LOST, MUTED, NOTE_PT, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def size_figure(task: Task, sizes: Sequence[int], latencies_s: Sequence[float], knee: int, line: str) -> Figure:
    """Draw latencies in seconds over rising sizes in bytes, 1200 x 600 pixels, and the chip's own size.

    The size with the index `knee` is marked; `line` is a sentence below the title.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    page, fastest, scale = Page(600), task.accelerator.levels[0], time_scale(max(latencies_s))
    figure = new_figure(page.width, page.height)
    axes = figure.add_axes(page.panel(58, 430))
    style_axes(axes)
    heights = [latency_s / scale.size for latency_s in latencies_s]
    axes.plot(sizes, heights, color=LATENCY, linewidth=2, marker="o", markersize=5)
    axes.plot(sizes[knee], heights[knee], color=LOST, marker="o", markersize=10)
    marks = [(sizes[knee], heights[knee], f"knee, {size(sizes[knee])}", LOST)]
    if sizes[0] <= fastest.capacity_bytes <= sizes[-1]:
        axes.axvline(fastest.capacity_bytes, color=MUTED, linewidth=1, linestyle="--")
        marks.append((fastest.capacity_bytes, max(heights), f"{task.accelerator.name}, {fastest.name}", MUTED))
    for x, y, text, colour in marks:
        axes.annotate(text, (x, y), (8, 8), textcoords="offset points", color=colour, fontsize=NOTE_PT)
    axes.set_xscale("log", base=2)
    powers = [2**power for power in range(int(sizes[0]).bit_length() - 1, int(sizes[-1]).bit_length() + 1)]
    axes.set_xticks(powers, [size(power) for power in powers])
    axes.set_xlim(sizes[0] / 1.1, sizes[-1] * 1.1)
    axes.set_ylim(0, max(heights) * 1.08)
    axes.set_xlabel(f"size of {fastest.name}", fontsize=AXIS_PT, color=INK)
    label_axis(axes, f"latency ({scale.unit})")
    page.head(figure, cut(task_title(task), 90), line)
    return figure

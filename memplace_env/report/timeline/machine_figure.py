"""A picture of a run of the event simulator: how busy everything is, and some tiles enlarged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memplace_env._lib.units import PS
from memplace_env.placement.simulator import time_plan
from memplace_env.placement.simulator.event import EventSpans
from memplace_env.placement.simulator.event.event_state import UNIT
from memplace_env.placement.task import Task
from memplace_env.report.panels import Page, panel_title, style_axes
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.plans.headlines import task_title
from memplace_env.report.quantities import cut, percent, seconds, time_scale
from memplace_env.report.style import AXIS_PT, INK, LOST, MUTED, NAME_PT, NOW, SPAN_COLOURS, TICK_PT, new_figure
from memplace_env.report.timeline.timeline import (
    KIND_NAMES,
    Lane,
    busy,
    busy_shares,
    enlarged,
    lanes,
    mechanisms_of,
    op_ends,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE = Page(left=104)
_STRETCHES = 240
"""Stretches of time in the panel of the whole run."""
_EDGE_PX = 4
"""Least width in pixels of a span with a white edge."""
_LABEL_PX = 22
"""Least distance in pixels of two ops' numbers."""


def machine_figure(task: Task, evaluated: EvaluatedPlan, spans: EventSpans) -> Figure:
    """Draw a run, 1200 x 800 pixels: above how busy unit, ports and engines are, below some tiles enlarged.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    from matplotlib.patches import Patch

    figure, found, latency_ps = new_figure(PAGE.width, PAGE.height), lanes(task, spans), evaluated.report.latency_ps
    begin, end = enlarged(spans, evaluated)
    _draw_whole(figure, spans, found, latency_ps, (begin, end))
    _draw_tiles(figure, task, spans, evaluated, found, (begin, end))
    sums = seconds(time_plan(task, evaluated.plan).latency_ps * PS)
    facts = f"{seconds(latency_ps * PS)} per inference under events  ·  {sums} by sums of port times"
    PAGE.head(figure, cut(f"{task_title(task)}: what works when", 90), facts)
    present = [kind for kind in KIND_NAMES if (spans.kind == kind).any()]
    handles = [Patch(color=SPAN_COLOURS[KIND_NAMES[kind]], label=KIND_NAMES[kind]) for kind in present]
    if evaluated.report.stall_ps.any():
        handles.append(Patch(color=LOST, label="an op waits for copies"))
    PAGE.legend(figure, handles, 84)
    return figure


def _draw_whole(figure: Figure, spans: EventSpans, found: list[Lane], latency_ps: int, window: tuple[int, int]) -> None:
    """Draw for each lane the share of each stretch of time in which it is at work, by kind."""
    axes = figure.add_axes(PAGE.panel(452, 236))
    scale = _set_time(axes, 0, latency_ps)
    edges = np.linspace(0, latency_ps, _STRETCHES + 1).astype(np.int64)
    edges = np.unique(edges)
    _name_lanes(axes, [f"{lane.name}\n{percent(busy(spans, lane, latency_ps))}" for lane in found])
    axes.axvspan(window[0] / scale, window[1] / scale, color=NOW, linewidth=0, zorder=0)
    for row, lane in enumerate(found):
        base = np.full(len(edges) - 1, -row - 0.42)
        for kind, name in KIND_NAMES.items():
            own = lane.spans[spans.kind[lane.spans] == kind]
            if len(own):
                top = base + 0.84 * busy_shares(spans, own, edges)
                colour = SPAN_COLOURS[name]
                axes.stairs(top, edges / scale, baseline=base, fill=True, color=colour, linewidth=0)
                base = top
    panel_title(figure, axes, "The whole run", "height: share of the time at work  ·  shaded: enlarged below")


def _draw_tiles(
    figure: Figure,
    task: Task,
    spans: EventSpans,
    evaluated: EvaluatedPlan,
    found: list[Lane],
    window: tuple[int, int],
) -> None:
    """Draw the spans in a stretch of time, the ends of ops as lines, and where an op waits for copies."""
    begin, end = window
    axes = figure.add_axes(PAGE.panel(52, 326))
    scale = _set_time(axes, begin, end)
    _name_lanes(axes, [lane.name for lane in found], above=0.25)
    pixels = axes.get_window_extent().width / (end - begin)
    for row, lane in enumerate(found):
        shown = lane.spans[(spans.end[lane.spans] > begin) & (spans.begin[lane.spans] < end)]
        for kind, name in KIND_NAMES.items():
            own = shown[spans.kind[shown] == kind]
            left, width = spans.begin[own] / scale, (spans.end[own] - spans.begin[own]) / scale
            edges = np.where(width * scale * pixels > _EDGE_PX, 0.5, 0.0)
            axes.barh(np.full(len(own), -row), width, 0.7, left, color=SPAN_COLOURS[name], edgecolor="white", lw=edges)
    shown = (spans.kind == UNIT) & (spans.begin >= begin) & (spans.end <= end)
    tiles = f"{int(shown.sum())} tiles, " if mechanisms_of(task).tiles else ""
    worst = int(evaluated.report.memory_loss_ps.argmax())
    facts = f"{tiles}op {worst} loses most to memory  ·  dotted: an op's end, and its number"
    panel_title(figure, axes, "Enlarged", facts)
    _draw_ops(axes, evaluated, window, scale)


def _draw_ops(axes: Axes, evaluated: EvaluatedPlan, window: tuple[int, int], scale: float) -> None:
    """Draw the ends of ops as lines with their numbers, and at the foot where an op waits for copies."""
    begin, end = window
    pixels = axes.get_window_extent().width / (end - begin)
    before, last = 0, -np.inf
    for op, finish in enumerate(op_ends(evaluated)):
        stall = int(evaluated.report.stall_ps[op])
        if stall and before < end and before + stall > begin:
            axes.axvspan(max(before, begin) / scale, min(before + stall, end) / scale, 0, 0.02, color=LOST, linewidth=0)
        if begin < finish <= end:
            axes.axvline(finish / scale, color=MUTED, linewidth=0.8, linestyle=":", zorder=3)
            if (finish - last) * pixels >= _LABEL_PX:
                axes.annotate(
                    str(op), (finish / scale, 1), (-3, -12), xycoords=("data", "axes fraction"),
                    textcoords="offset pixels", ha="right", fontsize=NAME_PT, color=MUTED,
                )  # fmt: skip
                last = finish
        before = finish


def _set_time(axes: Axes, begin: int, end: int) -> float:
    """Style a panel of times between picoseconds; return the picoseconds of its unit."""
    style_axes(axes)
    scale = time_scale((end - begin) * PS)
    unit = scale.size / PS
    axes.set_xlim(begin / unit, end / unit)
    axes.set_xlabel(f"time ({scale.unit})", fontsize=AXIS_PT, color=INK)
    axes.grid(False)
    return unit


def _name_lanes(axes: Axes, names: list[str], above: float = 0.0) -> None:
    axes.set_ylim(-len(names) + 0.5, 0.5 + above)
    axes.set_yticks(-np.arange(len(names)), names)
    axes.tick_params(axis="y", length=0, labelsize=TICK_PT)

"""Two plans of one program: what each keeps in the fastest memory, and where one gains on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report
from memplace_env.views.blocks import BlockKind, arrivals, block_kinds
from memplace_env.views.figure import drawable, new_figure
from memplace_env.views.map_panels import (
    BLOCK_COLOURS,
    IN_FLIGHT,
    INK,
    MUTED,
    MapData,
    draw_level,
    label_axis,
    legend_row,
    panel_title,
    style_axes,
)
from memplace_env.views.units import PS, ratio, seconds, time_scale
from memplace_env.workload.program import Program

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 1200, 900
"""Pixels."""

_LEFT, _RIGHT = 76, 18
_HEADER, _TITLE, _GAP, _MAP, _LEAD, _FOOTER = 96, 28, 10, 255, 150, 52
_GAIN, _LOSS = "#009e73", "#d55e00"


class Named(NamedTuple):
    """A valid plan, what a simulator says of it, and what it is called."""

    name: str
    plan: MemoryPlan
    report: Report


def two_maps(program: Program, accelerator: Accelerator, first: Named, second: Named) -> Figure:
    """Draw two plans of a program one above the other, 1200 x 900 pixels.

    The panels show the fastest memory as in `memory_map`. Below, how far the second plan is ahead of the first before
    each op: it rises where the second is faster.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    figure = new_figure(WIDTH, HEIGHT)
    last = max(int(named.plan.allocations[:, 4].max(initial=0)) for named in (first, second))
    tails = first.report.tail_ps or second.report.tail_ps
    ends = program.num_ops + (1 if last == program.num_ops or tails else 0)
    top, shown = float(HEIGHT - _HEADER), []
    for named in (first, second):
        arrived = arrivals(named.plan, accelerator)
        kinds = block_kinds(program, named.plan, arrived)
        data = MapData(program, accelerator, named.plan, named.report, kinds, arrived, ends)
        top -= _TITLE + _MAP
        title = f"{named.name}, {accelerator.levels[0].name}"
        draw_level(figure, _box(top, _MAP), data, 0, title)
        top -= _GAP
        shown.append(data)
    _draw_lead(figure, first, second, program.num_ops, ends)
    _draw_header(figure, program, accelerator, first, second)
    _draw_legend(figure, shown)
    return figure


def _box(bottom: float, height: float) -> tuple[float, float, float, float]:
    """Axes rectangle in figure coordinates from pixels."""
    return (_LEFT / WIDTH, bottom / HEIGHT, (WIDTH - _LEFT - _RIGHT) / WIDTH, height / HEIGHT)


def _draw_lead(figure: Figure, first: Named, second: Named, ops: int, ends: int) -> None:
    """By how much the second plan is ahead before each op, and at the end."""
    spent = [named.report.op_time_ps + named.report.stall_ps for named in (first, second)]
    gains = np.append(spent[0] - spent[1], first.report.tail_ps - second.report.tail_ps)
    lead = np.concatenate([[0], np.cumsum(gains)])[: ends + 1] * PS
    scale = time_scale(float(np.abs(lead).max()))
    axes = figure.add_axes(_box(_FOOTER, _LEAD))
    style_axes(axes)
    at, height = np.arange(len(lead)), lead / scale.size
    axes.fill_between(at, 0, height, where=height >= 0, color=_GAIN, alpha=0.35, linewidth=0, interpolate=True)
    axes.fill_between(at, 0, height, where=height <= 0, color=_LOSS, alpha=0.35, linewidth=0, interpolate=True)
    axes.plot(at, height, color=INK, linewidth=1.2)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.set_xlim(0, ends)
    axes.locator_params(axis="y", nbins=5)
    label_axis(axes, f"ahead by ({scale.unit})")
    axes.set_xlabel(f"op, in execution order{'; the last slot is the end of the program' if ends > ops else ''}")
    best = int(gains.argmax())
    where = f"op {best}" if best < ops else "the end of the program"
    panel_title(figure, axes, "Lead", f"of {second.name} over {first.name}; most is gained in {where}")


def _draw_header(figure: Figure, program: Program, accelerator: Accelerator, first: Named, second: Named) -> None:
    title = f"{program.name} ({program.dtype}) on {accelerator.name}"
    size = 16 if len(title) <= 70 else 12
    place = {"x": _LEFT / WIDTH, "color": INK, "parse_math": False}
    figure.text(y=1 - 34 / HEIGHT, s=drawable(title[:100]), fontsize=size, fontweight="bold", **place)  # type: ignore[arg-type]
    speedup = ratio(first.report.latency_ps / second.report.latency_ps)
    told = [f"{named.name} {seconds(named.report.latency_s)}" for named in (first, second)]
    figure.text(y=1 - 58 / HEIGHT, s=drawable(f"{told[0]}  ·  {told[1]}, {speedup} as fast"), fontsize=12, **place)  # type: ignore[arg-type]


def _draw_legend(figure: Figure, shown: list[MapData]) -> None:
    from matplotlib.patches import Patch

    present = [kind for kind in BlockKind if any(kind in data.kinds for data in shown)]
    handles = [Patch(color=BLOCK_COLOURS[kind], label=kind.value) for kind in present]
    if any((data.arrived >= 0).any() for data in shown):
        handles.append(Patch(facecolor="white", edgecolor=MUTED, hatch=IN_FLIGHT, label="copy under way"))
    legend_row(figure, handles, loc="lower left", bbox_to_anchor=(_LEFT / WIDTH, 1 - 88 / HEIGHT))

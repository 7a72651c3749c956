"""The memory map: who is where in each on-chip memory at which op, and what every op costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report
from memplace_env.views.blocks import BlockKind, arrivals, block_kinds
from memplace_env.views.figure import drawable, new_figure
from memplace_env.views.map_panels import BLOCK_COLOURS, IN_FLIGHT, INK, MUTED, MapData, draw_level, legend_row
from memplace_env.views.map_strip import draw_strip
from memplace_env.views.units import ratio, seconds
from memplace_env.workload.program import Program

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 1200, 800
"""Pixels."""

_LEFT, _RIGHT = 76, 18
_HEADER, _PANEL_TITLE, _GAP = 96, 28, 10
_STRIP, _FOOTER = 150, 52


def memory_map(
    program: Program,
    accelerator: Accelerator,
    plan: MemoryPlan,
    report: Report,
    native_report: Report | None = None,
    baseline: str = "native",
) -> Figure:
    """Draw a plan, 1200 x 800 pixels.

    One panel for each on-chip memory: ops across, addresses up, a rectangle for each block, coloured by what it
    holds, pale while its copy is under way. Below, the time of each op: compute, what memory adds, stalls.

    Args:
        program, accelerator, plan: what is drawn; the plan must be valid.
        report: what a simulator says of the plan.
        native_report: the same of the compiler's own plan, to compare with.
        baseline: what that plan is called, should it be another.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    figure = new_figure(WIDTH, HEIGHT)
    last = int(plan.allocations[:, 4].max(initial=0))
    ends = program.num_ops + (1 if last == program.num_ops or report.tail_ps else 0)
    arrived = arrivals(plan, accelerator)
    data = MapData(program, accelerator, plan, report, block_kinds(program, plan, arrived), arrived, ends)

    heights = _panel_heights([level.capacity_bytes for level in accelerator.levels[:-1]])
    top = float(HEIGHT - _HEADER)
    for level, height in enumerate(heights):
        top -= _PANEL_TITLE + height
        draw_level(figure, _box(top, height), data, level)
        top -= _GAP
    draw_strip(figure, _box(_FOOTER, _STRIP), data, native_report, baseline)
    _draw_header(figure, program, accelerator, report, native_report, baseline)
    _draw_legend(figure, data)
    return figure


def _panel_heights(capacities: Sequence[int]) -> list[float]:
    """Pixels of each panel: bigger memories get more, but far less than in proportion, so that small ones show."""
    room = HEIGHT - _HEADER - _FOOTER - _STRIP - _PANEL_TITLE - len(capacities) * (_PANEL_TITLE + _GAP)
    weights = np.array(capacities, dtype=np.float64) ** 0.25
    heights: list[float] = (room * weights / weights.sum()).tolist()
    return heights


def _box(bottom: float, height: float) -> tuple[float, float, float, float]:
    """Axes rectangle in figure coordinates from pixels."""
    return (_LEFT / WIDTH, bottom / HEIGHT, (WIDTH - _LEFT - _RIGHT) / WIDTH, height / HEIGHT)


def _draw_header(
    figure: Figure,
    program: Program,
    accelerator: Accelerator,
    report: Report,
    native_report: Report | None,
    baseline: str,
) -> None:
    title = f"{program.name} ({program.dtype}) on {accelerator.name}"
    figure.text(
        _LEFT / WIDTH,
        1 - 34 / HEIGHT,
        drawable(title if len(title) <= 90 else title[:89] + "…"),
        fontsize=16,
        fontweight="bold",
        color=INK,
        parse_math=False,
    )
    latency = f"{seconds(report.latency_s)} per inference"
    if native_report is not None:
        speedup = native_report.latency_ps / report.latency_ps
        latency += f"  ·  speed-up {ratio(speedup)} over {baseline} ({seconds(native_report.latency_s)})"
    figure.text(_LEFT / WIDTH, 1 - 58 / HEIGHT, drawable(latency), fontsize=12, color=INK)


def _draw_legend(figure: Figure, data: MapData) -> None:
    from matplotlib.patches import Patch

    blocks = [kind for kind in BlockKind if kind in data.kinds]
    handles = [Patch(color=BLOCK_COLOURS[kind], label=kind.value) for kind in blocks]
    if (data.arrived >= 0).any():
        handles.append(Patch(facecolor="white", edgecolor=MUTED, hatch=IN_FLIGHT, label="copy under way"))
    legend_row(figure, handles, loc="lower left", bbox_to_anchor=(_LEFT / WIDTH, 1 - 88 / HEIGHT))

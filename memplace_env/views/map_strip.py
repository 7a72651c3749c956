"""The lowest panel of the memory map: where the time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memplace_env.simulator import Report
from memplace_env.views.map_panels import INK, MapData, label_axis, legend_row, panel_title, style_axes
from memplace_env.views.units import PS, percent, seconds, time_scale

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TIME_COLOURS = {"compute": "#a6a6a6", "lost to memory": "#d55e00", "stall": "#000000"}
"""What an op's time is made of, as the legend calls it."""
NATIVE_COLOUR = "#0072b2"

_MOST_NAMED = 3


def draw_strip(
    figure: Figure, box: tuple[float, float, float, float], data: MapData, native_report: Report | None
) -> None:
    """Time of each op, stacked: compute, what memory adds, the stall before it; the tail comes after the last op."""
    from matplotlib.patches import Patch

    report, ops = data.report, data.program.num_ops
    axes = figure.add_axes(box)
    style_axes(axes)
    memory = report.op_time_ps - report.compute_ps
    waiting = report.stall_ps
    if data.ends > ops:
        memory, waiting = np.append(memory, 0), np.append(waiting, report.tail_ps)
    compute = np.append(report.compute_ps, np.zeros(len(memory) - ops, dtype=np.int64))
    total = compute + memory + waiting
    scale = time_scale(float(total.max()) * PS)
    edges, unit = np.arange(len(total) + 1), PS / scale.size
    base = np.zeros(len(total))
    for part, colour in zip((compute, memory, waiting), TIME_COLOURS.values(), strict=True):
        axes.stairs(base + part * unit, edges, baseline=base, fill=True, color=colour, linewidth=0)
        base = base + part * unit
    axes.set_xlim(0, data.ends)
    axes.set_ylim(0, float(total.max()) * unit * 1.12)
    axes.locator_params(axis="y", nbins=5)
    label_axis(axes, f"op time ({scale.unit})")
    axes.set_xlabel("op, in execution order", fontsize=10.5, color=INK)
    _draw_title(axes, data)
    handles: list[Artist] = [Patch(color=colour, label=label) for label, colour in TIME_COLOURS.items()]
    if native_report is not None:
        handles.append(_draw_native(axes, native_report, unit))
    legend_row(axes, handles, loc="lower right", bbox_to_anchor=(1.0, 1.04))


def _draw_native(axes: Axes, native_report: Report, unit: float) -> Artist:
    """Outline what native takes, to see where the plan gains and where it pays."""
    time = (native_report.op_time_ps + native_report.stall_ps) * unit
    top = max(axes.get_ylim()[1], float(time.max()) * 1.12)
    axes.set_ylim(0, top)
    return axes.stairs(time, color=NATIVE_COLOUR, linewidth=1.0, label="native", zorder=3)


def _draw_title(axes: Axes, data: MapData) -> None:
    report = data.report
    lost = int(report.memory_loss_ps.sum()) + report.tail_ps
    text = f"{percent(lost / report.latency_ps)} of the time ({seconds(lost * PS)}) is lost to memory"
    worst = [int(op) for op in np.argsort(-report.memory_loss_ps, kind="stable")[:_MOST_NAMED]]
    named = [f"op {op} {data.program.op_type[op]}" for op in worst if report.memory_loss_ps[op] > 0]
    if named:
        text += f", most of all in {', '.join(named)}"
    panel_title(axes, "Time", text)

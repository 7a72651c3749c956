"""The lowest panel of the memory map: where the time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memplace_env.simulator import Report
from memplace_env.views.map_panels import INK, MapData, label_axis, legend_row, panel_title, style_axes
from memplace_env.views.units import PS, percent, seconds, time_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TIME_COLOURS = {"compute": "#a6a6a6", "lost to memory": "#d55e00", "stall": "#000000"}
"""What an op's time is made of, as the legend calls it."""
_SAVED = "#b9dcf2"


def draw_strip(
    figure: Figure, box: tuple[float, float, float, float], data: MapData, native_report: Report | None, baseline: str
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
    end = "; the last slot is the end of the program" if data.ends > ops else ""
    axes.set_xlabel(f"op, in execution order{end}", fontsize=10.5, color=INK)
    _draw_title(figure, axes, data)
    parts = zip(TIME_COLOURS.items(), (compute, memory, waiting), strict=True)
    handles = [Patch(color=colour, label=label) for (label, colour), part in parts if part.any()]
    if native_report is not None and _draw_saved(axes, native_report, total[:ops] * unit, unit):
        handles.append(Patch(color=_SAVED, label="saved, against native" if baseline == "native" else "saved"))
    legend_row(axes, handles, loc="lower right", bbox_to_anchor=(1.0, 1.04))


def _draw_saved(axes: Axes, native_report: Report, time: NDArray[np.floating], unit: float) -> bool:
    """Show, above the plan's own time, what native takes more; whether it does anywhere."""
    native = (native_report.op_time_ps + native_report.stall_ps) * unit
    axes.stairs(np.maximum(native, time), baseline=time, fill=True, color=_SAVED, linewidth=0)
    axes.set_ylim(0, max(axes.get_ylim()[1], float(native.max()) * 1.12))
    return bool((native > time).any())


def _draw_title(figure: Figure, axes: Axes, data: MapData) -> None:
    report = data.report
    lost = int(report.memory_loss_ps.sum()) + report.tail_ps
    text = f"{percent(lost / report.latency_ps)} ({seconds(lost * PS)}) is lost to memory"
    worst = int(report.memory_loss_ps.argmax())
    if report.memory_loss_ps[worst] > 0:
        text += f", most of all in op {worst}, {data.program.op_type[worst][:24]}"
    panel_title(figure, axes, "Time", text)

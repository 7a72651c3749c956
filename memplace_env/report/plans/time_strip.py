"""The lowest panel of the memory map: the time of each op."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.units import PS
from memplace_env.report.panels import Box, label_axis, legend_row, panel_title, style_axes
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.plans.level_panel import PlanMap
from memplace_env.report.quantities import percent, seconds, time_scale
from memplace_env.report.style import AXIS_PT, INK, SAVED, TIME_COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_times(figure: Figure, box: Box, shown: PlanMap, baseline: EvaluatedPlan) -> None:
    """Draw the time of each op: compute, what memory adds, the stall before it; after the last op the tail."""
    from matplotlib.patches import Patch

    report, ops = shown.evaluated.report, shown.task.program.num_ops
    axes = figure.add_axes(box)
    style_axes(axes)
    memory = report.op_time_ps - report.compute_ps
    waiting = report.stall_ps
    if shown.slots > ops:
        memory, waiting = np.append(memory, 0), np.append(waiting, report.tail_ps)
    compute = np.append(report.compute_ps, np.zeros(len(memory) - ops, dtype=np.int64))
    total = compute + memory + waiting
    scale = time_scale(float(max(total.max(), 1)) * PS)  # all are 0 where only the sum was measured
    edges, unit = np.arange(len(total) + 1), PS / scale.size
    base = np.zeros(len(total))
    for part, colour in zip((compute, memory, waiting), TIME_COLOURS.values(), strict=True):
        axes.stairs(base + part * unit, edges, baseline=base, fill=True, color=colour, linewidth=0)
        base = base + part * unit
    axes.set_xlim(0, shown.slots)
    axes.set_ylim(0, float(max(total.max(), 1)) * unit * 1.12)
    axes.locator_params(axis="y", nbins=5)
    label_axis(axes, f"op time ({scale.unit})")
    axes.set_xlabel(shown.op_axis, fontsize=AXIS_PT, color=INK)
    panel_title(figure, axes, "Time", _facts(shown))
    parts = zip(TIME_COLOURS.items(), (compute, memory, waiting), strict=True)
    handles = [Patch(color=colour, label=label) for (label, colour), part in parts if part.any()]
    if _draw_saved(axes, baseline, total[:ops] * unit, unit):
        handles.append(Patch(color=SAVED, label="saved, against native" if baseline.name == "native" else "saved"))
    legend_row(axes, handles, loc="lower right", bbox_to_anchor=(1.0, 1.04))


def _draw_saved(axes: Axes, baseline: EvaluatedPlan, time: NDArray[np.floating], unit: float) -> bool:
    """Draw the time that the baseline takes more above the plan's own; return whether there is any."""
    before = baseline.op_ps * unit
    axes.stairs(np.maximum(before, time), baseline=time, fill=True, color=SAVED, linewidth=0)
    axes.set_ylim(0, max(axes.get_ylim()[1], float(before.max()) * 1.12))
    return bool((before > time).any())


def _facts(shown: PlanMap) -> str:
    report, lost = shown.evaluated.report, shown.evaluated.lost_ps
    if report.is_total_only:
        return "the simulator reports no times of single ops"
    text = f"{percent(lost / report.latency_ps)} ({seconds(lost * PS)}) is lost to memory"
    worst = int(report.memory_loss_ps.argmax())
    if report.memory_loss_ps[worst] > 0:
        text += f", most of all in op {worst}, {shown.task.program.op_type[worst][:24]}"
    return text

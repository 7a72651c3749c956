"""The two strips of a game's picture: the backing memory's port, and the estimated latency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memplace_env.analysis.game_snapshot import Snapshot
from memplace_env.simulator import traffic_bound_ps
from memplace_env.units import PS
from memplace_env.views.figures.panels import Box, label_axis, legend_row, panel_title, style_axes
from memplace_env.views.style import (
    BASELINE,
    LATENCY,
    MUTED,
    NOTE_PT,
    PORT_COLOURS,
    SAVED,
    TIME_COLOURS,
    legend_label,
)
from memplace_env.views.text.quantities import cut, percent, rate, ratio, seconds, time_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_port(figure: Figure, box: Box, moment: Snapshot, first: int, end: int) -> Axes:
    """Time of each final op of a window, split by what the port does in it, and what it waited for copies before.

    A line shows the op's time with all in backing.
    """
    axes = figure.add_axes(box)
    style_axes(axes)
    ops = min(end, moment.problem.program.num_ops)
    baseline = -np.diff(moment.problem.tables.rest_ps)[first:ops]
    scale = time_scale(float(baseline.max()) * PS)
    unit = PS / scale.size
    _draw_parts(axes, moment, first, min(ops, moment.op), unit)
    _add_steps(axes, baseline * unit, np.arange(first, ops + 1), baseline=None, edgecolor=BASELINE, linewidth=0.9)
    if moment.tail_ps:
        tail, colour = np.array([moment.tail_ps * unit]), PORT_COLOURS["copies"]
        _add_steps(axes, tail, np.array([ops, ops + 1]), baseline=0, fill=True, color=colour, linewidth=0)
    axes.set_xlim(first, end)
    highest = max(float(baseline.max()), moment.tail_ps, _highest(moment, first, ops))
    axes.set_ylim(0, highest * unit * 1.12)
    axes.locator_params(axis="y", nbins=4)
    axes.locator_params(axis="x", integer=True)
    label_axis(axes, f"op time ({scale.unit})")
    panel_title(figure, axes, f"{moment.problem.accelerator.levels[1].name} port", _port_facts(moment))
    _draw_port_legend(axes, moment)
    return axes


def _highest(moment: Snapshot, first: int, ops: int) -> int:
    """The longest of the ops that are shown, with its wait."""
    final = moment.op_ps[first : min(ops, moment.op)]
    return int((final + moment.stall_ps[first:][: len(final)]).max(initial=0))


def _draw_parts(axes: Axes, moment: Snapshot, first: int, end: int, unit: float) -> None:
    """What the port does in the final ops `first`..`end`, and their waits, stacked."""
    if end <= first:
        return
    edges, base = np.arange(first, end + 1), np.zeros(end - first)
    parts = (moment.busy_ps, moment.copies_ps, moment.free_ps, moment.stall_ps)
    for part, colour in zip(parts, (*PORT_COLOURS.values(), TIME_COLOURS["stall"]), strict=True):
        top = base + part[first:end] * unit
        _add_steps(axes, top, edges, baseline=base, fill=True, color=colour, linewidth=0)
        base = top


def _port_facts(moment: Snapshot) -> str:
    bandwidth = rate(moment.problem.accelerator.levels[1].read_bytes_per_s)
    if moment.op == 0:
        return bandwidth
    waits = moment.stall_ps[: moment.op].sum()
    total = max(int(moment.op_ps.sum() + waits), 1)
    sums = {"ops": moment.busy_ps.sum(), "copies": moment.copies_ps.sum()}
    sums |= {"waits": waits} if waits else {"free": moment.free_ps.sum()}
    shares = ", ".join(f"{name} {percent(part / total)}" for name, part in sums.items())
    return f"{bandwidth}  ·  {'so far ' if moment.decision else ''}{shares}"


def _draw_port_legend(axes: Axes, moment: Snapshot) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Patch | Line2D] = [Patch(color=colour, label=label) for label, colour in PORT_COLOURS.items()]
    handles.append(Patch(color=TIME_COLOURS["stall"], label="waits"))
    label = legend_label(f"all in {cut(moment.problem.accelerator.levels[1].name, 40)}")
    handles.append(Line2D([], [], color=BASELINE, linewidth=1.2, label=label))
    legend_row(axes, handles, loc="lower right", bbox_to_anchor=(1.0, 1.04))


def _add_steps(axes: Axes, values: NDArray[np.float64], edges: NDArray[np.int64], **look: Any) -> None:
    """As `axes.stairs`, without measuring every corner for limits that are set anyway: animations feel it."""
    from matplotlib.patches import StepPatch

    look.setdefault("fill", False)
    axes.add_artist(StepPatch(values, edges, **look))


def draw_latency(figure: Figure, box: Box, moment: Snapshot) -> None:
    """The estimated latency after each op of the program, down from everything in the backing memory."""
    problem = moment.problem
    ops, scale = problem.program.num_ops, time_scale(problem.all_backing_ps * PS)
    unit, name = PS / scale.size, problem.accelerator.levels[1].name
    axes = figure.add_axes(box)
    style_axes(axes)
    baseline = problem.all_backing_ps * unit
    op = np.append(np.arange(moment.op + 1), min(moment.op + 0.5, ops))
    values = np.append(moment.estimates_ps, moment.estimate_ps) * unit
    floor_ps = traffic_bound_ps(problem.task)
    floor = floor_ps * unit
    axes.fill_between(op, values, baseline, color=SAVED, linewidth=0)
    axes.plot(op, values, color=LATENCY, linewidth=1.8)
    axes.plot(op[-1:], values[-1:], "o", color=LATENCY, markersize=5, clip_on=False, zorder=5)
    axes.axhline(baseline, color=BASELINE, linewidth=1.2)
    axes.axhline(floor, color=MUTED, linewidth=1.0, linestyle=":")
    axes.set_xlim(0, ops)
    room = (baseline - floor) or 0.05 * baseline
    axes.set_ylim(floor - 0.32 * room, max(baseline, float(values.max())) + 0.08 * room)
    axes.set_xticks([])
    axes.set_yticks([])
    for text, colour, place, side in (
        (f"{name}: {seconds(problem.all_backing_ps * PS)}", BASELINE, 0.01, "left"),
        (f"traffic bound: {seconds(floor_ps * PS)}", MUTED, 1.0, "right"),
    ):
        look: dict[str, Any] = {"ha": side, "fontsize": NOTE_PT, "color": colour, "parse_math": False}
        axes.text(place, 0.04, text, transform=axes.transAxes, **look)
    word = "Estimate" if moment.decision else "Latency"
    panel_title(figure, axes, word, f"{seconds(moment.estimate_ps * PS)}  ·  {ratio(moment.speedup)}")

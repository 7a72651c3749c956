"""The two strips of a game's picture: the backing memory's port, and the estimated latency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game.viewer.game_snapshot import GameSnapshot
from memplace_env.placement.simulator import traffic_bound_ps
from memplace_env.report.panels import Box, label_axis, legend_row, panel_title, style_axes
from memplace_env.report.quantities import cut, percent, rate, ratio, seconds, time_scale
from memplace_env.report.style import BASELINE, LATENCY, MUTED, NOTE_PT, PORT_COLOURS, SAVED, TIME_COLOURS, legend_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_port(figure: Figure, box: Box, snapshot: GameSnapshot, first: int, end: int) -> Axes:
    """Draw the time of each final op of a window by the port's use, and the op's wait for copies before it.

    A line shows the op's time with everything in the backing memory.
    """
    axes = figure.add_axes(box)
    style_axes(axes)
    ops = min(end, snapshot.problem.program.num_ops)
    baseline = -np.diff(snapshot.problem.tables.rest_ps)[first:ops]
    scale = time_scale(float(baseline.max()) * PS)
    unit = PS / scale.size
    _draw_parts(axes, snapshot, first, min(ops, snapshot.op), unit)
    _add_steps(axes, baseline * unit, np.arange(first, ops + 1), baseline=None, edgecolor=BASELINE, linewidth=0.9)
    if snapshot.tail_ps:
        tail, colour = np.array([snapshot.tail_ps * unit]), PORT_COLOURS["copies"]
        _add_steps(axes, tail, np.array([ops, ops + 1]), baseline=0, fill=True, color=colour, linewidth=0)
    axes.set_xlim(first, end)
    highest = max(float(baseline.max()), snapshot.tail_ps, _highest(snapshot, first, ops))
    axes.set_ylim(0, highest * unit * 1.12)
    axes.locator_params(axis="y", nbins=4)
    axes.locator_params(axis="x", integer=True)
    label_axis(axes, f"op time ({scale.unit})")
    panel_title(figure, axes, f"{snapshot.problem.accelerator.levels[1].name} port", _port_facts(snapshot))
    _draw_port_legend(axes, snapshot)
    return axes


def _highest(snapshot: GameSnapshot, first: int, ops: int) -> int:
    """Return the time of the longest op shown, with its wait, in ps."""
    final = snapshot.op_ps[first : min(ops, snapshot.op)]
    return int((final + snapshot.stall_ps[first:][: len(final)]).max(initial=0))


def _draw_parts(axes: Axes, snapshot: GameSnapshot, first: int, end: int, unit: float) -> None:
    """Stack the port's uses in the final ops first..end-1, and their waits."""
    if end <= first:
        return
    edges, base = np.arange(first, end + 1), np.zeros(end - first)
    parts = (snapshot.busy_ps, snapshot.copies_ps, snapshot.free_ps, snapshot.stall_ps)
    for part, colour in zip(parts, (*PORT_COLOURS.values(), TIME_COLOURS["stall"]), strict=True):
        top = base + part[first:end] * unit
        _add_steps(axes, top, edges, baseline=base, fill=True, color=colour, linewidth=0)
        base = top


def _port_facts(snapshot: GameSnapshot) -> str:
    bandwidth = rate(snapshot.problem.accelerator.levels[1].read_bytes_per_s)
    if snapshot.op == 0:
        return bandwidth
    waits = snapshot.stall_ps[: snapshot.op].sum()
    total = max(int(snapshot.op_ps.sum() + waits), 1)
    sums = {"ops": snapshot.busy_ps.sum(), "copies": snapshot.copies_ps.sum()}
    sums |= {"waits": waits} if waits else {"free": snapshot.free_ps.sum()}
    shares = ", ".join(f"{name} {percent(part / total)}" for name, part in sums.items())
    return f"{bandwidth}  ·  {'so far ' if snapshot.decision else ''}{shares}"


def _draw_port_legend(axes: Axes, snapshot: GameSnapshot) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Patch | Line2D] = [Patch(color=colour, label=label) for label, colour in PORT_COLOURS.items()]
    handles.append(Patch(color=TIME_COLOURS["stall"], label="waits"))
    label = legend_label(f"all in {cut(snapshot.problem.accelerator.levels[1].name, 40)}")
    handles.append(Line2D([], [], color=BASELINE, linewidth=1.2, label=label))
    legend_row(axes, handles, loc="lower right", bbox_to_anchor=(1.0, 1.04))


def _add_steps(axes: Axes, values: NDArray[np.float64], edges: NDArray[np.int64], **look: Any) -> None:
    """Draw steps as `axes.stairs` does, without computing limits, which are set anyway and slow animations down."""
    from matplotlib.patches import StepPatch

    look.setdefault("fill", False)
    axes.add_artist(StepPatch(values, edges, **look))


def draw_latency(figure: Figure, box: Box, snapshot: GameSnapshot) -> None:
    """Draw the estimated latency after each op of the program, beginning with everything in the backing memory."""
    problem = snapshot.problem
    ops, scale = problem.program.num_ops, time_scale(problem.all_backing_ps * PS)
    unit, name = PS / scale.size, problem.accelerator.levels[1].name
    axes = figure.add_axes(box)
    style_axes(axes)
    baseline = problem.all_backing_ps * unit
    op = np.append(np.arange(snapshot.op + 1), min(snapshot.op + 0.5, ops))
    values = np.append(snapshot.estimates_ps, snapshot.estimate_ps) * unit
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
    for text, colour, position, side in (
        (f"{name}: {seconds(problem.all_backing_ps * PS)}", BASELINE, 0.01, "left"),
        (f"traffic bound: {seconds(floor_ps * PS)}", MUTED, 1.0, "right"),
    ):
        look: dict[str, Any] = {"ha": side, "fontsize": NOTE_PT, "color": colour, "parse_math": False}
        axes.text(position, 0.04, text, transform=axes.transAxes, **look)
    word = "Estimate" if snapshot.decision else "Latency"
    panel_title(figure, axes, word, f"{seconds(snapshot.estimate_ps * PS)}  ·  {ratio(snapshot.speedup)}")

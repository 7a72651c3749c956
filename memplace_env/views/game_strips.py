"""The two strips of a game's picture: the backing memory's port, and the estimated latency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memplace_env.simulator.lower_bound import lower_bound
from memplace_env.views.game_snapshot import Snapshot
from memplace_env.views.map_panels import MUTED, label_axis, legend_row, panel_title, style_axes
from memplace_env.views.units import PS, percent, rate, ratio, seconds, time_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PORT_COLOURS = {"serves the op": "#8c8c8c", "copies": "#56b4e9", "free": "#d7ecd9"}
"""What the backing memory's port does in an op's time, as the legend calls it."""
_LATENCY_COLOUR, _SAVED = "#0072b2", "#b9dcf2"
_BASELINE = "#d55e00"


def draw_port(figure: Figure, box: tuple[float, float, float, float], moment: Snapshot, first: int, end: int) -> Axes:
    """Time of each final op of a window, split by what the port does in it; a line shows it with all in backing."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    g, memory = moment.problem.g, moment.problem.accelerator.levels[1]
    axes = figure.add_axes(box)
    style_axes(axes)
    ops = min(end, moment.problem.program.num_ops)
    baseline = -np.diff(g.rest_ps)[first:ops]
    scale = time_scale(float(baseline.max()) * PS)
    unit = PS / scale.size
    shown = slice(first, min(ops, moment.op))
    edges = np.arange(first, max(shown.stop, first) + 1)
    if len(edges) > 1:
        base = np.zeros(len(edges) - 1)
        parts = (moment.busy_ps, moment.copies_ps, moment.free_ps)
        for part, colour in zip(parts, PORT_COLOURS.values(), strict=True):
            top = base + part[shown] * unit
            _add_steps(axes, top, edges, baseline=base, fill=True, color=colour, linewidth=0)
            base = top
    _add_steps(axes, baseline * unit, np.arange(first, ops + 1), baseline=None, edgecolor=_BASELINE, linewidth=0.9)
    if moment.tail_ps:
        tail, colour = np.array([moment.tail_ps * unit]), PORT_COLOURS["copies"]
        _add_steps(axes, tail, np.array([ops, ops + 1]), baseline=0, fill=True, color=colour, linewidth=0)
    axes.set_xlim(first, end)
    axes.set_ylim(0, max(float(baseline.max()), moment.tail_ps) * unit * 1.12)
    axes.locator_params(axis="y", nbins=4)
    axes.locator_params(axis="x", integer=True)
    label_axis(axes, f"op time ({scale.unit})")
    total = max(int(moment.op_ps.sum()), 1)
    facts = [rate(memory.read_bytes_per_s)]
    if moment.op:
        sums = {"ops": moment.busy_ps.sum(), "copies": moment.copies_ps.sum(), "free": moment.free_ps.sum()}
        facts.append(
            ("so far " if moment.decision else "")
            + ", ".join(f"{name} {percent(part / total)}" for name, part in sums.items())
        )
    panel_title(figure, axes, f"{memory.name} port", "  ·  ".join(facts))
    handles: list[Patch | Line2D] = [Patch(color=colour, label=label) for label, colour in PORT_COLOURS.items()]
    handles.append(Line2D([], [], color=_BASELINE, linewidth=1.2, label=f"op time, all in {memory.name}"))
    legend_row(axes, handles, loc="lower right", bbox_to_anchor=(1.0, 1.04))
    return axes


def _add_steps(axes: Axes, values: NDArray[np.float64], edges: NDArray[np.int64], **look: Any) -> None:
    """As `axes.stairs`, without measuring every corner for limits that are set anyway: animations feel it."""
    from matplotlib.patches import StepPatch

    look.setdefault("fill", False)
    axes.add_artist(StepPatch(values, edges, **look))


def draw_latency(figure: Figure, box: tuple[float, float, float, float], moment: Snapshot) -> None:
    """The estimated latency after each op of the program, down from everything in the backing memory."""
    problem = moment.problem
    ops, scale = problem.program.num_ops, time_scale(problem.all_backing_ps * PS)
    unit, name = PS / scale.size, problem.accelerator.levels[1].name
    axes = figure.add_axes(box)
    style_axes(axes)
    baseline = problem.all_backing_ps * unit
    at = np.append(np.arange(moment.op + 1), min(moment.op + 0.5, ops))
    values = np.append(moment.estimates_ps, moment.estimate_ps) * unit
    floor_ps = lower_bound(problem.program, problem.accelerator)
    floor = floor_ps * unit
    axes.fill_between(at, values, baseline, color=_SAVED, linewidth=0)
    axes.plot(at, values, color=_LATENCY_COLOUR, linewidth=1.8)
    axes.plot(at[-1:], values[-1:], "o", color=_LATENCY_COLOUR, markersize=5, clip_on=False, zorder=5)
    axes.axhline(baseline, color=_BASELINE, linewidth=1.2)
    axes.axhline(floor, color=MUTED, linewidth=1.0, linestyle=":")
    axes.set_xlim(0, ops)
    room = (baseline - floor) or 0.05 * baseline
    axes.set_ylim(floor - 0.32 * room, max(baseline, float(values.max())) + 0.08 * room)
    axes.set_xticks([])
    axes.set_yticks([])
    for text, colour, place, side in (
        (f"all in {name}: {seconds(problem.all_backing_ps * PS)}", _BASELINE, 0.01, "left"),
        (f"bound: {seconds(floor_ps * PS)}", MUTED, 1.0, "right"),
    ):
        axes.text(place, 0.04, text, transform=axes.transAxes, ha=side, fontsize=9, color=colour, parse_math=False)
    word = "Estimate" if moment.decision else "Latency"
    panel_title(figure, axes, word, f"{seconds(moment.estimate_ps * PS)}  ·  {ratio(moment.speedup)}")

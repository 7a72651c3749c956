"""Picture of a game snapshot: the current decision, the fast memory, and the backing memory's port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game.state import ACTIONS
from memplace_env.envs.malloc_game.viewer.game_snapshot import GameSnapshot, PendingDecision
from memplace_env.envs.malloc_game.viewer.game_text import (
    action_text,
    decision_text,
    gain_text,
    latency_text,
    outcome_text,
)
from memplace_env.placement.simulator import traffic_bound_ps
from memplace_env.program.blocks import kinds_of
from memplace_env.program.program import Ints, Program
from memplace_env.report.panels import (
    OP_AXIS,
    Box,
    Page,
    label_axis,
    legend_row,
    memory_panel,
    panel_title,
    pixels_per_unit,
    style_axes,
)
from memplace_env.report.plans.block_drawing import (
    Rectangles,
    draw_blocks,
    draw_in_flight,
    draw_names,
    in_flight_handle,
)
from memplace_env.report.plans.block_kinds import BlockKind, block_kinds
from memplace_env.report.plans.headlines import task_title
from memplace_env.report.plans.whole_tensors import joined_blocks
from memplace_env.report.quantities import cut, percent, rate, ratio, seconds, size, time_scale
from memplace_env.report.style import (
    AXIS_PT,
    BASELINE,
    BLOCK_COLOURS,
    CHOSEN,
    HEAD_PT,
    INK,
    LATENCY,
    MUTED,
    NOTE_PT,
    NOW,
    PORT_COLOURS,
    SAVED,
    TIME_COLOURS,
    legend_label,
    new_figure,
    paler,
    rgb,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PAGE = Page()
WINDOW = 100
"""Number of ops shown while the game goes on."""

_HEADER, _PANEL_TITLE, _GAP, _STRIP, _FOOTER = 156, 28, 10, 130, 46
_LATENCY = (930.0, 678.0, 252.0, 80.0)
_BEFORE = 0.8
_LABELS = {
    BlockKind.COPIED_WEIGHT: "weight",
    BlockKind.ACTIVATION: "activation",
    BlockKind.COPIED_ACTIVATION: "activation, fetched again",
    BlockKind.INPUT: "input",
    BlockKind.OUTPUT: "output",
    BlockKind.FILLED: "input, filled by the caller",
    BlockKind.TAKEN: "output, taken by the caller",
}
_STRENGTHS = {"protected": 0.0, "held": 0.4, "cached": 0.75}
"""Fraction of a block's colour that is replaced by white."""


class Span(NamedTuple):
    """The ops across a picture, and the current one."""

    first: int
    end: int
    now: int


def game_map(snapshot: GameSnapshot) -> Figure:
    """Draw a game snapshot, 1200 x 800 pixels.

    Above, the decision, the effect of each action, and the estimated latency after each op. Then the fast memory: ops
    across, addresses up, full colour while a block is protected, paler while it is merely held, palest while it is
    cached, blank where nothing is decided; the block of the decision is framed. Below, the use of the backing memory's
    port in each op. Programs of more than `WINDOW` ops are shown through a moving window until the game is over.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    figure = new_figure(PAGE.width, PAGE.height)
    span = _span(snapshot)
    fast = PAGE.height - _HEADER - 2 * _PANEL_TITLE - _GAP - _STRIP - _FOOTER
    _draw_header(figure, snapshot)
    draw_latency(figure, PAGE.box(*_LATENCY), snapshot)
    _draw_memory(figure, PAGE.panel(_FOOTER + _STRIP + _PANEL_TITLE + _GAP, fast), snapshot, span)
    axes = draw_port(figure, PAGE.panel(_FOOTER, _STRIP), snapshot, span.first, span.end)
    axes.set_xlabel(OP_AXIS, fontsize=AXIS_PT, color=INK)
    _draw_now(axes, snapshot, span)
    return figure


def _span(snapshot: GameSnapshot) -> Span:
    ops = snapshot.problem.program.num_ops
    if snapshot.decision is None:
        return Span(0, ops + (1 if snapshot.tail_ps else 0), ops)
    shown = min(ops, WINDOW)
    first = min(max(snapshot.op - int(_BEFORE * shown), 0), ops - shown)
    return Span(first, first + shown, snapshot.op)


def _draw_header(figure: Figure, snapshot: GameSnapshot) -> None:
    problem, decision, left = snapshot.problem, snapshot.decision, PAGE.left
    count = f"decision {decision.use + 1} of {problem.num_decisions}" if decision else "the game is over"
    title = f"{cut(task_title(problem.task), 40)}: {count}"
    PAGE.write(figure, left, 32, title, fontsize=15, fontweight="bold")
    if decision is None:
        latency = latency_text(snapshot)
        PAGE.write(figure, left, 60, f"{latency[0].upper()}{latency[1:]}.", fontsize=HEAD_PT)
        PAGE.write(figure, left, 84, outcome_text(snapshot), fontsize=HEAD_PT)
    else:
        PAGE.write(figure, left, 58, decision_text(snapshot, 40), fontsize=HEAD_PT)
        _draw_actions(figure, snapshot, decision)
    _draw_legend(figure, problem.program)


def _draw_actions(figure: Figure, snapshot: GameSnapshot, decision: PendingDecision) -> None:
    """Write a line for each action: its name, gain and effect; illegal ones muted, the best gain bold."""
    most = max(gain or 0 for gain in decision.gains)
    for action, (name, gain) in enumerate(zip(ACTIONS, decision.gains, strict=True)):
        top, colour = 80 + 18 * action, MUTED if gain is None else INK
        weight = "bold" if gain is not None and gain == most > 0 else "normal"
        name_colour = MUTED if gain is None else CHOSEN
        PAGE.write(figure, PAGE.left, top, name, color=name_colour, fontsize=11, fontweight="bold")
        text = gain_text(gain)
        PAGE.write(figure, PAGE.left + 150, top, text, color=colour, fontsize=11, fontweight=weight, ha="right")
        PAGE.write(figure, PAGE.left + 166, top, action_text(snapshot, action), color=colour, fontsize=11)


def _draw_legend(figure: Figure, program: Program) -> None:
    """Draw the legend of a program, with the same entries in every frame, so that nothing jumps."""
    from matplotlib.patches import Patch

    callers = (program.tensor_kind != kinds_of(program)).any()  # inputs and outputs that are blocks
    shown = {
        kind: label for kind, label in _LABELS.items() if callers or kind not in (BlockKind.FILLED, BlockKind.TAKEN)
    }
    handles = [Patch(color=BLOCK_COLOURS[kind], label=label) for kind, label in shown.items()]
    handles.append(in_flight_handle())
    for label, share in _STRENGTHS.items():
        handles.append(Patch(facecolor=paler("#777777", share), edgecolor="#777777", label=label))
    PAGE.legend(figure, handles, 152)


def _draw_memory(figure: Figure, box: Box, snapshot: GameSnapshot, span: Span) -> None:
    memory = snapshot.problem.accelerator.levels[0]
    axes, unit = memory_panel(figure, box, memory, span.first, span.end)
    _draw_now(axes, snapshot, span)
    held, cached = snapshot.bytes_now
    facts = [size(memory.capacity_bytes), rate(memory.read_bytes_per_s)]
    if snapshot.decision is not None:
        facts.append(f"op {snapshot.op}: {size(held)} held ({percent(held / memory.capacity_bytes)})")
        facts.append(f"{size(cached)} cached")
    panel_title(figure, axes, memory.name, "  ·  ".join(facts))
    _draw_placed(figure, axes, snapshot, span, unit)
    _draw_candidate(axes, snapshot, unit)


def _draw_placed(figure: Figure, axes: Axes, snapshot: GameSnapshot, span: Span, unit: float) -> None:
    blocks, program = snapshot.blocks, snapshot.problem.program
    shown = (blocks.cached > span.first) & (blocks.start < span.end) & (blocks.cached > blocks.start)
    if not shown.any():
        return
    tensor, offset, *times = (part[shown] for part in blocks)
    joined = joined_blocks(program, tensor, offset, np.column_stack(times))
    tensor, offset, start, arrived, protected, end, cached = (part[joined.block] for part in (tensor, offset, *times))
    colours = [BLOCK_COLOURS[kind] for kind in block_kinds(program, tensor, arrived)]

    def part(begin: Ints, until: Ints) -> tuple[Rectangles, NDArray[np.bool_]]:
        """Return the visible parts of the blocks between those ops, and which blocks have one."""
        left, right = np.maximum(begin, span.first), np.minimum(until, span.end)
        seen = right > left
        wide = (right - left)[seen] / 1.0
        return Rectangles(left[seen] / 1.0, offset[seen] / unit, wide, joined.bytes[seen] / unit), seen

    pixels = pixels_per_unit(axes)
    for begin, until, share in zip((start, protected, end), (protected, end, cached), _STRENGTHS.values(), strict=True):
        rectangles, seen = part(begin, until)
        if seen.any():
            draw_blocks(axes, rectangles, [paler(colours[block], share) for block in np.flatnonzero(seen)], pixels)
    rectangles, seen = part(start, end)
    draw_in_flight(axes, rectangles, arrived[seen])
    rectangles, seen = part(start, cached)
    names = [joined.names[block] for block in np.flatnonzero(seen)]
    faces = [paler(colours[block], _STRENGTHS["held"]) for block in np.flatnonzero(seen)]
    draw_names(figure, axes, rectangles, names, faces, pixels)


def _draw_candidate(axes: Axes, snapshot: GameSnapshot, unit: float) -> None:
    """Frame the block that the decision uses or would place; dashed while it would have to be placed."""
    from matplotlib.patches import Rectangle

    decision = snapshot.decision
    if decision is None or decision.candidate is None:
        return
    offset, start, new = decision.candidate
    height = int(snapshot.problem.tables.size[decision.tensor]) / unit
    # A frame that a small block would fill is drawn around it instead.
    least = 5 / pixels_per_unit(axes)[1]
    low = offset / unit - max(least - height, 0) / 2
    axes.add_patch(
        Rectangle(
            (start, low),
            snapshot.op + 1 - start,
            max(height, least),
            facecolor=(*rgb(CHOSEN), 0.12) if new else "none",
            edgecolor=CHOSEN,
            linewidth=2.0,
            linestyle=(0, (3, 1.5)) if new else "-",
            zorder=6,
            clip_on=True,
        )
    )


def _draw_now(axes: Axes, snapshot: GameSnapshot, span: Span) -> None:
    if snapshot.decision is not None:
        axes.axvspan(span.now, span.now + 1, color=NOW, linewidth=0, zorder=0.5)
        axes.axvline(span.now + 1, color=CHOSEN, linewidth=1.2, zorder=5)


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

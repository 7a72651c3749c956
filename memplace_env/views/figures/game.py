"""The picture of a moment of a game: what is to be decided, what was, and what the backing memory's port has left."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.analysis.blocks import BlockKind, block_kinds
from memplace_env.analysis.game_snapshot import Decision, Snapshot
from memplace_env.envs.malloc_game.state import ACTIONS
from memplace_env.views.figures.blocks import Rectangles, draw_blocks, draw_in_flight, draw_names, in_flight_handle
from memplace_env.views.figures.game_strips import draw_latency, draw_port
from memplace_env.views.figures.panels import OP_AXIS, Box, Page, memory_panel, panel_title, pixels_per_unit
from memplace_env.views.style import AXIS_PT, BLOCK_COLOURS, CHOSEN, HEAD_PT, INK, MUTED, NOW, new_figure, paler, rgb
from memplace_env.views.text.game import choice, gain_text, latency_text, outcome_text, question
from memplace_env.views.text.headlines import task_title
from memplace_env.views.text.quantities import cut, percent, rate, size
from memplace_env.workload.program import Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE = Page()
WINDOW = 100
"""Ops shown at a time while the game goes on."""

_HEADER, _PANEL_TITLE, _GAP, _STRIP, _FOOTER = 156, 28, 10, 130, 46
_LATENCY = (930.0, 678.0, 252.0, 80.0)
_BEFORE = 0.8
_LABELS = {
    BlockKind.COPIED_WEIGHT: "weight",
    BlockKind.ACTIVATION: "activation",
    BlockKind.COPIED_ACTIVATION: "activation, fetched again",
    BlockKind.INPUT: "input",
    BlockKind.OUTPUT: "output",
}
_STRENGTHS = {"protected": 0.0, "held": 0.4, "cached": 0.75}
"""How much of a block's colour is replaced by white."""


class Span(NamedTuple):
    """The ops across a picture, and the current one."""

    first: int
    end: int
    now: int


def game_map(moment: Snapshot) -> Figure:
    """Draw a moment of a game, 1200 x 800 pixels.

    Above, the decision, what each action would do, and the estimated latency after each op. Then the fast memory: ops
    across, addresses up, full colour while a block is protected, paler while it is merely held, palest while it is
    cached, blank where nothing is decided; what the decision is about is framed. Below, what the backing memory's port
    does in each op. Programs of more than `WINDOW` ops pass by in a window until the game is over.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    figure = new_figure(PAGE.width, PAGE.height)
    span = _span(moment)
    fast = PAGE.height - _HEADER - 2 * _PANEL_TITLE - _GAP - _STRIP - _FOOTER
    _draw_header(figure, moment)
    draw_latency(figure, PAGE.box(*_LATENCY), moment)
    _draw_memory(figure, PAGE.panel(_FOOTER + _STRIP + _PANEL_TITLE + _GAP, fast), moment, span)
    axes = draw_port(figure, PAGE.panel(_FOOTER, _STRIP), moment, span.first, span.end)
    axes.set_xlabel(OP_AXIS, fontsize=AXIS_PT, color=INK)
    _draw_now(axes, moment, span)
    return figure


def _span(moment: Snapshot) -> Span:
    ops = moment.problem.program.num_ops
    if moment.decision is None:
        return Span(0, ops + (1 if moment.tail_ps else 0), ops)
    shown = min(ops, WINDOW)
    first = min(max(moment.op - int(_BEFORE * shown), 0), ops - shown)
    return Span(first, first + shown, moment.op)


def _draw_header(figure: Figure, moment: Snapshot) -> None:
    problem, decision, left = moment.problem, moment.decision, PAGE.left
    count = f"decision {decision.use + 1} of {problem.num_decisions}" if decision else "the game is over"
    title = f"{cut(task_title(problem.task), 40)}: {count}"
    PAGE.write(figure, left, 32, title, fontsize=15, fontweight="bold")
    if decision is None:
        latency = latency_text(moment)
        PAGE.write(figure, left, 60, f"{latency[0].upper()}{latency[1:]}.", fontsize=HEAD_PT)
        PAGE.write(figure, left, 84, outcome_text(moment), fontsize=HEAD_PT)
    else:
        PAGE.write(figure, left, 58, question(moment, 40), fontsize=HEAD_PT)
        _draw_actions(figure, moment, decision)
    _draw_legend(figure)


def _draw_actions(figure: Figure, moment: Snapshot, decision: Decision) -> None:
    """A line for each action: its name, its gain, what it does; illegal ones muted, the best gain bold."""
    most = max(gain or 0 for gain in decision.gains)
    for action, (name, gain) in enumerate(zip(ACTIONS, decision.gains, strict=True)):
        top, colour = 80 + 18 * action, MUTED if gain is None else INK
        weight = "bold" if gain is not None and gain == most > 0 else "normal"
        name_colour = MUTED if gain is None else CHOSEN
        PAGE.write(figure, PAGE.left, top, name, color=name_colour, fontsize=11, fontweight="bold")
        text = gain_text(gain)
        PAGE.write(figure, PAGE.left + 150, top, text, color=colour, fontsize=11, fontweight=weight, ha="right")
        PAGE.write(figure, PAGE.left + 166, top, choice(moment, action), color=colour, fontsize=11)


def _draw_legend(figure: Figure) -> None:
    """The same entries in every frame, so that nothing jumps."""
    from matplotlib.patches import Patch

    handles = [Patch(color=BLOCK_COLOURS[kind], label=label) for kind, label in _LABELS.items()]
    handles.append(in_flight_handle())
    for label, share in _STRENGTHS.items():
        handles.append(Patch(facecolor=paler("#777777", share), edgecolor="#777777", label=label))
    PAGE.legend(figure, handles, 152)


def _draw_memory(figure: Figure, box: Box, moment: Snapshot, span: Span) -> None:
    memory = moment.problem.accelerator.levels[0]
    axes, unit = memory_panel(figure, box, memory, span.first, span.end)
    _draw_now(axes, moment, span)
    held, cached = moment.bytes_now
    facts = [size(memory.capacity_bytes), rate(memory.read_bytes_per_s)]
    if moment.decision is not None:
        facts.append(f"op {moment.op}: {size(held)} held ({percent(held / memory.capacity_bytes)})")
        facts.append(f"{size(cached)} cached")
    panel_title(figure, axes, memory.name, "  ·  ".join(facts))
    _draw_placed(figure, axes, moment, span, unit)
    _draw_candidate(axes, moment, unit)


def _draw_placed(figure: Figure, axes: Axes, moment: Snapshot, span: Span, unit: float) -> None:
    blocks, program = moment.blocks, moment.problem.program
    shown = (blocks.cached > span.first) & (blocks.start < span.end) & (blocks.cached > blocks.start)
    if not shown.any():
        return
    tensor, offset, start, arrived, protected, end, cached = (part[shown] for part in blocks)
    colours = [BLOCK_COLOURS[kind] for kind in block_kinds(program, tensor, arrived)]
    bytes_ = program.tensor_bytes[tensor]

    def part(begin: Ints, until: Ints) -> tuple[Rectangles, NDArray[np.bool_]]:
        """The blocks' part between those ops that can be seen, and which blocks have one."""
        left, right = np.maximum(begin, span.first), np.minimum(until, span.end)
        seen = right > left
        wide = (right - left)[seen] / 1.0
        return Rectangles(left[seen] / 1.0, offset[seen] / unit, wide, bytes_[seen] / unit), seen

    pixels = pixels_per_unit(axes)
    for begin, until, share in zip((start, protected, end), (protected, end, cached), _STRENGTHS.values(), strict=True):
        rectangles, seen = part(begin, until)
        if seen.any():
            draw_blocks(axes, rectangles, [paler(colours[block], share) for block in np.flatnonzero(seen)], pixels)
    rectangles, seen = part(start, end)
    draw_in_flight(axes, rectangles, arrived[seen])
    rectangles, seen = part(start, cached)
    names = [program.tensor_name[tensor[block]] for block in np.flatnonzero(seen)]
    faces = [paler(colours[block], _STRENGTHS["held"]) for block in np.flatnonzero(seen)]
    draw_names(figure, axes, rectangles, names, faces, pixels)


def _draw_candidate(axes: Axes, moment: Snapshot, unit: float) -> None:
    """Frame the block that the decision uses or would place; dashed while it would have to be placed."""
    from matplotlib.patches import Rectangle

    decision = moment.decision
    if decision is None or decision.candidate is None:
        return
    offset, start, new = decision.candidate
    height = int(moment.problem.tables.size[decision.tensor]) / unit
    # A frame that a small block would fill is drawn around it instead.
    least = 5 / pixels_per_unit(axes)[1]
    low = offset / unit - max(least - height, 0) / 2
    axes.add_patch(
        Rectangle(
            (start, low),
            moment.op + 1 - start,
            max(height, least),
            facecolor=(*rgb(CHOSEN), 0.12) if new else "none",
            edgecolor=CHOSEN,
            linewidth=2.0,
            linestyle=(0, (3, 1.5)) if new else "-",
            zorder=6,
            clip_on=True,
        )
    )


def _draw_now(axes: Axes, moment: Snapshot, span: Span) -> None:
    if moment.decision is not None:
        axes.axvspan(span.now, span.now + 1, color=NOW, linewidth=0, zorder=0.5)
        axes.axvline(span.now + 1, color=CHOSEN, linewidth=1.2, zorder=5)

"""The picture of a moment of a game: what is to be decided, what was, and what the backing memory's port has left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.envs.malloc_game.state import ACTIONS
from memplace_env.views.blocks import BlockKind, kinds_of
from memplace_env.views.figure import drawable, new_figure
from memplace_env.views.game_snapshot import Snapshot
from memplace_env.views.game_strips import draw_latency, draw_port
from memplace_env.views.game_text import choice, gain_text, latency_text, outcome_text, question
from memplace_env.views.map_panels import (
    BLOCK_COLOURS,
    IN_FLIGHT,
    INK,
    MUTED,
    Rectangles,
    draw_blocks,
    draw_in_flight,
    draw_labels,
    label_axis,
    legend_row,
    panel_title,
    pixels_per_unit,
    set_address_ticks,
    style_axes,
)
from memplace_env.views.units import bytes_scale, percent, rate, size
from memplace_env.workload.program import Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 1200, 800
"""Pixels."""
WINDOW = 100
"""Ops shown at a time while the game goes on."""
CHOSEN = "#d1005d"
"""Colour of what the decision is about."""

_LEFT, _RIGHT = 76, 18
_HEADER, _PANEL_TITLE, _GAP, _STRIP, _FOOTER = 156, 28, 10, 130, 46
_LATENCY = (930.0, 678.0, 252.0, 80.0)
_BEFORE = 0.8
_MOST_TITLE = 40
_LABELS = {
    BlockKind.COPIED_WEIGHT: "weight",
    BlockKind.ACTIVATION: "activation",
    BlockKind.COPIED_ACTIVATION: "activation, fetched again",
    BlockKind.INPUT: "input",
    BlockKind.OUTPUT: "output",
}
_STRENGTHS = {"protected": 0.0, "held": 0.4, "cached": 0.75}
"""How much of a block's colour is replaced by white."""
_NOW = "#f3e3ea"


class Span(NamedTuple):
    """The ops across a picture, and the current one."""

    first: int
    end: int
    now: int


def game_map(moment: Snapshot) -> Figure:
    """Draw a moment of a game, 1200 x 800 pixels.

    Above, the decision, what each action would do, and the estimated latency after each op. Then the fast memory: ops
    across, addresses up, full colour while a block is protected, paler while it is merely held, palest while it is
    cached, blank where nothing is decided;
    what the decision is about is framed. Below, what the backing memory's port does in each op. Programs of more than
    `WINDOW` ops pass by in a window until the game is over.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    figure = new_figure(WIDTH, HEIGHT)
    span = _span(moment)
    fast = HEIGHT - _HEADER - 2 * _PANEL_TITLE - _GAP - _STRIP - _FOOTER
    _draw_header(figure, moment)
    draw_latency(figure, _box(*_LATENCY), moment)
    _draw_memory(figure, _panel(_FOOTER + _STRIP + _PANEL_TITLE + _GAP, fast), moment, span)
    axes = draw_port(figure, _panel(_FOOTER, _STRIP), moment, span.first, span.end)
    axes.set_xlabel("op, in execution order", fontsize=10.5, color=INK)
    _draw_now(axes, moment, span)
    return figure


def _span(moment: Snapshot) -> Span:
    ops = moment.problem.program.num_ops
    if moment.decision is None:
        return Span(0, ops + (1 if moment.tail_ps else 0), ops)
    shown = min(ops, WINDOW)
    first = min(max(moment.op - int(_BEFORE * shown), 0), ops - shown)
    return Span(first, first + shown, moment.op)


def _box(left: float, bottom: float, width: float, height: float) -> tuple[float, float, float, float]:
    return (left / WIDTH, bottom / HEIGHT, width / WIDTH, height / HEIGHT)


def _panel(bottom: float, height: float) -> tuple[float, float, float, float]:
    return _box(_LEFT, bottom, WIDTH - _LEFT - _RIGHT, height)


def _draw_header(figure: Figure, moment: Snapshot) -> None:
    problem, decision = moment.problem, moment.decision
    program = problem.program

    def write(left: float, top: float, text: str, colour: str = INK, **style: Any) -> None:
        shown = drawable(text)
        figure.text(left / WIDTH, 1 - top / HEIGHT, shown, color=colour, parse_math=False, **style)

    title = f"{program.name} ({program.dtype}) on {problem.accelerator.name}"
    title = title if len(title) <= _MOST_TITLE else title[: _MOST_TITLE - 1] + "…"
    count = f"decision {decision.use + 1} of {problem.num_decisions}" if decision else "the game is over"
    write(_LEFT, 32, f"{title}: {count}", fontsize=15, fontweight="bold")
    if decision is None:
        latency = latency_text(moment)
        write(_LEFT, 60, f"{latency[0].upper()}{latency[1:]}.", fontsize=12)
        write(_LEFT, 84, outcome_text(moment), fontsize=12)
    else:
        write(_LEFT, 58, question(moment, 40), fontsize=12)
        for action, name in enumerate(ACTIONS):
            top, gain = 80 + 18 * action, decision.gains[action]
            best = gain is not None and gain == max(known or 0 for known in decision.gains) > 0
            colour, weight = MUTED if gain is None else INK, "bold" if best else "normal"
            write(_LEFT, top, name, colour if gain is None else CHOSEN, fontsize=11, fontweight="bold")
            write(_LEFT + 150, top, gain_text(gain), colour, fontsize=11, fontweight=weight, ha="right")
            write(_LEFT + 166, top, choice(moment, action), colour, fontsize=11)
    _draw_legend(figure)


def _draw_legend(figure: Figure) -> None:
    """The same entries in every frame, so that nothing jumps."""
    from matplotlib.patches import Patch

    handles = [Patch(color=BLOCK_COLOURS[kind], label=label) for kind, label in _LABELS.items()]
    handles.append(Patch(facecolor="white", edgecolor=MUTED, hatch=IN_FLIGHT, label="copy under way"))
    for label, share in _STRENGTHS.items():
        handles.append(Patch(facecolor=_paler("#777777", share), edgecolor="#777777", label=label))
    legend_row(figure, handles, loc="lower left", bbox_to_anchor=(_LEFT / WIDTH, 1 - 152 / HEIGHT))


def _draw_memory(figure: Figure, box: tuple[float, float, float, float], moment: Snapshot, span: Span) -> None:
    problem = moment.problem
    memory = problem.accelerator.levels[0]
    axes = figure.add_axes(box)
    scale = bytes_scale(memory.capacity_bytes)
    capacity = memory.capacity_bytes / scale.size
    style_axes(axes)
    axes.set_xlim(span.first, span.end)
    axes.set_ylim(0, capacity * 1.03)
    axes.tick_params(labelbottom=False)
    set_address_ticks(axes, capacity, 4)
    label_axis(axes, f"address ({scale.unit})")
    axes.axhline(capacity, color=INK, linewidth=1.4, zorder=4)
    _draw_now(axes, moment, span)
    held, cached = moment.bytes_now
    facts = [size(memory.capacity_bytes), rate(memory.read_bytes_per_s)]
    if moment.decision is not None:
        facts.append(f"op {moment.op}: {size(held)} held ({percent(held / memory.capacity_bytes)})")
        facts.append(f"{size(cached)} cached")
    panel_title(figure, axes, memory.name, "  ·  ".join(facts))
    _draw_placed(figure, axes, moment, span, scale.size)
    _draw_candidate(axes, moment, scale.size)


def _draw_placed(figure: Figure, axes: Axes, moment: Snapshot, span: Span, unit: float) -> None:
    blocks, program = moment.blocks, moment.problem.program
    shown = (blocks.cached > span.first) & (blocks.start < span.end) & (blocks.cached > blocks.start)
    if not shown.any():
        return
    tensor, offset, start, arrived, protected, end, cached = (part[shown] for part in blocks)
    colours = [BLOCK_COLOURS[kind] for kind in kinds_of(program, tensor, arrived)]
    bytes_ = program.tensor_bytes[tensor]

    def part(begin: Ints, until: Ints) -> tuple[Rectangles, NDArray[np.bool_]]:
        """The blocks' part between those ops that can be seen, and which blocks have one."""
        left, right = np.maximum(begin, span.first), np.minimum(until, span.end)
        seen = right > left
        wide = (right - left)[seen] / 1.0
        return Rectangles(left[seen] / 1.0, offset[seen] / unit, wide, bytes_[seen] / unit), seen

    pixels = pixels_per_unit(axes)
    faces = [_paler(colour, _STRENGTHS["held"]) for colour in colours]
    for begin, until, share in zip((start, protected, end), (protected, end, cached), _STRENGTHS.values(), strict=True):
        rectangles, seen = part(begin, until)
        if seen.any():
            draw_blocks(axes, rectangles, [_paler(colours[at], share) for at in np.flatnonzero(seen)], pixels)
    rectangles, seen = part(start, end)
    draw_in_flight(axes, rectangles, arrived[seen])
    rectangles, seen = part(start, cached)
    names = [program.tensor_name[tensor[at]] for at in np.flatnonzero(seen)]
    draw_labels(figure, axes, rectangles, names, [faces[at] for at in np.flatnonzero(seen)], pixels)


def _draw_candidate(axes: Axes, moment: Snapshot, unit: float) -> None:
    """Frame the block that the decision uses or would place; dashed while it would have to be placed."""
    from matplotlib.patches import Rectangle

    decision = moment.decision
    if decision is None or decision.candidate is None:
        return
    offset, start, new = decision.candidate
    red_green_blue = (int(CHOSEN[at : at + 2], 16) / 255 for at in (1, 3, 5))
    height = int(moment.problem.g.size[decision.tensor]) / unit
    # A frame that a small block would fill is drawn around it instead.
    least = 5 / pixels_per_unit(axes)[1]
    low = offset / unit - max(least - height, 0) / 2
    axes.add_patch(
        Rectangle(
            (start, low),
            moment.op + 1 - start,
            max(height, least),
            facecolor=(*red_green_blue, 0.12) if new else "none",
            edgecolor=CHOSEN,
            linewidth=2.0,
            linestyle=(0, (3, 1.5)) if new else "-",
            zorder=6,
            clip_on=True,
        )
    )


def _draw_now(axes: Axes, moment: Snapshot, span: Span) -> None:
    if moment.decision is not None:
        axes.axvspan(span.now, span.now + 1, color=_NOW, linewidth=0, zorder=0.5)
        axes.axvline(span.now + 1, color=CHOSEN, linewidth=1.2, zorder=5)


def _paler(colour: str, share: float) -> str:
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)

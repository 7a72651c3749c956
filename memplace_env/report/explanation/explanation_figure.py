"""The picture of `memplace explain`: bytes by level, the level of each op's tensors, time op by op."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.units import PS
from memplace_env.report.explanation.explanation import Explanation, Shift
from memplace_env.report.panels import OP_AXIS, Box, Page, legend_row, panel_title, style_axes
from memplace_env.report.plans.block_kinds import BlockKind
from memplace_env.report.plans.headlines import task_title
from memplace_env.report.quantities import cut, percent, ratio, seconds, size, time_scale
from memplace_env.report.style import (
    AXIS_PT,
    BLOCK_COLOURS,
    FAINT,
    INK,
    LOST,
    MUTED,
    SAVED,
    TICK_PT,
    drawable,
    is_dark,
    legend_label,
    level_colours,
    new_figure,
    rgb,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE = Page(left=92)

SHIFT_COLOURS = {
    "weights": BLOCK_COLOURS[BlockKind.WEIGHT],
    "activations": BLOCK_COLOURS[BlockKind.ACTIVATION],
}
"""Colours of full cells of the matrices: those of such blocks in the memory map."""

_TITLE, _FOOTER, _LABEL = 28, 54, 70
_FIRST_ROW, _FIRST_ROW_HEIGHT = PAGE.height - 104, 178
_MATRIX_LEFT, _MATRIX_WIDTH = (PAGE.left, 498), 306
_TYPES_LEFT, _MOST_TYPES = 968, 7
_LANES, _LANE, _LANE_GAP, _LANES_GAP = PAGE.height - 352, 34, 4, 10


def explanation_figure(explanation: Explanation) -> Figure:
    """Draw the differences of a plan from native's, 1200 x 800 pixels.

    Above, bytes by native's level and the plan's, for weights and activations, and the time saved by op type. In the
    middle, the level of the tensors that each op decides about, for native and for the plan. Below, the time that each
    op saves.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    figure = new_figure(PAGE.width, PAGE.height)
    native_s, plan_s = explanation.native.report.latency_s, explanation.evaluated.report.latency_s
    latency = f"{seconds(plan_s)} per inference  ·  "
    latency += f"speed-up {ratio(explanation.speedup)} over native ({seconds(native_s)})"
    PAGE.head(figure, cut(f"{task_title(explanation.task)}: the plan against native", 90), latency)
    shifts, bottom = (explanation.weights, explanation.activations), _FIRST_ROW - _FIRST_ROW_HEIGHT
    for left, shift in zip(_MATRIX_LEFT, shifts, strict=True):
        _draw_matrix(figure, PAGE.box(left, bottom, _MATRIX_WIDTH, _FIRST_ROW_HEIGHT), explanation, shift)
    width = PAGE.width - PAGE.right - _TYPES_LEFT
    _draw_types(figure, PAGE.box(_TYPES_LEFT, bottom, width, _FIRST_ROW_HEIGHT), explanation)
    top = _LANES
    for shift in shifts:
        _draw_lanes(figure, top, explanation, shift, legend=shift is shifts[0])
        top -= _TITLE + 2 * _LANE + _LANE_GAP + _LANES_GAP
    _draw_time(figure, PAGE.panel(_FOOTER, top - _TITLE - _FOOTER), explanation)
    return figure


def _draw_matrix(figure: Figure, box: Box, explanation: Explanation, shift: Shift) -> None:
    """Draw bytes by native's level, downwards, and the plan's, across; unchanged levels are framed."""
    from matplotlib.patches import Rectangle

    names, total = _level_labels(explanation), shift.total_bytes
    axes = figure.add_axes(box)
    style_axes(axes)
    axes.grid(False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    facts = f"{size(total)}  ·  {percent(shift.changed_share)} change level" if total else "none"
    panel_title(figure, axes, shift.name.capitalize(), facts)
    shares = shift.moved_bytes / max(total, 1)
    painted = _tints(SHIFT_COLOURS[shift.name], shares)
    axes.imshow(painted, aspect="auto", interpolation="nearest")
    letters = min(10.0, 50 / len(names))
    for row, column in np.ndindex(shares.shape):
        moved = int(shift.moved_bytes[row, column])
        axes.text(
            column,
            row,
            f"{size(moved)}\n{percent(float(shares[row, column]))}" if moved else "–",
            ha="center",
            va="center",
            fontsize=letters,
            color="white" if is_dark(*painted[row, column]) else INK if moved else MUTED,
        )
    for level in range(len(names)):
        frame = Rectangle((level - 0.5, level - 0.5), 1, 1, fill=False, edgecolor=MUTED, linewidth=1.2, clip_on=False)
        axes.add_patch(frame)
    for set_ticks, totals in ((axes.set_yticks, shift.moved_bytes.sum(1)), (axes.set_xticks, shift.moved_bytes.sum(0))):
        labels = [f"{name}\n{size(moved)}" for name, moved in zip(names, totals.tolist(), strict=True)]
        set_ticks(range(len(names)), labels, parse_math=False, fontsize=letters)
    axes.set_xlabel("the plan's level", fontsize=AXIS_PT, color=INK)
    _label_upwards(axes, "native's level")


def _level_labels(explanation: Explanation) -> list[str]:
    """Return the levels' names, cut to the width of the smallest cells."""
    return [drawable(cut(name, 8)) for name in explanation.level_names]


def _label_upwards(axes: Axes, text: str) -> None:
    """Label the vertical axis, at the distance that the picture's edge has from a panel at the margin."""
    axes.set_ylabel(text, fontsize=AXIS_PT, color=INK)
    axes.yaxis.set_label_coords(-_LABEL / axes.get_window_extent().width, 0.5)


def _tints(colour: str, shares: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return float64[..., 3], white for 0 to the colour for 1; by the root of the fraction, so that small ones show."""
    tints: NDArray[np.float64] = 1 - np.sqrt(shares)[..., None] * (1 - np.array(rgb(colour)))
    return tints


def _draw_types(figure: Figure, box: Box, explanation: Explanation) -> None:
    """Draw the time saved by op type, for the types with the largest differences."""
    axes = figure.add_axes(box)
    style_axes(axes)
    axes.grid(False)
    panel_title(figure, axes, "Time saved", "by op type")
    axes.tick_params(length=0, labelbottom=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    largest = sorted(explanation.by_type(), key=lambda item: -abs(item.saved_ps))[:_MOST_TYPES]
    shown = sorted(largest, key=lambda item: -item.saved_ps)
    saved = np.array([item.saved_ps for item in shown]) * PS
    rows = np.arange(len(shown))
    axes.barh(rows, saved, height=0.66, color=[SAVED if value > 0 else LOST for value in saved], linewidth=0)
    axes.axvline(0, color=MUTED, linewidth=0.8)
    low, high = min(float(saved.min()), 0.0), max(float(saved.max()), 0.0)
    axes.set_xlim(low, high + 0.55 * (high - low) or 1.0)
    axes.set_ylim(max(len(shown), 4) - 0.4, -0.6)
    for row, value in zip(rows, saved, strict=True):
        axes.annotate(
            seconds(float(value)),
            (max(float(value), 0.0), float(row)),
            (5, 0),
            textcoords="offset pixels",
            va="center",
            fontsize=TICK_PT,
            color=INK,
        )
    axes.set_yticks(rows, [drawable(item.op_type[:18]) for item in shown], parse_math=False)


def _draw_lanes(figure: Figure, top: int, explanation: Explanation, shift: Shift, legend: bool) -> None:
    """Draw two lanes, native's above the plan's: the level of each op's tensors; the faster, the taller."""
    from matplotlib.patches import Patch

    colours, backing = level_colours(len(explanation.level_names)), explanation.task.backing
    shares = [("native", shift.contiguities[0]), ("plan", shift.contiguities[1])]
    for lane, (name, level) in enumerate((("native", shift.native_level), ("plan", shift.plan_level))):
        lane_top = top - _TITLE - lane * (_LANE + _LANE_GAP)
        axes = figure.add_axes(PAGE.panel(lane_top - _LANE, _LANE))
        _style_lane(axes, explanation.task.program.num_ops, name)
        for index, colour in enumerate(colours):
            height = np.zeros(explanation.task.program.num_ops)
            height[shift.ops[level == index]] = (backing + 1 - index) / (backing + 1)
            axes.stairs(height, np.arange(explanation.task.program.num_ops + 1), fill=True, color=colour, linewidth=0)
        if lane == 0:
            parts = [f"{name} {percent(share)}" for name, share in shares if share is not None]
            facts = f"{len(shift.ops)} of {explanation.task.program.num_ops} ops"
            facts += f"  ·  neighbours in one level: {', '.join(parts)}" if parts else ""
            panel_title(figure, axes, f"{shift.name.capitalize()} by op", facts)
            if legend:
                levels = zip(explanation.level_names, colours, strict=True)
                handles = [Patch(color=colour, label=legend_label(cut(level, 8))) for level, colour in levels]
                legend_row(axes, handles, loc="lower right", bbox_to_anchor=(1.0, 1.2))


def _style_lane(axes: Axes, ops: int, name: str) -> None:
    style_axes(axes)
    axes.grid(False)
    axes.set_xlim(0, ops)
    axes.set_ylim(0, 1)
    axes.tick_params(labelbottom=False, length=0)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.set_yticks([0.5], [name])


def _draw_time(figure: Figure, box: Box, explanation: Explanation) -> None:
    """Draw the time that each op saves, upwards, or loses, downwards."""
    axes = figure.add_axes(box)
    style_axes(axes)
    saved, ops = explanation.saved_ps, explanation.task.program.num_ops
    scale = time_scale(float(np.abs(saved).max()) * PS)
    unit, edges = PS / scale.size, np.arange(ops + 1)
    for part, colour in ((saved.clip(min=0), SAVED), (saved.clip(max=0), LOST)):
        axes.stairs(part * unit, edges, baseline=0, fill=True, color=colour, linewidth=0)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.set_xlim(0, ops)
    high, low = float(saved.max(initial=0)) * unit, float(saved.min(initial=0)) * unit
    room = 0.08 * (high - low) or 1.0
    axes.set_ylim(low - (room if low < 0 else 0), high + room)
    axes.locator_params(axis="y", nbins=5)
    _label_upwards(axes, f"saved ({scale.unit})")
    axes.set_xlabel(OP_AXIS, fontsize=AXIS_PT, color=INK)
    panel_title(figure, axes, "Time saved by op", _time_facts(explanation))


def _time_facts(explanation: Explanation) -> str:
    parts = []
    for word, time in (("won", explanation.saved_ps.clip(min=0)), ("lost", -explanation.saved_ps.clip(max=0))):
        ops = int((time > 0).sum())
        where = f"{seconds(float(time.sum()) * PS)} {word} in {ops} {'op' if ops == 1 else 'ops'}"
        parts.append(where if ops else f"nothing {word}")
    if explanation.tail_saved_ps:
        word = "won" if explanation.tail_saved_ps > 0 else "lost"
        parts.append(f"{seconds(abs(explanation.tail_saved_ps) * PS)} {word} in copies after the last op")
    return "  ·  ".join(parts)

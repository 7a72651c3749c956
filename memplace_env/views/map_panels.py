"""The panels of the memory map: one on-chip memory each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.accelerator import Accelerator, MemoryLevel
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report
from memplace_env.views.blocks import BlockKind, bytes_in_blocks
from memplace_env.views.figure import drawable, text_width
from memplace_env.views.units import bytes_scale, percent, rate, size, three_digits
from memplace_env.workload.program import Ints, Program

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

INK, MUTED, FAINT = "#222222", "#6b6b6b", "#d9d9d9"
BLOCK_COLOURS = {
    BlockKind.WEIGHT: "#0072b2",
    BlockKind.COPIED_WEIGHT: "#56b4e9",
    BlockKind.ACTIVATION: "#e69f00",
    BlockKind.COPIED_ACTIVATION: "#f0e442",
    BlockKind.INPUT: "#009e73",
    BlockKind.OUTPUT: "#cc79a7",
}
"""The palette of Okabe and Ito, which the colour-blind can tell apart."""
IN_FLIGHT = "////"
"""Hatch of the part of a block that waits for its copy."""

_DARK = 0.5
_EDGE_PX, _MARGIN_PX, _LINE_PX = 3.0, 4.0, 11.0
_LABEL_SIZE = 8.5
_LOW_PX = 90
_MOST_LABELS = 80


class MapData(NamedTuple):
    """What all panels share: `arrived` int64[A] as from `arrivals`, `ends` the right end of the op axis."""

    program: Program
    accelerator: Accelerator
    plan: MemoryPlan
    report: Report
    kinds: list[BlockKind]
    arrived: Ints
    ends: int


class Rectangles(NamedTuple):
    """Blocks as drawn: op, address in the panel's unit, width, height; float64[n] each."""

    left: NDArray[np.float64]
    low: NDArray[np.float64]
    width: NDArray[np.float64]
    height: NDArray[np.float64]

    @property
    def corners(self) -> NDArray[np.float64]:
        """float64[n, 4, 2]."""
        left, right, low, high = self.left, self.left + self.width, self.low, self.low + self.height
        return np.stack([np.stack([left, right, right, left], 1), np.stack([low, low, high, high], 1)], 2)


def draw_level(
    figure: Figure, box: tuple[float, float, float, float], data: MapData, level: int, title: str | None = None
) -> None:
    """One memory: its blocks over ops and addresses, capacity line, how full it is; called after itself or `title`."""
    memory = data.accelerator.levels[level]
    axes = figure.add_axes(box)
    scale = bytes_scale(memory.capacity_bytes)
    capacity = memory.capacity_bytes / scale.size
    style_axes(axes)
    axes.set_xlim(0, data.ends)
    axes.set_ylim(0, capacity * 1.03)
    axes.tick_params(labelbottom=False)
    low = axes.get_window_extent().height < _LOW_PX
    set_address_ticks(axes, capacity, 2 if low else 4)
    label_axis(axes, scale.unit if low else f"address ({scale.unit})")
    axes.axhline(capacity, color=INK, linewidth=1.4, zorder=4)
    panel_title(figure, axes, title or memory.name, _facts(data, level, memory))

    rows = np.flatnonzero(data.plan.allocations[:, 1] == level)
    if len(rows) == 0:
        axes.text(0.5, 0.5, "nothing is placed here", transform=axes.transAxes, ha="center", color=MUTED, fontsize=11)
        return
    tensor, _, offset, start, end = data.plan.allocations[rows].T
    bytes_ = data.program.tensor_bytes[tensor]
    rectangles = Rectangles(start / 1.0, offset / scale.size, end + 1.0 - start, bytes_ / scale.size)
    pixels = pixels_per_unit(axes)
    colours = [BLOCK_COLOURS[data.kinds[row]] for row in rows]
    draw_blocks(axes, rectangles, colours, pixels)
    draw_in_flight(axes, rectangles, data.arrived[rows])
    draw_labels(figure, axes, rectangles, [data.program.tensor_name[k] for k in tensor], colours, pixels)


def style_axes(axes: Axes) -> None:
    """The look of all panels, set here rather than taken from the user's matplotlibrc."""
    axes.set_facecolor("white")
    axes.set_axisbelow(True)
    axes.grid(True, axis="y", color=FAINT, linewidth=0.6, linestyle="-")
    axes.tick_params(labelsize=10, colors=INK, length=3, width=0.8)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(MUTED)
        spine.set_linewidth(0.8)


def legend_row(parent: Axes | Figure, handles: Sequence[Patch | Line2D], **place: Any) -> None:
    """A legend in one row without a frame; `place` as matplotlib's legend takes it."""
    parent.legend(
        handles=handles,
        ncols=max(len(handles), 1),
        frameon=False,
        fontsize=10,
        handlelength=1.2,
        handletextpad=0.5,
        columnspacing=1.5,
        borderpad=0,
        borderaxespad=0,
        labelcolor=INK,
        **place,
    )


def label_axis(axes: Axes, text: str) -> None:
    """Label the vertical axis, at the same place in all panels."""
    axes.set_ylabel(text, fontsize=10.5, color=INK)
    axes.yaxis.set_label_coords(-0.043, 0.5)


def set_address_ticks(axes: Axes, capacity: float, parts: int) -> None:
    """Ticks up to the capacity where that gives round numbers, else at powers of two below it."""
    if capacity % parts == 0 or capacity < parts:
        ticks = np.linspace(0, capacity, parts + 1)
    else:
        step = 2.0 ** np.ceil(np.log2(capacity / parts))
        ticks = np.arange(0, capacity, step)
    axes.set_yticks(ticks, [three_digits(tick) for tick in ticks])


def _facts(data: MapData, level: int, memory: MemoryLevel) -> str:
    used = bytes_in_blocks(data.program, data.plan, level)[: data.program.num_ops]
    peak, mean = used.max(), used.mean()
    facts = [
        size(memory.capacity_bytes),
        rate(memory.read_bytes_per_s),
        f"peak {size(peak)} ({percent(peak / memory.capacity_bytes)})",
        f"mean {percent(mean / memory.capacity_bytes)}",
        f"{size(data.report.bytes_moved[level])} moved",
    ]
    return "  ·  ".join(facts)


def panel_title(figure: Figure, axes: Axes, name: str, facts: str) -> None:
    """A bold name and facts beside it, above the top left corner."""
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=12, weight="bold")
    name = drawable(name)
    beside = text_width(figure, name, font) + 14
    for shift, text, style, colour in (
        (0, name, font, INK),
        (beside, drawable(facts), FontProperties(size=10.5), MUTED),
    ):
        axes.annotate(
            text,
            (0, 1),
            (shift, 8),
            xycoords="axes fraction",
            textcoords="offset pixels",
            fontproperties=style,
            color=colour,
            parse_math=False,
        )


def pixels_per_unit(axes: Axes) -> tuple[float, float]:
    """Pixels that one unit takes, across and upwards."""
    box = axes.get_window_extent()
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    return box.width / (right - left), box.height / (high - low)


def draw_blocks(axes: Axes, rectangles: Rectangles, colours: Sequence[str], pixels: tuple[float, float]) -> None:
    """Blocks of some size get a white edge; tiny ones none, or many of them would look like one white area.

    Those are not anti-aliased either, so that blocks side by side leave no seams.
    """
    from matplotlib.collections import PolyCollection

    wide = (rectangles.width * pixels[0] >= _EDGE_PX) & (rectangles.height * pixels[1] >= _EDGE_PX)
    corners, palette = rectangles.corners, np.array(colours)
    for chosen, edge in ((~wide, 0.0), (wide, 0.5)):
        axes.add_collection(
            PolyCollection(
                list(corners[chosen]),
                facecolors=palette[chosen].tolist(),
                edgecolors="white" if edge else "none",
                linewidths=edge,
                antialiaseds=bool(edge),
                zorder=2,
            ),
            autolim=False,
        )


def draw_in_flight(axes: Axes, rectangles: Rectangles, arrived: Ints) -> None:
    """Hatch what each copied-in block holds before its data is all there."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    copied = arrived >= 0
    if not copied.any():
        return
    waiting = Rectangles(*(side[copied] for side in rectangles))
    waiting = waiting._replace(width=arrived[copied] + 1.0 - waiting.left)
    # All in one path: drawing the hatch takes as long for one block as for all.
    axes.add_artist(
        PathPatch(
            Path.make_compound_path_from_polys(waiting.corners),
            facecolor=(1, 1, 1, 0.55),
            edgecolor=(0.4, 0.4, 0.4, 0.5),
            hatch=IN_FLIGHT,
            linewidth=0.0,
            zorder=3,
        )
    )


def draw_labels(
    figure: Figure,
    axes: Axes,
    rectangles: Rectangles,
    names: Sequence[str],
    colours: Sequence[str],
    pixels: tuple[float, float],
) -> None:
    """Name the blocks, largest first, that have room for it: across or, in tall narrow ones, upwards."""
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=_LABEL_SIZE)
    widths, heights = rectangles.width * pixels[0] - _MARGIN_PX, rectangles.height * pixels[1] - _MARGIN_PX
    written = 0
    for block in np.argsort(-widths * heights, kind="stable"):
        across = bool(heights[block] >= _LINE_PX and widths[block] >= min(heights[block], 4 * _LINE_PX))
        room, thickness = (widths[block], heights[block]) if across else (heights[block], widths[block])
        if written == _MOST_LABELS or thickness < _LINE_PX:
            continue
        spellings = _spellings(drawable(names[block]))
        label = next((text for text in spellings if text_width(figure, text, font) <= room), None)
        if label is not None:
            axes.text(
                rectangles.left[block] + rectangles.width[block] / 2,
                rectangles.low[block] + rectangles.height[block] / 2,
                label,
                ha="center",
                va="center_baseline" if across else "center",
                rotation=0 if across else 90,
                fontproperties=font,
                color="white" if _luminance(colours[block]) < _DARK else "black",
                zorder=5,
                parse_math=False,
            )
            written += 1


def _luminance(colour: str) -> float:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _spellings(name: str) -> list[str]:
    """The name, then ever shorter ends of it, cut at its own separators."""
    cuts = [index + 1 for index, letter in enumerate(name) if letter in "/." and index + 1 < len(name)]
    return [name, *(name[cut:] for cut in cuts)]

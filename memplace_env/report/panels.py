"""Parts of all pictures: a page, and panels in the common style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memplace_env.machine.accelerator import MemoryLevel
from memplace_env.report.quantities import bytes_scale, three_digits
from memplace_env.report.style import (
    AXIS_PT,
    FAINT,
    HEAD_PT,
    INK,
    MUTED,
    PANEL_PT,
    TICK_PT,
    TITLE_PT,
    drawable,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

Box = tuple[float, float, float, float]
"""Left, bottom, width and height of a panel, as fractions of the figure."""

OP_AXIS = "op, in execution order"
_LOW_PX = 90
"""Height in pixels below which a panel gets fewer ticks and a shorter label."""


class Page(NamedTuple):
    """Size and side margins of a picture, in pixels."""

    height: int = 800
    width: int = 1200
    left: int = 76
    right: int = 18

    def box(self, left: float, bottom: float, width: float, height: float) -> Box:
        """Return the box of a panel, from pixels."""
        return left / self.width, bottom / self.height, width / self.width, height / self.height

    def panel(self, bottom: float, height: float) -> Box:
        """Return the box of a panel from margin to margin, from pixels."""
        return self.box(self.left, bottom, self.width - self.left - self.right, height)

    def write(self, figure: Figure, left: float, top: float, text: str, **style: Any) -> None:
        """Write a text, its baseline that many pixels below the top; `style` as matplotlib takes it."""
        style.setdefault("color", INK)
        figure.text(left / self.width, 1 - top / self.height, drawable(text), parse_math=False, **style)

    def head(self, figure: Figure, title: str, line: str, title_pt: float = TITLE_PT) -> None:
        """Write the picture's title, and a line below it."""
        self.write(figure, self.left, 34, title, fontsize=title_pt, fontweight="bold")
        self.write(figure, self.left, 58, line, fontsize=HEAD_PT)

    def legend(self, figure: Figure, handles: Sequence[Patch | Line2D], top: float) -> None:
        """Draw a legend in one row below the title, `top` pixels from the upper edge."""
        anchor = (self.left / self.width, 1 - top / self.height)
        legend_row(figure, handles, loc="lower left", bbox_to_anchor=anchor)


def style_axes(axes: Axes) -> None:
    """Set the style of a panel, independent of the user's matplotlibrc."""
    axes.set_facecolor("white")
    axes.set_axisbelow(True)
    axes.grid(True, axis="y", color=FAINT, linewidth=0.6, linestyle="-")
    axes.tick_params(labelsize=TICK_PT, colors=INK, length=3, width=0.8)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(MUTED)
        spine.set_linewidth(0.8)


def legend_row(parent: Axes | Figure, handles: Sequence[Patch | Line2D], **position: Any) -> None:
    """Draw a legend in one row without a frame; `position` as matplotlib's legend takes it."""
    parent.legend(
        handles=handles,
        ncols=max(len(handles), 1),
        frameon=False,
        fontsize=TICK_PT,
        handlelength=1.2,
        handletextpad=0.5,
        columnspacing=1.5,
        borderpad=0,
        borderaxespad=0,
        labelcolor=INK,
        **position,
    )


def label_axis(axes: Axes, text: str) -> None:
    """Label the vertical axis, at the same distance in all panels."""
    axes.set_ylabel(text, fontsize=AXIS_PT, color=INK)
    axes.yaxis.set_label_coords(-0.043, 0.5)


def panel_title(figure: Figure, axes: Axes, name: str, facts: str) -> None:
    """Write a bold name and facts beside it above the top left corner."""
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=PANEL_PT, weight="bold")
    name = drawable(name)
    beside = text_width(figure, name, font) + 14
    for shift, text, style, colour in (
        (0, name, font, INK),
        (beside, drawable(facts), FontProperties(size=AXIS_PT), MUTED),
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


def memory_panel(figure: Figure, box: Box, memory: MemoryLevel, first: int, end: int) -> tuple[Axes, float]:
    """Add an empty panel of ops `first`..`end` by addresses with a capacity line; return it and its unit in bytes."""
    axes = figure.add_axes(box)
    scale = bytes_scale(memory.capacity_bytes)
    capacity = memory.capacity_bytes / scale.size
    style_axes(axes)
    axes.set_xlim(first, end)
    axes.set_ylim(0, capacity * 1.03)
    axes.tick_params(labelbottom=False)
    low = axes.get_window_extent().height < _LOW_PX
    _set_address_ticks(axes, capacity, 2 if low else 4)
    label_axis(axes, scale.unit if low else f"address ({scale.unit})")
    axes.axhline(capacity, color=INK, linewidth=1.4, zorder=4)
    return axes, scale.size


def _set_address_ticks(axes: Axes, capacity: float, parts: int) -> None:
    """Set ticks up to the capacity where that gives round numbers, else at powers of two below it."""
    if capacity % parts == 0 or capacity < parts:
        ticks = np.linspace(0, capacity, parts + 1)
    else:
        step = 2.0 ** np.ceil(np.log2(capacity / parts))
        ticks = np.arange(0, capacity, step)
    axes.set_yticks(ticks, [three_digits(tick) for tick in ticks])


def pixels_per_unit(axes: Axes) -> tuple[float, float]:
    """Return the pixels of one unit, across and upwards."""
    box = axes.get_window_extent()
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    return box.width / (right - left), box.height / (high - low)

"""The picture of `memplace pack`: blocks by time and address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memplace_env.program.program import Ints
from memplace_env.report.panels import Page, label_axis, pixels_per_unit, style_axes
from memplace_env.report.plans.block_drawing import Rectangles, draw_blocks, draw_names
from memplace_env.report.quantities import bytes_scale, cut
from memplace_env.report.style import AXIS_PT, BLOCK_COLOURS, INK, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def packing_figure(blocks: Ints, names: Sequence[str], title: str, line: str) -> Figure:
    """Draw blocks, int64[n, 4] of size, first, last and offset, 1200 x 800 pixels.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    arena = max(int((blocks[:, 0] + blocks[:, 3]).max(initial=0)), 1)
    page, scale, palette = Page(), bytes_scale(arena), list(dict.fromkeys(BLOCK_COLOURS.values()))
    figure = new_figure(page.width, page.height)
    axes = figure.add_axes(page.panel(58, 650))
    style_axes(axes)
    size, first, last, offset = blocks.T.astype(np.float64)
    rectangles = Rectangles(first, offset / scale.size, last - first + 1, size / scale.size)
    axes.set_xlim(first.min(initial=0), (last + 1).max(initial=1))
    axes.set_ylim(0, arena / scale.size)
    colours = [palette[row % len(palette)] for row in range(len(blocks))]
    pixels = pixels_per_unit(axes)
    draw_blocks(axes, rectangles, colours, pixels)
    draw_names(figure, axes, rectangles, names, colours, pixels)
    axes.set_xlabel("time", fontsize=AXIS_PT, color=INK)
    label_axis(axes, f"address ({scale.unit})")
    page.head(figure, cut(title, 90), line)
    return figure

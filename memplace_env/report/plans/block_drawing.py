"""Blocks as rectangles in a panel of ops by addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.program.program import Ints
from memplace_env.report.style import IN_FLIGHT, MUTED, NAME_PT, drawable, is_dark, rgb, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

_EDGE_PX, _MARGIN_PX, _LINE_PX = 3.0, 4.0, 11.0
"""Pixels: smallest side of a block with an edge, margin of a name, height of a line of text. Our choice."""
_MOST_LABELS = 80
"""Names in a panel at most. Our choice."""


class Rectangles(NamedTuple):
    """Blocks as drawn: op, address in the panel's unit, width, height; float64[n] each."""

    left: NDArray[np.float64]
    low: NDArray[np.float64]
    width: NDArray[np.float64]
    height: NDArray[np.float64]

    @property
    def corners(self) -> NDArray[np.float64]:
        """Corners of each block, float64[n, 4, 2]."""
        left, right, low, high = self.left, self.left + self.width, self.low, self.low + self.height
        return np.stack([np.stack([left, right, right, left], 1), np.stack([low, low, high, high], 1)], 2)


def draw_blocks(axes: Axes, rectangles: Rectangles, colours: Sequence[str], pixels: tuple[float, float]) -> None:
    """Draw blocks; large ones get a white edge, tiny ones none, or many of them would look like one white area.

    Tiny ones are not anti-aliased, so that neighbours leave no seams. `pixels` as from `pixels_per_unit`.
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
    """Hatch the part of each copied-in block before its copy is complete; `arrived` int64[n] as from `arrivals`."""
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


def in_flight_handle() -> Patch:
    """Return the legend's entry for `draw_in_flight`."""
    from matplotlib.patches import Patch

    return Patch(facecolor="white", edgecolor=MUTED, hatch=IN_FLIGHT, label="copy under way")


def draw_names(
    figure: Figure,
    axes: Axes,
    rectangles: Rectangles,
    names: Sequence[str],
    colours: Sequence[str],
    pixels: tuple[float, float],
) -> None:
    """Write names into the blocks with room, largest first: across or, in tall narrow ones, upwards; "" is none."""
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=NAME_PT)
    widths, heights = rectangles.width * pixels[0] - _MARGIN_PX, rectangles.height * pixels[1] - _MARGIN_PX
    written = 0
    for block in np.argsort(-widths * heights, kind="stable"):
        across = bool(heights[block] >= _LINE_PX and widths[block] >= min(heights[block], 4 * _LINE_PX))
        room, thickness = (widths[block], heights[block]) if across else (heights[block], widths[block])
        if written == _MOST_LABELS or thickness < _LINE_PX or not names[block]:
            continue
        spellings = _spellings(drawable(names[block]))
        name = next((text for text in spellings if text_width(figure, text, font) <= room), None)
        if name is not None:
            axes.text(
                rectangles.left[block] + rectangles.width[block] / 2,
                rectangles.low[block] + rectangles.height[block] / 2,
                name,
                ha="center",
                va="center_baseline" if across else "center",
                rotation=0 if across else 90,
                fontproperties=font,
                color="white" if is_dark(*rgb(colours[block])) else "black",
                zorder=5,
                parse_math=False,
            )
            written += 1


def _spellings(name: str) -> list[str]:
    """Return the name, then ever shorter ends of it, cut at its own separators."""
    cuts = [index + 1 for index, letter in enumerate(name) if letter in "/." and index + 1 < len(name)]
    return [name, *(name[cut:] for cut in cuts)]

"""Drawing with matplotlib without its global state, and without needing it until something is drawn."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memplace_env.errors import MemPlaceError
from memplace_env.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

_DPI = 100
_LAST_LATIN = 0x24F
_WIDTHS: dict[tuple[object, ...], float] = {}
_MOST_WIDTHS = 20_000
"""Widths of texts, kept because measuring takes most of the time of an animation's frame."""


class VisualizationError(MemPlaceError):
    """A picture is wanted and what draws it is not installed."""


def new_figure(width_px: int, height_px: int) -> Figure:
    """An empty white figure with its own canvas.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise VisualizationError(
            'Pictures need matplotlib, which is not installed; run: pip install "memplace[viz]".'
        ) from None
    figure = Figure(figsize=(width_px / _DPI, height_px / _DPI), dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def to_png(figure: Figure) -> bytes:
    """The figure as a PNG file; the same figure always gives the same bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()


def save_png(figure: Figure, path: str | Path) -> Path:
    """Write the figure as a PNG file, whole or not at all.

    Raises:
        OSError: if the place cannot be written.
    """
    return write_atomically(path, to_png(figure))


def to_rgb(figure: Figure) -> NDArray[np.uint8]:
    """The figure as uint8[H, W, 3]."""
    canvas: Any = figure.canvas
    canvas.draw()
    return np.asarray(canvas.buffer_rgba(), dtype=np.uint8)[..., :3].copy()


def text_width(figure: Figure, text: str, font: FontProperties) -> float:
    """Pixels that the text takes in a figure of `new_figure`."""
    key = (text, font.get_size_in_points(), font.get_weight())
    if key not in _WIDTHS:
        if len(_WIDTHS) == _MOST_WIDTHS:
            _WIDTHS.clear()
        canvas: Any = figure.canvas
        _WIDTHS[key] = float(canvas.get_renderer().get_text_width_height_descent(text, font, False)[0])
    return _WIDTHS[key]


def drawable(text: str) -> str:
    """The text with what matplotlib's own font may lack, and line breaks, replaced."""
    known = "→×·–−…µ"
    return "".join(c if c.isprintable() and (ord(c) <= _LAST_LATIN or c in known) else "?" for c in text)

"""The style of all pictures: colours, sizes of letters, and figures as bytes.

matplotlib is used without its global state, and is not needed until something is drawn.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import VisualizationError
from memplace_env._lib.files import write_atomically
from memplace_env._lib.lazy import required
from memplace_env.report.plans.block_kinds import BlockKind

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

INK, MUTED, FAINT = "#222222", "#6b6b6b", "#d9d9d9"
"""Colours of texts and lines, of secondary ones, and of grids."""
BLOCK_COLOURS = {
    BlockKind.WEIGHT: "#0072b2",
    BlockKind.COPIED_WEIGHT: "#56b4e9",
    BlockKind.ACTIVATION: "#e69f00",
    BlockKind.COPIED_ACTIVATION: "#f0e442",
    BlockKind.INPUT: "#009e73",
    BlockKind.OUTPUT: "#cc79a7",
    BlockKind.FILLED: "#009e73",
    BlockKind.TAKEN: "#cc79a7",
}
"""Colours by kind of block: the palette of Okabe and Ito, distinct for the colour-blind."""
SAVED, LOST = "#b9dcf2", "#d55e00"
"""Colours of time that a plan saves against another, and that it loses, to memory or against another."""
LATENCY, BASELINE, AHEAD = "#0072b2", "#d55e00", "#009e73"
"""Colours of a game's latency, of its baseline's, and of the lead of a plan."""
TIME_COLOURS = {"compute": "#a6a6a6", "lost to memory": LOST, "stall": "#000000"}
"""Colours of the parts of an op's time, by their labels."""
PORT_COLOURS = {"serves the op": "#8c8c8c", "copies": "#56b4e9", "free": "#d7ecd9"}
"""Colours of the backing memory's port in an op's time, by their labels."""
SPAN_COLOURS = {
    "loads": "#56b4e9",
    "unit at work": "#a6a6a6",
    "stores": "#e69f00",
    "copies": "#009e73",
    "an engine at a copy": "#93cdb9",
}
"""Colours of what works in a run of the event simulator, by their labels."""
CHOSEN, NOW = "#d1005d", "#f3e3ea"
"""Colours of a decision's tensor, and of the current op."""
IN_FLIGHT = "////"
"""Hatch of the part of a block that waits for its copy."""

TITLE_PT, HEAD_PT, PANEL_PT, AXIS_PT, TICK_PT, NOTE_PT, NAME_PT = 16, 12, 12, 10.5, 10, 9, 8.5
"""Sizes of letters: a picture's title, the line below it, a panel's title, axes and facts, ticks and legends, notes in
a panel, names of blocks."""

_FASTEST, _SLOWEST_ON_CHIP, _BACKING = (74, 20, 108), (178, 142, 214), "#bdbdbd"
_DPI = 100
_LAST_LATIN = 0x24F
_MOST_LETTERS = 400
_DARK = 0.5
"""Luminance, 0..1, below which letters on a colour are white."""
_WIDTHS: dict[tuple[object, ...], float] = {}
_MOST_WIDTHS = 20_000
"""Entries of the cache of text widths: measuring takes most of the time of an animation's frame."""


def new_figure(width_px: int, height_px: int) -> Figure:
    """Return an empty white figure with its own canvas.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    require_packages()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_px / _DPI, height_px / _DPI), dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def require_packages(animation: bool = False) -> None:
    """Check before long work that its result can be drawn.

    Raises:
        VisualizationError: if matplotlib, or Pillow, which animations need, is not installed.
    """
    for package, module in {"matplotlib": "matplotlib.figure", "Pillow": "PIL.Image"}.items():
        if animation or package == "matplotlib":
            required(module, "Pictures need", package, "viz", VisualizationError)


def to_png(figure: Figure) -> bytes:
    """Return the figure as a PNG file; the same figure always gives the same bytes."""
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
    """Return the figure as uint8[H, W, 3]."""
    canvas: Any = figure.canvas
    canvas.draw()
    return np.asarray(canvas.buffer_rgba(), dtype=np.uint8)[..., :3].copy()


def text_width(figure: Figure, text: str, font: FontProperties) -> float:
    """Return the width of a text in pixels in a figure of `new_figure`."""
    key = (text, font.get_size_in_points(), font.get_weight())
    if key not in _WIDTHS:
        if len(_WIDTHS) == _MOST_WIDTHS:
            _WIDTHS.clear()
        canvas: Any = figure.canvas
        _WIDTHS[key] = float(canvas.get_renderer().get_text_width_height_descent(text, font, False)[0])
    return _WIDTHS[key]


def drawable(text: str) -> str:
    """Return the text cut to a picture's width, with line breaks and letters that the font may lack replaced."""
    drawn = "→×·–−…µ"  # besides Latin letters
    return "".join(
        c if c.isprintable() and (ord(c) <= _LAST_LATIN or c in drawn) else "?" for c in text[:_MOST_LETTERS]
    )


def legend_label(text: str) -> str:
    """Return a drawable text for legends, in which `$` and a leading `_` are commands of matplotlib."""
    text = drawable(text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def rgb(colour: str) -> tuple[float, float, float]:
    """Return red, green and blue, 0..1 each, of a colour like "#0072b2"."""
    red, green, blue = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
    return red, green, blue


def is_dark(red: float, green: float, blue: float) -> bool:
    """Return whether white letters are easier to read on a colour than black ones."""
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < _DARK


def paler(colour: str, share: float) -> str:
    """Return the colour with that fraction of it, 0..1, replaced by white."""
    parts = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def level_colours(levels: int) -> list[str]:
    """Return a colour for each memory level: violet on the chip, the darker the faster, grey for the backing memory."""
    shares = np.linspace(0, 1, max(levels - 1, 2))[: levels - 1, None]
    on_chip = np.rint((1 - shares) * np.array(_FASTEST) + shares * np.array(_SLOWEST_ON_CHIP)).astype(int)
    return ["#{:02x}{:02x}{:02x}".format(*colour) for colour in on_chip.tolist()] + [_BACKING]

"""Tables in the common style."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from memplace_env.foreign import shown

NONE = "–"
"""An empty cell."""


def new_table(title: str | None, *columns: str, left: Sequence[int] = (0,), caption: str | None = None) -> Table:
    """A table in the common style; columns are right-aligned but for those numbered in `left`.

    Texts are shown as they are, escaped and shortened: names of tensors and files may look like rich's markup, or be
    commands to the terminal. Where there is no room cells are folded, not cut.
    """
    table = Table(
        title=None if title is None else Text(shown(title), style="bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        caption=None if caption is None else Text(shown(caption), style="dim"),
        caption_justify="left",
        pad_edge=False,
    )
    for index, column in enumerate(columns):
        table.add_column(Text(shown(column)), justify="left" if index in left else "right", overflow="fold")
    return table


def add_row(table: Table, *cells: object, style: str = "") -> None:
    """Add a row of texts; a list is shown a line each."""
    table.add_row(*map(_cell, cells), style=style)


def _cell(value: object) -> Text:
    return Text("\n".join(map(shown, value if isinstance(value, list) else [value])))


def plain_text(renderable: RenderableType, width: int = 100) -> str:
    """Any of the tables without colours or trailing blanks."""
    buffer = StringIO()
    Console(file=buffer, width=width, color_system=None, force_terminal=False, legacy_windows=False).print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().strip("\n").splitlines()) + "\n"

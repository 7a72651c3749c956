"""Tables in the common style, which fit terminals of any width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.table import Column, Table
from rich.text import Text

from memplace_env._lib.foreign import shown

NONE = "–"
"""An empty cell."""

_GAP = 3
"""Characters between two columns: a blank on either side of what the box draws there."""
_NARROW = 16
"""Characters of a column of texts at least, so that few words make few lines."""
_CAPTION_WIDTH = 76
"""Characters of a line of a caption at least, where the table is narrower."""
_LONGEST_WORD = 48
"""Characters of a word in a cell from which on it may be broken: longer than ids, shorter than paths. Our choice."""


def new_table(title: str | None, *columns: str, left: Sequence[int] = (0,), caption: str | None = None) -> Table:
    """Return a table in the common style; columns are right-aligned except for those numbered in `left`.

    Texts are shown as they are, escaped and shortened: names of tensors and files may look like rich's markup, or
    contain commands to the terminal. Numbers and words stay whole: texts are folded between words, and where that is
    not narrow enough the columns go into several tables, one below the other, each with the left ones.
    """
    table = _FittingTable(
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


def plain_text(renderable: RenderableType, width: int = 100) -> str:
    """Return any of the tables as text without colours and trailing blanks."""
    buffer = StringIO()
    Console(file=buffer, width=width, color_system=None, force_terminal=False, legacy_windows=False).print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().strip("\n").splitlines()) + "\n"


class _FittingTable(Table):
    """A table that breaks no word and no number where the console is narrow."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        parts = list(self._parts(options.max_width))
        if self.title:
            yield self.title
        for part in parts:
            yield from Table.__rich_console__(part, console, options)
        if self.caption:
            width = max(_CAPTION_WIDTH, *(sum(column.width or 0 for column in part.columns) for part in parts))
            yield Constrain(self.caption, min(width, options.max_width))

    def _parts(self, width: int) -> Iterator[_FittingTable]:
        """Yield tables that fit into a width: this one, or else its columns in groups, each after the left one."""
        # The box's edges take a character each, and there is no gap behind the last column.
        room = width - 2 + _GAP - 1
        least = [min(_narrowest(column), room - _GAP) for column in self.columns]
        beside = room - least[0] - 2 * _GAP  # characters of one more column beside the left one
        keys = [0] if len(self.columns) > 1 and beside >= _NARROW else []
        if keys:
            least[1:] = [min(other, beside) for other in least[1:]]
        group = list(keys)
        for index in range(len(keys), len(self.columns)):
            if len(group) > len(keys) and sum(least[other] + _GAP for other in (*group, index)) > room:
                yield self._with_columns(group, least, room)
                group = list(keys)
            group.append(index)
        yield self._with_columns(group, least, room)

    def _with_columns(self, indices: Sequence[int], all_least: Sequence[int], room: int) -> _FittingTable:
        """Return the table of some columns, as wide as their texts, or narrowed to `room`, the widest columns first."""
        columns = [replace(self.columns[index]) for index in indices]  # with its cells, which `Column.copy` drops
        least = [all_least[index] for index in indices]
        most = [max(width, _widest(column)) for width, column in zip(least, columns, strict=True)]

        def widths(limit: int) -> list[int]:
            return [max(low, min(limit, high)) for low, high in zip(least, most, strict=True)]

        limits = range(max(most), 0, -1)
        limit = next((limit for limit in limits if sum(widths(limit)) + _GAP * len(columns) <= room), 1)
        part = copy(self)
        part.columns, part.title, part.caption = columns, None, None
        for index, (column, width) in enumerate(zip(columns, widths(limit), strict=True)):
            column._index, column.width = index, width
        return part


def _narrowest(column: Column) -> int:
    """Return the characters that a column needs: of its longest word, of its longest line where it has numbers."""
    words = [cell_len(word) for word in str(column.header).split()]
    if column.justify == "left":
        words.append(min(_widest(column), _NARROW))
    for cell in column._cells:
        for line in str(cell).splitlines():
            whole = [line] if column.justify == "right" else line.split()
            words += [min(cell_len(word), _LONGEST_WORD) for word in whole]
    return max(words, default=1)


def _widest(column: Column) -> int:
    return max(
        (cell_len(line) for text in (column.header, *column._cells) for line in str(text).splitlines()), default=1
    )


def _cell(value: object) -> Text:
    return Text("\n".join(map(shown, value if isinstance(value, list) else [value])))


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a GitHub table; the first column is aligned left, all others right."""
    lines = [headers, ["---", *["--:"] * (len(headers) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

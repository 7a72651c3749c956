"""The fast memory of a game as a picture made of letters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from memplace_env.analysis.game_snapshot import Snapshot
from memplace_env.views.text.quantities import size
from memplace_env.workload.program import TensorKind

SHADES = " ░▒█"
"""A cell of the picture: empty, cached, held, protected."""
KIND_STYLES = {
    TensorKind.WEIGHT: "bright_blue",
    TensorKind.INPUT: "green",
    TensorKind.ACTIVATION: "yellow",
    TensorKind.OUTPUT: "magenta",
}
"""Colours of the terminal, as near as it gets to those of the drawn pictures."""
_NEW = "◆"
_MOST_COLUMNS = 8


class _Grid(NamedTuple):
    """Cells of the picture: `height` address bins of a memory of `capacity` bytes by the ops `first`..`last`."""

    height: int
    capacity: int
    first: int
    last: int

    def cells(self, offset: int, bytes_: int, start: int, end: int) -> tuple[slice, slice]:
        """Where a block is, up to op `end` exclusive: the bins whose centres it covers, at least one."""
        centres = (np.arange(self.height) + 0.5) * self.capacity / self.height
        low, high = np.searchsorted(centres, (offset, offset + bytes_)).tolist()
        if high <= low:
            low = min(offset * self.height // self.capacity, self.height - 1)
            high = low + 1
        return slice(low, high), slice(max(start - self.first, 0), max(end - self.first, 0))


def board_text(moment: Snapshot, width: int = 72, height: int = 16) -> Text:
    """The fast memory's last ops as a picture: ops across, the current one last; addresses up, low ones at the bottom.

    Diamonds show the block that Copy or NoCopy would place.
    """
    problem, tables = moment.problem, moment.problem.tables
    now = min(moment.op, problem.program.num_ops - 1)
    columns = min(max(width // problem.program.num_ops, 1), _MOST_COLUMNS)
    grid = _Grid(height, tables.capacity, max(0, now + 1 - width // columns), now)
    shades, kinds = _painted(moment, grid)
    letters = np.array(list(SHADES))[shades]
    decision = moment.decision
    if decision and decision.candidate and decision.candidate.new:
        chosen = decision.candidate
        letters[grid.cells(chosen.offset, int(tables.size[decision.tensor]), chosen.start, now + 1)] = _NEW
    return _framed(letters.repeat(columns, axis=1), kinds.repeat(columns, axis=1), grid)


def _painted(moment: Snapshot, grid: _Grid) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64[height, ops] each, the shade of each cell and the kind of the tensor it shows."""
    tables, program = moment.problem.tables, moment.problem.program
    shades = np.zeros((grid.height, grid.last + 1 - grid.first), dtype=np.int64)
    kinds = np.zeros_like(shades)
    for tensor, offset, start, _, protected, end, cached in zip(
        *(part.tolist() for part in moment.blocks), strict=True
    ):
        for shade, (begin, until) in ((1, (end, cached)), (2, (protected, end)), (3, (start, protected))):
            place = grid.cells(offset, int(tables.size[tensor]), begin, until)
            # A block too small for a bin of its own must not hide a larger one.
            drawn = shades[place] < shade
            shades[place] = np.where(drawn, shade, shades[place])
            kinds[place] = np.where(drawn, int(program.tensor_kind[tensor]), kinds[place])
    return shades, kinds


def _framed(letters: NDArray[np.str_], kinds: NDArray[np.int64], grid: _Grid) -> Text:
    """The picture with its axes and legend."""
    height, width = letters.shape
    text = Text()
    for bin_ in reversed(range(height)):
        label = size(grid.capacity * (bin_ + 1) / height) if (bin_ + 1) % 4 == 0 else ""
        text.append(f"{label:>9} │", style="dim")
        for letter, kind in zip(letters[bin_], kinds[bin_], strict=True):
            text.append(letter, style="bold red" if letter == _NEW else KIND_STYLES[TensorKind(int(kind))])
        text.append("\n")
    text.append(f"{'op':>9} └{'─' * width}\n", style="dim")
    first, last = str(grid.first), str(grid.last)
    ends = f"{first}{last:>{max(width - len(first), 1)}}" if grid.last > grid.first else first
    text.append(f"{'':>9}  {ends}\n", style="dim")
    for shade, name in ((3, "protected"), (2, "held"), (1, "cached")):
        text.append(f"{SHADES[shade]} {name}  ", style="dim")
    text.append(f"{_NEW} the block to place  ", style="dim")
    for kind, style in KIND_STYLES.items():
        text.append(f"{kind.name.lower()} ", style=style)
    return text

"""The fast memory of a game as a picture made of characters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from memplace_env.envs.malloc_game.viewer.game_snapshot import GameSnapshot
from memplace_env.program.program import TensorKind
from memplace_env.report.quantities import size

SHADES = " ░▒█"
"""Characters of a cell that is empty, cached, held or protected."""
KIND_STYLES = {
    TensorKind.WEIGHT: "bright_blue",
    TensorKind.INPUT: "green",
    TensorKind.ACTIVATION: "yellow",
    TensorKind.OUTPUT: "magenta",
}
"""Colours of the terminal, nearest to those of the drawn pictures."""
_NEW = "◆"
_MOST_COLUMNS = 8


class _Grid(NamedTuple):
    """Cells of the picture: `height` address bins of a memory of `capacity` bytes, by the ops `first`..`last`."""

    height: int
    capacity: int
    first: int
    last: int

    def cells(self, offset: int, bytes_: int, start: int, end: int) -> tuple[slice, slice]:
        """Return the cells of a block, up to op `end` exclusive: the bins whose centres it covers, at least one."""
        centres = (np.arange(self.height) + 0.5) * self.capacity / self.height
        low, high = np.searchsorted(centres, (offset, offset + bytes_)).tolist()
        if high <= low:
            low = min(offset * self.height // self.capacity, self.height - 1)
            high = low + 1
        return slice(low, high), slice(max(start - self.first, 0), max(end - self.first, 0))


def board_text(snapshot: GameSnapshot, width: int = 72, height: int = 16) -> Text:
    """Return the fast memory in the last ops as text: ops across, the current one last; addresses rising upwards.

    Diamonds show the block that Copy or NoCopy would place.
    """
    problem, tables = snapshot.problem, snapshot.problem.tables
    now = min(snapshot.op, problem.program.num_ops - 1)
    columns = min(max(width // problem.program.num_ops, 1), _MOST_COLUMNS)
    grid = _Grid(height, tables.capacity, max(0, now + 1 - width // columns), now)
    shades, kinds = _shades_and_kinds(snapshot, grid)
    characters = np.array(list(SHADES))[shades]
    decision = snapshot.decision
    if decision and decision.candidate and decision.candidate.new:
        block = decision.candidate
        characters[grid.cells(block.offset, int(tables.size[decision.tensor]), block.start, now + 1)] = _NEW
    return _with_axes(characters.repeat(columns, axis=1), kinds.repeat(columns, axis=1), grid)


def _shades_and_kinds(snapshot: GameSnapshot, grid: _Grid) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return int64[height, ops] twice: the shade of each cell, and the kind of the tensor in it."""
    tables, program = snapshot.problem.tables, snapshot.problem.program
    shades = np.zeros((grid.height, grid.last + 1 - grid.first), dtype=np.int64)
    kinds = np.zeros_like(shades)
    for tensor, offset, start, _, protected, end, cached in zip(
        *(part.tolist() for part in snapshot.blocks), strict=True
    ):
        for shade, (begin, until) in ((1, (end, cached)), (2, (protected, end)), (3, (start, protected))):
            cells = grid.cells(offset, int(tables.size[tensor]), begin, until)
            # A block too small for a bin of its own must not hide a larger one.
            visible = shades[cells] < shade
            shades[cells] = np.where(visible, shade, shades[cells])
            kinds[cells] = np.where(visible, int(program.tensor_kind[tensor]), kinds[cells])
    return shades, kinds


def _with_axes(characters: NDArray[np.str_], kinds: NDArray[np.int64], grid: _Grid) -> Text:
    """Return the picture with its axes and legend."""
    height, width = characters.shape
    text = Text()
    for bin_ in reversed(range(height)):
        label = size(grid.capacity * (bin_ + 1) / height) if (bin_ + 1) % 4 == 0 else ""
        text.append(f"{label:>9} │", style="dim")
        for character, kind in zip(characters[bin_], kinds[bin_], strict=True):
            text.append(character, style="bold red" if character == _NEW else KIND_STYLES[TensorKind(int(kind))])
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

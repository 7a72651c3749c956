"""A game snapshot in words, and its fast memory as a picture made of characters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game.state import ACTIONS, COPY, DROP
from memplace_env.envs.malloc_game.viewer.game_snapshot import GameSnapshot, PendingDecision, why_illegal
from memplace_env.program.program import TensorKind
from memplace_env.report.plans.whole_tensors import part_text
from memplace_env.report.quantities import percent, ratio, seconds, shortened, size


def decision_text(snapshot: GameSnapshot, width: int = 60) -> str:
    """Return the current decision as one sentence; the tensor's name is cut to `width` characters.

    A slice is named by its tensor, its number and its share of the tensor.
    """
    decision, program = snapshot.decision, snapshot.problem.program
    if decision is None:
        return "The game is over."
    kind = TensorKind(int(program.tensor_kind[decision.tensor])).name.lower()
    verb = "makes" if decision.is_result else "reads"
    name = shortened(program.whole.tensor_name[program.whole_tensor[decision.tensor]], width)
    part = part_text(program, np.array([decision.tensor]))
    whose = f"{name}, {part}" if part else name
    bytes_ = size(int(program.tensor_bytes[decision.tensor]))
    return f"Op {decision.op}, {program.op_type[decision.op]}, {verb} the {kind} {whose} ({bytes_})."


def action_text(snapshot: GameSnapshot, action: int) -> str:
    """Return the effect of an action, or why it is illegal; there must be a decision."""
    decision = snapshot.decision
    assert decision is not None
    if decision.gains[action] is None:
        return why_illegal(snapshot, action)
    wait = decision.waits[action]
    return _effect(snapshot, decision, action) + (f"; op {decision.op} waits {seconds(wait * PS)}" if wait else "")


def gain_text(gain_ps: int | None) -> str:
    """Return the change of the estimated latency by an action."""
    if gain_ps is None:
        return "illegal"
    if gain_ps == 0:
        return "±0"
    return f"{'−' if gain_ps > 0 else '+'}{seconds(abs(gain_ps) * PS)}"


def latency_text(snapshot: GameSnapshot) -> str:
    """Return the latency so far and the baseline's."""
    problem = snapshot.problem
    word = "estimated latency" if snapshot.decision else "latency"
    waits = f", {percent(snapshot.waits_ps / snapshot.estimate_ps)} of it waiting" if snapshot.waits_ps else ""
    return (
        f"{word} {seconds(snapshot.estimate_ps * PS)}{waits}, {ratio(snapshot.speedup)} over all in "
        f"{problem.accelerator.levels[1].name} ({seconds(problem.all_backing_ps * PS)})"
    )


def memory_text(snapshot: GameSnapshot) -> str:
    """Return how full the fast memory is."""
    memory = snapshot.problem.accelerator.levels[0]
    held, cached = snapshot.bytes_now
    text = f"{memory.name}: {size(held)} of {size(memory.capacity_bytes)} in use"
    text += f" ({percent(held / memory.capacity_bytes)})"
    return text + (f", {size(cached)} more cached" if cached else "")


def outcome_text(snapshot: GameSnapshot) -> str:
    """Return counts of blocks and copies of a finished game."""
    copies_in, copies_back = snapshot.copies
    blocks = f"{len(snapshot.blocks.tensor)} blocks, at most {size(snapshot.peak_bytes)} at once"
    return f"{blocks}; {copies_in} copies in, {copies_back} back."


def game_text(snapshot: GameSnapshot) -> str:
    """Return the snapshot in a few lines of plain text."""
    problem, decision = snapshot.problem, snapshot.decision
    head = f"{problem.program.name} on {problem.accelerator.name}: "
    head += f"decision {decision.use + 1} of {problem.num_decisions}" if decision else "the game is over"
    lines = [head]
    if decision:
        lines.append(decision_text(snapshot))
        for action, name in enumerate(ACTIONS):
            lines.append(
                f"  {action} {name:<6} {gain_text(decision.gains[action]):>9}  {action_text(snapshot, action)}"
            )
    lines.append(f"{latency_text(snapshot)}; {memory_text(snapshot)}")
    return "\n".join(lines) + "\n"


def _effect(snapshot: GameSnapshot, decision: PendingDecision, action: int) -> str:
    """Return the effect of a legal action."""
    fast, backing = (level.name for level in snapshot.problem.accelerator.levels)
    block = decision.candidate
    if action == DROP:
        return f"write it to {backing}" if decision.is_result else f"read it from {backing}"
    assert block is not None
    if not decision.is_result and block.new:
        last = decision.op - 1
        ops = f"op {last}" if block.start == last else f"ops {block.start} to {last}"
        return f"copy it to {fast} during {ops}"
    verb = "make" if decision.is_result else "use"
    return f"{verb} it in {fast}" + (f" and copy it back to {backing}" if action == COPY else "")


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

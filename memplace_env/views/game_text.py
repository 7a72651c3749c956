"""A moment of a game in words, and as a picture made of letters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from memplace_env.envs.malloc_game.state import ACTIONS, COPY, DROP
from memplace_env.views.game_snapshot import Decision, Snapshot, why_illegal
from memplace_env.views.units import PS, percent, ratio, seconds, shortened, size
from memplace_env.workload.program import TensorKind

SHADES = " ░▒█"
"""A cell of the picture: empty, cached, committed, protected."""
KIND_STYLES = {
    TensorKind.WEIGHT: "bright_blue",
    TensorKind.INPUT: "green",
    TensorKind.ACTIVATION: "yellow",
    TensorKind.OUTPUT: "magenta",
}
"""Colours of the terminal, as near as it gets to those of the drawn pictures."""
_NEW = "◆"
_MOST_COLUMNS = 8


def question(moment: Snapshot, width: int = 60) -> str:
    """What is to be decided, in one sentence."""
    decision, program = moment.decision, moment.problem.program
    if decision is None:
        return "The game is over."
    kind = TensorKind(int(program.tensor_kind[decision.tensor])).name.lower()
    verb = "makes" if decision.is_result else "reads"
    name, bytes_ = program.tensor_name[decision.tensor], size(int(program.tensor_bytes[decision.tensor]))
    return f"Op {decision.op}, {program.op_type[decision.op]}, {verb} the {kind} {shortened(name, width)} ({bytes_})."


def choice(moment: Snapshot, action: int) -> str:
    """What an action would do, or why it is illegal."""
    decision = moment.decision
    assert decision is not None
    return _deed(moment, decision, action) if decision.gains[action] is not None else why_illegal(moment, action)


def gain_text(gain_ps: int | None) -> str:
    """By how much an action changes the estimated latency."""
    if gain_ps is None:
        return "illegal"
    if gain_ps == 0:
        return "±0"
    return f"{'−' if gain_ps > 0 else '+'}{seconds(abs(gain_ps) * PS)}"


def latency_text(moment: Snapshot) -> str:
    """The latency so far against the baseline."""
    problem = moment.problem
    word = "estimated latency" if moment.decision else "latency"
    return (
        f"{word} {seconds(moment.estimate_ps * PS)}, {ratio(moment.speedup)} over all in "
        f"{problem.accelerator.levels[1].name} ({seconds(problem.all_backing_ps * PS)})"
    )


def memory_text(moment: Snapshot) -> str:
    """How full the fast memory is."""
    memory = moment.problem.accelerator.levels[0]
    held, cached = moment.bytes_now
    text = f"{memory.name}: {size(held)} of {size(memory.capacity_bytes)} in use"
    text += f" ({percent(held / memory.capacity_bytes)})"
    return text + (f", {size(cached)} more cached" if cached else "")


def outcome_text(moment: Snapshot) -> str:
    """What a finished game made of the fast memory."""
    problem, blocks = moment.problem, moment.blocks
    change = np.zeros(problem.program.num_ops + 3, dtype=np.int64)
    np.add.at(change, blocks.start, problem.g.size[blocks.tensor])
    np.add.at(change, blocks.end, -problem.g.size[blocks.tensor])
    sent = moment.row[problem.at.sent :][: problem.program.num_tensors]
    copies = f"{(blocks.arrived >= 0).sum()} copies in, {(sent >= 0).sum()} back"
    return f"{len(blocks.tensor)} blocks, at most {size(int(change.cumsum().max()))} at once; {copies}."


def game_text(moment: Snapshot) -> str:
    """The moment in a few lines of plain text."""
    problem, decision = moment.problem, moment.decision
    program = problem.program
    head = f"{program.name} on {problem.accelerator.name}: "
    head += f"decision {decision.use + 1} of {problem.num_decisions}" if decision else "the game is over"
    lines = [head]
    if decision:
        lines.append(question(moment))
        for action, name in enumerate(ACTIONS):
            lines.append(f"  {action} {name:<6} {gain_text(decision.gains[action]):>9}  {choice(moment, action)}")
    lines.append(f"{latency_text(moment)}; {memory_text(moment)}")
    return "\n".join(lines) + "\n"


def profile_text(moment: Snapshot, width: int = 72, height: int = 16) -> Text:
    """The fast memory's last ops as a picture: ops across, the current one last; addresses up, low ones at the bottom.

    Diamonds show the block that Copy or NoCopy would place.
    """
    problem, blocks = moment.problem, moment.blocks
    now = min(moment.op, problem.program.num_ops - 1)
    each = min(max(width // problem.program.num_ops, 1), _MOST_COLUMNS)
    first = max(0, now + 1 - width // each)
    shades = np.zeros((height, now + 1 - first), dtype=np.int64)
    kinds = np.zeros_like(shades)
    capacity = problem.g.capacity
    centres = (np.arange(height) + 0.5) * capacity / height

    def cells(offset: int, bytes_: int, start: int, end: int) -> tuple[slice, slice]:
        """At least one bin high, so that small blocks show."""
        low = int(np.searchsorted(centres, offset))
        high = int(np.searchsorted(centres, offset + bytes_))
        if high <= low:
            low = min(offset * height // capacity, height - 1)
            high = low + 1
        return slice(low, high), slice(max(start - first, 0), max(end - first, 0))

    for tensor, offset, start, _, protected, end, cached in zip(*(part.tolist() for part in blocks), strict=True):
        for shade, (begin, until) in ((1, (end, cached)), (2, (protected, end)), (3, (start, protected))):
            place = cells(offset, int(problem.g.size[tensor]), begin, until)
            # A block too small for a bin of its own must not hide a larger one.
            drawn = shades[place] < shade
            shades[place] = np.where(drawn, shade, shades[place])
            kinds[place] = np.where(drawn, int(problem.program.tensor_kind[tensor]), kinds[place])
    letters = np.array(list(SHADES))[shades]
    decision = moment.decision
    if decision and decision.candidate and decision.candidate.new:
        chosen = decision.candidate
        letters[cells(chosen.offset, int(problem.g.size[decision.tensor]), chosen.start, now + 1)] = _NEW
    return _join(letters.repeat(each, axis=1), kinds.repeat(each, axis=1), capacity, first, now)


def _join(letters: NDArray[np.str_], kinds: NDArray[np.int64], capacity: int, first: int, last: int) -> Text:
    """The picture with its axes and legend."""
    height, width = letters.shape
    text = Text()
    for bin_ in reversed(range(height)):
        label = size(capacity * (bin_ + 1) / height) if (bin_ + 1) % 4 == 0 else ""
        text.append(f"{label:>9} │", style="dim")
        for letter, kind in zip(letters[bin_], kinds[bin_], strict=True):
            text.append(letter, style="bold red" if letter == _NEW else KIND_STYLES[TensorKind(int(kind))])
        text.append("\n")
    text.append(f"{'op':>9} └{'─' * width}\n", style="dim")
    ends = f"{first}{last:>{max(width - len(str(first)), 1)}}" if last > first else str(first)
    text.append(f"{'':>9}  {ends}\n", style="dim")
    for shade, name in ((3, "protected"), (2, "held"), (1, "cached")):
        text.append(f"{SHADES[shade]} {name}  ", style="dim")
    text.append(f"{_NEW} the block to place  ", style="dim")
    for kind, style in KIND_STYLES.items():
        text.append(f"{kind.name.lower()} ", style=style)
    return text


def _deed(moment: Snapshot, decision: Decision, action: int) -> str:
    fast, backing = (level.name for level in moment.problem.accelerator.levels)
    chosen = decision.candidate
    if action == DROP:
        if decision.is_result:
            return f"write it to {backing}"
        return f"read it from {backing}"
    assert chosen is not None
    if decision.is_result:
        return f"make it in {fast}" + (f" and copy it back to {backing}" if action == COPY else "")
    if not chosen.new:
        return f"use it in {fast}" + (f" and copy it back to {backing}" if action == COPY else "")
    last = decision.op - 1
    ops = f"op {last}" if chosen.start == last else f"ops {chosen.start} to {last}"
    return f"copy it to {fast} during {ops}"

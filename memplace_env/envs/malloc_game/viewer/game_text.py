"""A game snapshot in words."""

from __future__ import annotations

import numpy as np

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

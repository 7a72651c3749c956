"""A moment of a game in words."""

from __future__ import annotations

from memplace_env.analysis.game_snapshot import Decision, Snapshot, why_illegal
from memplace_env.envs.malloc_game.state import ACTIONS, COPY, DROP
from memplace_env.units import PS
from memplace_env.views.text.quantities import percent, ratio, seconds, shortened, size
from memplace_env.workload.program import TensorKind


def question(moment: Snapshot, width: int = 60) -> str:
    """What is to be decided, in one sentence; the tensor's name cut to `width` characters."""
    decision, program = moment.decision, moment.problem.program
    if decision is None:
        return "The game is over."
    kind = TensorKind(int(program.tensor_kind[decision.tensor])).name.lower()
    verb = "makes" if decision.is_result else "reads"
    name, bytes_ = program.tensor_name[decision.tensor], size(int(program.tensor_bytes[decision.tensor]))
    return f"Op {decision.op}, {program.op_type[decision.op]}, {verb} the {kind} {shortened(name, width)} ({bytes_})."


def choice(moment: Snapshot, action: int) -> str:
    """What an action would do, or why it is illegal; not for the end of a game."""
    decision = moment.decision
    assert decision is not None
    if decision.gains[action] is None:
        return why_illegal(moment, action)
    wait = decision.waits[action]
    return _deed(moment, decision, action) + (f"; op {decision.op} waits {seconds(wait * PS)}" if wait else "")


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
    waits = f", {percent(moment.waits_ps / moment.estimate_ps)} of it waiting" if moment.waits_ps else ""
    return (
        f"{word} {seconds(moment.estimate_ps * PS)}{waits}, {ratio(moment.speedup)} over all in "
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
    copies_in, copies_back = moment.copies
    blocks = f"{len(moment.blocks.tensor)} blocks, at most {size(moment.peak_bytes)} at once"
    return f"{blocks}; {copies_in} copies in, {copies_back} back."


def game_text(moment: Snapshot) -> str:
    """The moment in a few lines of plain text."""
    problem, decision = moment.problem, moment.decision
    head = f"{problem.program.name} on {problem.accelerator.name}: "
    head += f"decision {decision.use + 1} of {problem.num_decisions}" if decision else "the game is over"
    lines = [head]
    if decision:
        lines.append(question(moment))
        for action, name in enumerate(ACTIONS):
            lines.append(f"  {action} {name:<6} {gain_text(decision.gains[action]):>9}  {choice(moment, action)}")
    lines.append(f"{latency_text(moment)}; {memory_text(moment)}")
    return "\n".join(lines) + "\n"


def _deed(moment: Snapshot, decision: Decision, action: int) -> str:
    """What a legal action would do."""
    fast, backing = (level.name for level in moment.problem.accelerator.levels)
    chosen = decision.candidate
    if action == DROP:
        return f"write it to {backing}" if decision.is_result else f"read it from {backing}"
    assert chosen is not None
    if not decision.is_result and chosen.new:
        last = decision.op - 1
        ops = f"op {last}" if chosen.start == last else f"ops {chosen.start} to {last}"
        return f"copy it to {fast} during {ops}"
    verb = "make" if decision.is_result else "use"
    return f"{verb} it in {fast}" + (f" and copy it back to {backing}" if action == COPY else "")

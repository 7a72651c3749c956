"""Outputs that can take an argument's place, and the parts that are read and written then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from memplace_env.program.frontends.lowered.buffer_ops import Op, OpGraph


@dataclass(frozen=True, slots=True)
class InPlace:
    """Operands in whose place an op can write its result.

    Attributes:
        buffers: operands whose elements it reads only where it writes those of its result.
        written: elements that an update of a slice or a scatter writes, None for ops that write all of their result.
        reads_old: whether such an update reads the old elements.
    """

    buffers: frozenset[str]
    written: int | None = None
    reads_old: bool = False


def possible_aliases(unfused: OpGraph, fused: OpGraph, in_place: Mapping[str, InPlace]) -> OpGraph:
    """Return the fused graph with only those aliases whose op reads the argument only where it writes the output.

    Args:
        unfused: the ops before fusion.
        fused: the ops after it.
        in_place: for the ops of `unfused` by name, the operands in whose place they can work.
    """
    makers = {name: op for op in fused.ops for name in op.outputs}
    kept = {
        name: source
        for name, source in fused.alias_of.items()
        if source not in makers[name].reads or _updates(unfused, makers[name], source, in_place) is not None
    }
    return replace(fused, alias_of=kept)


def with_partial_updates(unfused: OpGraph, fused: OpGraph, in_place: Mapping[str, InPlace]) -> OpGraph:
    """Return the fused graph in which updates of an argument's slices in place read and write only the slices."""
    ops = []
    for op in fused.ops:
        for name in op.outputs:
            source = fused.alias_of.get(name)
            steps = None if source is None else _updates(unfused, op, source, in_place)
            if source is None or not steps or any(step.written is None for step in steps):
                continue
            elements = fused.buffers[name].elements
            written = min(elements, sum(step.written or 0 for step in steps))
            old = min(elements, sum(step.written or 0 for step in steps if step.reads_old))
            op = replace(op, reads={**op.reads, source: max(1, old)}, writes={**op.writes, name: max(1, written)})
        ops.append(op)
    return replace(fused, ops=tuple(ops))


def _updates(unfused: OpGraph, op: Op, source: str, in_place: Mapping[str, InPlace]) -> list[InPlace] | None:
    """Return the steps of a fused op that update a buffer, None if one of them does not work in place."""
    derived, steps = {source}, []
    for member in _members(unfused, op):
        read = derived.intersection(member.reads)
        if read:
            step = in_place[member.name]
            if not read <= step.buffers:
                return None
            steps.append(step)
            derived.update(member.outputs)
    return steps


def _members(unfused: OpGraph, op: Op) -> Iterator[Op]:
    """Return the ops that a fused op consists of, in order."""
    needed, members = set(op.outputs), []
    for member in reversed(unfused.ops):
        if needed.intersection(member.outputs):
            members.append(member)
            needed.update(name for name in member.reads if name not in op.reads)
    return reversed(members)

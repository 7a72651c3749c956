"""Blocks and copies of a solution of the program, or the fractions that keep it from being a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from memplace_agents.exact.chains import heads, joined
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic.decisions import Decisions
from memplace_agents.exact.dynamic.detail import AHEAD, Detail
from memplace_agents.exact.dynamic.dynamic_model import DynamicModel
from memplace_agents.exact.highs import FEASIBLE, Floats, LinearProgram, relax, uninterrupted
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints

SLACK = 1e-9
"""Fraction of the latency that is allowed on top, so that the solver does not find its own optimum infeasible."""


class DynamicSchedule(NamedTuple):
    """A plan without addresses.

    Attributes:
        use_level: int64[U], level that serves each use.
        blocks: int64[A, 4], tensor, level, first and last op.
        transfers: int64[M, 5], as in `MemoryPlan`.
    """

    use_level: Ints
    blocks: Ints
    transfers: Ints

    @property
    def repeats(self) -> bool:
        """True if a tensor has two blocks of a level at once, one of them the source of a copy."""
        tensor, level, first, last = self.blocks[np.lexsort(self.blocks[:, [2, 1, 0]].T)].T
        same = (np.diff(tensor) == 0) & (np.diff(level) == 0)
        return bool((same & (first[1:] <= last[:-1])).any())

    def plan(self, task: Task, offset: Ints) -> MemoryPlan:
        """Return the plan with these offsets of its blocks, int64[A]."""
        return task.make_plan(self.use_level, np.insert(self.blocks, 2, offset, axis=1), self.transfers)


def settled(model: DynamicModel, program: LinearProgram, values: Floats, clock: Clock | None = None) -> Floats | None:
    """Return a solution with the same decisions, the best latency and, among those, the least room, float64[C].

    All copies are within their windows; copies in are as late and write-backs as early as they can be, and a write-back
    that no use needs is left out. None if one of the two programs is not solved in time.

    Args:
        model: says what the columns mean.
        program: the model's program, with columns fixed that are to stay as they are.
        values: the solution.
        clock: ends it.

    Raises:
        KeyboardInterrupt: if the solver is interrupted.
    """
    lower, upper = program.lower.copy(), program.upper.copy()
    lower[program.integrality] = upper[program.integrality] = np.round(values[program.integrality])
    needed = Decisions.of_values(model, values).needed(model)
    # The second objective: a share of a copy counts in each op from the one on in which it is done, so a positive cost
    # makes copies late and a negative one makes write-backs early. Each weighs as much as its block.
    size = model.task.program.tensor_bytes / model.task.program.tensor_bytes.max()
    room = np.zeros(len(program.cost))
    for use, level, source in model.copies():
        room[model.copying(use, level, source)] = size[model.task.program.use_tensor[use]]
    for tensor, level in np.argwhere(model.columns.sent >= 0).tolist():
        room[model.sending(tensor, level)] = -size[tensor]
        if not needed[tensor]:
            lower[model.sending(tensor, level)] = upper[model.sending(tensor, level)] = 0
    upper[model.columns.early[model.columns.early >= 0]] = 0
    fixed = replace(program, lower=lower, upper=upper)
    fastest = uninterrupted(relax(fixed, clock=clock)).values
    if fastest is None:
        return None
    as_fast = replace(fixed, cost=room).with_row(program.cost, float(program.cost @ fastest) * (1 + SLACK))
    return uninterrupted(relax(as_fast, clock=clock)).values


def read_schedule(model: DynamicModel, values: Floats) -> DynamicSchedule:
    """Return the blocks and copies of a settled solution."""
    program, decisions = model.task.program, Decisions.of_values(model, values)
    backing = model.task.backing
    use_level = np.where(decisions.fast.any(axis=1), decisions.fast.argmax(axis=1), backing)
    blocks, transfers = list[list[int]](), list[list[int]]()
    for tensor, level in np.argwhere(decisions.resident).tolist():
        blocks.append([tensor, level, 0, program.num_ops - 1])
    sent: dict[tuple[int, int], int] = {}
    # sent[tensor, level] is the last op of the write-back: the first at whose end the share is whole.
    for tensor, level in np.argwhere(model.columns.sent >= 0).tolist():
        share = values[model.sending(tensor, level)]
        if share[-1] > 0.5:
            since = model.uses.valid[tensor]
            sent[tensor, level] = int(since + (share >= 1 - FEASIBLE).argmax())
            transfers.append([tensor, level, backing, int(since + (share > FEASIBLE).argmax()), sent[tensor, level]])
    # Until the end of a copy to another fast level a block stays behind its last use.
    moves, kept = dict[tuple[int, int], tuple[int, int]](), dict[tuple[int, int], int]()
    for use, level, source in model.copies():
        share = values[model.copying(use, level, source)]
        if source >= 0 and share[-1] > 0.5:
            end = int(model.columns.since[use] + (share >= 1 - FEASIBLE).argmax())
            moves[use, level], key = (source, end), (int(model.uses.before[use]), source)
            kept[key] = max(end, kept.get(key, 0))
    for use, level in np.argwhere(decisions.here & ~decisions.stay).tolist():
        tensor, op = int(program.use_tensor[use]), int(program.use_op[use])
        start, end = op, -1
        if program.use_is_result[use]:
            end = sent.get((tensor, level), -1)
        else:
            source, done = moves.get((use, level), (-1, op - 1))
            begin = int((model.columns.window if source < 0 else model.columns.since)[use])
            start = begin + int((values[model.copying(use, level, source)] > FEASIBLE).argmax())
            transfers.append([tensor, source if source >= 0 else backing, level, start, done])
        # The block stays until the last use in a row at which it stayed since the one before.
        last = use
        while (after := model.uses.after[last]) >= 0 and decisions.stay[after, level]:
            last = int(after)
        blocks.append([tensor, level, start, max(end, int(program.use_op[last]), kept.get((last, level), 0))])
    transfers.sort(key=lambda copy: (copy[3], copy[4]))
    return DynamicSchedule(
        use_level, np.array(blocks, np.int64).reshape(-1, 4), np.array(transfers, np.int64).reshape(-1, 5)
    )


def missing_detail(model: DynamicModel, values: Floats, schedule: DynamicSchedule) -> Detail:
    """Return the integers that a settled solution lacks to be a schedule; empty if it is one."""
    return _overfull(model, values, schedule) | _too_early(model, schedule)


def _overfull(model: DynamicModel, values: Floats, schedule: DynamicSchedule) -> Detail:
    """Return partial copies and write-backs in ops whose whole blocks exceed the level."""
    copies, sends = set[tuple[int, int, int]](), set[tuple[int, int, int]]()
    blocks = joined(model.task, schedule.blocks, heads(model.task, schedule.blocks, needed=False))
    over = np.array([_overfull_ops(model, blocks, level) for level in range(model.task.backing)])
    for use, level, source in model.copies():
        share, end = values[model.copying(use, level, source)], int(model.task.program.use_op[use])
        begin, key = end - len(share), level + model.task.backing * (1 + source)
        shares = (share > FEASIBLE) & (share < 1 - FEASIBLE) & over[level, begin:end]
        copies.update((use, key, begin + step) for step in np.flatnonzero(shares).tolist())
    for tensor, level in np.argwhere(model.columns.sent >= 0).tolist():
        share, begin = values[model.sending(tensor, level)], int(model.uses.valid[tensor])
        before = share[:-1]
        shares = (before > FEASIBLE) & (before < 1 - FEASIBLE) & over[level, begin + 1 : begin + len(share)]
        sends.update((tensor, level, begin + 1 + step) for step in np.flatnonzero(shares & (share[-1] > 0.5)).tolist())
    return Detail(frozenset(copies), frozenset(sends))


def _overfull_ops(model: DynamicModel, blocks: Ints, level: int) -> Ints:
    """Return the ops in which blocks, int64[A, 4], exceed the level, bool[T+1]."""
    task, size = model.task, model.task.program.tensor_bytes
    tensor, _, first, last = blocks[blocks[:, 1] == level].T
    change = np.zeros(task.program.num_ops + 2, dtype=np.int64)
    np.add.at(change, first, size[tensor])
    np.add.at(change, last + 1, -size[tensor])
    return np.asarray(np.cumsum(change)[:-1] > task.room_bytes(level))


def _too_early(model: DynamicModel, schedule: DynamicSchedule) -> Detail:
    """Return the ops in which copies of a result run before its write-back has ended."""
    backing = model.task.backing
    ends = {tensor: end for tensor, _, target, _, end in schedule.transfers.tolist() if target == backing}
    waits = {
        (tensor, op)
        for tensor, source, _, start, _ in schedule.transfers.tolist()
        if source == backing
        for op in range(start, ends.get(tensor, -1) + 1)
    }
    return Detail(waits=frozenset(waits))


def copies_begun_early(model: DynamicModel, values: Floats) -> Detail:
    """Return copies that begin more than `AHEAD` ops before their use, or before their windows, which then double."""
    columns, op_of = model.columns, model.task.program.use_op
    ahead = set[tuple[int, int]]()
    for use, level in np.argwhere(columns.copied >= 0).tolist():
        share, window = values[model.copying(use, level)], int(columns.window[use])
        early = columns.early[use, level]
        if early >= 0 and values[early] > FEASIBLE:
            ahead.add((use, 2 * int(op_of[use] - window)))
        elif share[-1] > 0.5 and (ops := len(share) - int((share > FEASIBLE).argmax())) > AHEAD:
            ahead.add((use, ops))
    return Detail(ahead=frozenset(ahead))

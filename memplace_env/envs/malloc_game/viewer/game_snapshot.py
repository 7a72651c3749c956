"""Snapshot of a game, read from its state for pictures and texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_env.envs.malloc_game import rules
from memplace_env.envs.malloc_game.port import finish_write_backs, is_pending
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.malloc_game.state import (  # fmt: skip
    BLOCKS,
    COPY,
    DROP,
    ESTIMATE,
    MASK,
    NO_COPY,
    OP,
    STALL_PS,
    TAIL_PS,
    USE,
)
from memplace_env.envs.malloc_game.window import earliest_copy
from memplace_env.machine.costs import op_times
from memplace_env.machine.costs.op_time_kernels import used_by_level
from memplace_env.program.program import Ints


class PlacedBlocks(NamedTuple):
    """The blocks placed so far, int64[n] each; ops after the current one are left out.

    Attributes:
        tensor, offset: the tensor, and the address at which the block begins.
        start: first op.
        arrived: last op of the copy that filled it, -1 if an op did.
        protected: op after the last one in which it was protected, `start` if it never was.
        end: op after the last one for which it is needed.
        cached: op after the last one in which it can be used: later than `end` while its data is intact.
    """

    tensor: Ints
    offset: Ints
    start: Ints
    arrived: Ints
    protected: Ints
    end: Ints
    cached: Ints


class CandidateBlock(NamedTuple):
    """Block that a decision would use: `start` is its first op; `new` if it would have to be placed."""

    offset: int
    start: int
    new: bool


class PendingDecision(NamedTuple):
    """The current decision.

    Attributes:
        use, op, tensor, is_result: the use to decide.
        gains: drop of the estimated latency by each of Copy, NoCopy, Drop, in ps, less waits; None if illegal.
        waits: time that the op would wait, in ps.
        candidate: the block that is used or would be placed, if there is one.
    """

    use: int
    op: int
    tensor: int
    is_result: bool
    gains: tuple[int | None, ...]
    waits: tuple[int, ...]
    candidate: CandidateBlock | None


class GameSnapshot(NamedTuple):
    """State of a game in a form to draw; F ops are final.

    Attributes:
        problem, state: the game and its state.
        op: the first op that is not final, T at the end.
        decision: None at the end.
        blocks: blocks of the fast memory.
        op_ps, busy_ps, copies_ps, free_ps: int64[F], time of each final op, and the parts of it in which the backing
            memory's port serves the op, serves copies (pending write-backs as far as it could so far), and is free.
        stall_ps: int64[T], time that each op waits before it starts, while the port serves copies.
        estimates_ps: int64[F + 1], estimated latency before each of these ops and after the last.
        estimate_ps: the estimate now.
        tail_ps: time after the last op that finishes the write-backs, 0 before the end.
    """

    problem: MallocGameProblem
    state: Ints
    op: int
    decision: PendingDecision | None
    blocks: PlacedBlocks
    op_ps: Ints
    busy_ps: Ints
    copies_ps: Ints
    free_ps: Ints
    stall_ps: Ints
    estimates_ps: Ints
    estimate_ps: int
    tail_ps: int

    @property
    def speedup(self) -> float:
        """Speed-up over everything in the backing memory."""
        return self.problem.all_backing_ps / self.estimate_ps

    @property
    def bytes_now(self) -> tuple[int, int]:
        """Bytes of fast memory that are held, and that are cached, in the current op, or else in the last one."""
        now, size = min(self.op, self.problem.program.num_ops - 1), self.problem.tables.size[self.blocks.tensor]
        held = (self.blocks.start <= now) & (self.blocks.end > now)
        cached = ~held & (self.blocks.start <= now) & (self.blocks.cached > now)
        return int(size[held].sum()), int(size[cached].sum())

    @property
    def peak_bytes(self) -> int:
        """Most bytes of fast memory that are held at once."""
        blocks, size = self.blocks, self.problem.tables.size[self.blocks.tensor]
        change = np.zeros(self.problem.program.num_ops + 3, dtype=np.int64)
        np.add.at(change, blocks.start, size)
        np.add.at(change, blocks.end, -size)
        return int(change.cumsum().max())

    @property
    def waits_ps(self) -> int:
        """Time that ops wait in all, in ps."""
        return int(self.state[STALL_PS])

    @property
    def copies(self) -> tuple[int, int]:
        """Number of copies into fast memory, and of write-backs."""
        sent = self.state[self.problem.layout.sent :][: self.problem.program.num_tensors]
        return int((self.blocks.arrived >= 0).sum()), int((sent >= 0).sum())


def snapshot_of(problem: MallocGameProblem, state: Ints) -> GameSnapshot:
    """Return the snapshot of a state, int64[size]."""
    tables, layout, costs, final = problem.tables, problem.layout, problem.task.costs, int(state[OP])
    use_ptr = tables.use_ptr[: final + 1]
    level = state[layout.level :][: use_ptr[-1]].astype(np.int8)
    times = op_times(costs, used_by_level(use_ptr, level, costs.use_ps), slice(final))
    served = state.copy()
    if state[MASK]:
        finish_write_backs(tables, layout, served)
    busy, free = times.port_ps[:, 1], served[layout.free :][:final]
    stall = state[layout.stall :][: problem.program.num_ops].copy()
    return GameSnapshot(
        problem=problem,
        state=state,
        op=final,
        decision=_decision(problem, state) if state[MASK] else None,
        blocks=_blocks(problem, state),
        op_ps=times.op_ps,
        busy_ps=busy,
        copies_ps=times.op_ps - busy - free,
        free_ps=free,
        stall_ps=stall,
        estimates_ps=np.concatenate([[0], np.cumsum(times.op_ps + stall[:final])]) + tables.rest_ps[: final + 1],
        estimate_ps=int(state[ESTIMATE]),
        tail_ps=int(state[TAIL_PS]),
    )


def _blocks(problem: MallocGameProblem, state: Ints) -> PlacedBlocks:
    layout, count = problem.layout, state[BLOCKS]
    sections = (layout.tensor, layout.offset, layout.start, layout.committed_until, layout.arrived, layout.released)
    tensor, offset, start, committed_until, arrived, released = (state[section:][:count].copy() for section in sections)
    # What is not drained by the end of the program stays in its block for the tail, drawn as one more op.
    shown = state[OP] + 1
    end = np.maximum(np.minimum(committed_until + 1, shown), start)
    in_place = arrived < -1
    end[-2 - arrived[in_place]] = start[in_place]  # the op's own time counts as the result's
    arrived[in_place] = -1
    latest = state[layout.block :][tensor] == np.arange(count)
    usable = latest & (state[layout.intact :][tensor] == 1) & (problem.tables.last_use[tensor] >= state[USE])
    return PlacedBlocks(
        tensor=tensor,
        offset=offset,
        start=start,
        arrived=arrived,
        protected=np.clip(released + 1, start, end),
        end=end,
        cached=np.where(usable, np.maximum(shown, end), end),
    )


def _decision(problem: MallocGameProblem, state: Ints) -> PendingDecision:
    use, tables, layout = int(state[USE]), problem.tables, problem.layout
    tensor = int(tables.use_tensor[use])
    is_result = bool(tables.use_is_result[use])
    legal = problem.legal(state[None])[0]
    gains: list[int | None] = [None] * len(legal)
    waits = [0] * len(legal)
    for action in np.flatnonzero(legal):
        after = state.copy()
        gains[action] = int(rules.play(tables, layout, after, action))
        waits[action] = int(after[STALL_PS] - state[STALL_PS])
    candidate = None
    start, offset, _ = rules.preview(tables, layout, state)
    if not is_result and state[layout.intact + tensor]:
        block = state[layout.block + tensor]
        candidate = CandidateBlock(int(state[layout.offset + block]), int(state[layout.start + block]), False)
    elif offset >= 0:
        candidate = CandidateBlock(int(offset), int(start), True)
    return PendingDecision(use, int(state[OP]), tensor, is_result, tuple(gains), tuple(waits), candidate)


def why_illegal(snapshot: GameSnapshot, action: int) -> str:
    """Return the rule that forbids an illegal action now, in a few words."""
    decision, state = snapshot.decision, snapshot.state
    assert decision is not None
    tables, layout = snapshot.problem.tables, snapshot.problem.layout
    fast, backing = (level.name for level in snapshot.problem.accelerator.levels)
    tensor = decision.tensor
    saved, later = state[layout.valid_from + tensor] <= decision.op, tables.last_use[tensor] > decision.use
    pending = is_pending(layout, state, tensor)
    if action != DROP and (decision.is_result or action == COPY) and decision.candidate is None:
        return f"no room in {fast}" if decision.is_result else _why_not_copied(snapshot, fast)
    if action == COPY:
        if not decision.is_result and saved:
            return f"{backing} holds it already"
        if pending:
            return "it is on its way back"
        if later or tables.is_output[tensor]:
            return f"no room in {fast}" if decision.is_result else f"a later op reserves that part of {fast}"
        return "nothing needs it later"
    if action == NO_COPY:
        if tables.is_output[tensor] and not later and (decision.is_result or state[layout.intact + tensor]):
            return f"a graph output must reach {backing}"
        return f"it is not in {fast}"
    if pending:
        return "its way back begins with this op"
    return f"{backing} does not hold it"


def _why_not_copied(snapshot: GameSnapshot, fast: str) -> str:
    """Return why an operand that is in the backing memory alone cannot be copied."""
    decision, state = snapshot.decision, snapshot.state
    assert decision is not None
    tables, layout = snapshot.problem.tables, snapshot.problem.layout
    if tables.costs.prefetch_ps[decision.tensor] == 0:
        return "a copy would take no time"
    if earliest_copy(layout, state, decision.tensor) >= decision.op:
        return f"too late to copy it before op {decision.op}"
    return f"no room in {fast} before op {decision.op}"

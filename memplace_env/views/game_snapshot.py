"""A moment of a game, read from its state row for those who draw or tell it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_env.envs.malloc_game import rules
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.malloc_game.state import (
    BLOCKS,
    COPY,
    DROP,
    ESTIMATE,
    MASK,
    NEVER,
    NO_COPY,
    OFFSET,
    OP,
    TAIL_PS,
    USE,
    WINDOW,
)  # fmt: skip
from memplace_env.workload.program import Ints


class Blocks(NamedTuple):
    """The blocks placed so far, int64[n] each; ops after the current one are left out.

    Attributes:
        tensor, offset: which, and where it begins.
        start: its first op.
        arrived: the last op of the copy that filled it, -1 if an op did.
        protected: op after the last one in which it was protected, `start` if it never was.
        end: op after the last one that it is committed to.
        cached: op after the last one in which it can be used: later than `end` while its data is intact.
    """

    tensor: Ints
    offset: Ints
    start: Ints
    arrived: Ints
    protected: Ints
    end: Ints
    cached: Ints


class Candidate(NamedTuple):
    """The block that a decision is about: `start` its first op; `new` if it would have to be placed."""

    offset: int
    start: int
    new: bool


class Decision(NamedTuple):
    """What is to be decided.

    Attributes:
        use, op, tensor, is_result: which use.
        gains: what each of Copy, NoCopy, Drop lowers the estimate by, in ps; None for illegal ones.
        candidate: the block that is used or would be placed, if there is one.
    """

    use: int
    op: int
    tensor: int
    is_result: bool
    gains: tuple[int | None, ...]
    candidate: Candidate | None


class Snapshot(NamedTuple):
    """A moment of a game; F ops are final.

    Attributes:
        problem, row: the game and its state.
        op: the first op that is not final, T at the end.
        decision: None at the end.
        blocks: of the fast memory.
        op_ps, busy_ps, copies_ps, free_ps: int64[F], time of each final op, and how much of it the backing memory's
            port serves the op, serves copies, and is free.
        estimates_ps: int64[F + 1], estimated latency before each of these ops and after the last.
        estimate_ps: the estimate now.
        tail_ps: time after the last op that ends the write-backs, 0 before the end.
    """

    problem: MallocGameProblem
    row: Ints
    op: int
    decision: Decision | None
    blocks: Blocks
    op_ps: Ints
    busy_ps: Ints
    copies_ps: Ints
    free_ps: Ints
    estimates_ps: Ints
    estimate_ps: int
    tail_ps: int

    @property
    def speedup(self) -> float:
        """Over everything in the backing memory."""
        return self.problem.all_backing_ps / self.estimate_ps

    @property
    def bytes_now(self) -> tuple[int, int]:
        """Bytes of fast memory that are committed and that are cached in the current op, or in the last one."""
        now, size = min(self.op, self.problem.program.num_ops - 1), self.problem.g.size[self.blocks.tensor]
        held = (self.blocks.start <= now) & (self.blocks.end > now)
        cached = ~held & (self.blocks.start <= now) & (self.blocks.cached > now)
        return int(size[held].sum()), int(size[cached].sum())


def snapshot(problem: MallocGameProblem, row: Ints) -> Snapshot:
    """Read a state row."""
    g, at, final = problem.g, problem.at, int(row[OP])
    uses = slice(0, int(g.use_ptr[final]))
    level = row[at.level :][: problem.num_decisions][uses]
    port = np.zeros((final, 2), dtype=np.int64)
    np.add.at(port, (g.use_op[uses], level), g.use_ps[uses][np.arange(len(level)), level])
    port += np.where(port > 0, g.latency_ps, 0)
    memory = port.sum(axis=1) if g.serial else port.max(axis=1)
    op_ps = np.maximum(g.compute_ps[:final], memory) + g.overhead_ps
    free = row[at.free :][:final].copy()
    return Snapshot(
        problem=problem,
        row=row,
        op=final,
        decision=_decision(problem, row) if row[MASK] else None,
        blocks=_blocks(problem, row),
        op_ps=op_ps,
        busy_ps=port[:, 1],
        copies_ps=op_ps - port[:, 1] - free,
        free_ps=free,
        estimates_ps=np.concatenate([[0], np.cumsum(op_ps)]) + g.rest_ps[: final + 1],
        estimate_ps=int(row[ESTIMATE]),
        tail_ps=int(row[TAIL_PS]),
    )


def _blocks(problem: MallocGameProblem, row: Ints) -> Blocks:
    at, count = problem.at, row[BLOCKS]
    sections = (at.tensor, at.offset, at.start, at.hold, at.arrived, at.released)
    tensor, offset, start, hold, arrived, released = (row[section:][:count].copy() for section in sections)
    # What is not drained by the end of the program stays in its block for the tail, drawn as one more op.
    shown = row[OP] + 1
    end = np.maximum(np.minimum(hold + 1, shown), start)
    latest = row[at.block :][tensor] == np.arange(count)
    usable = latest & (row[at.intact :][tensor] == 1) & (problem.g.last_use[tensor] >= row[USE])
    return Blocks(
        tensor=tensor,
        offset=offset,
        start=start,
        arrived=arrived,
        protected=np.clip(released + 1, start, end),
        end=end,
        cached=np.where(usable, np.maximum(shown, end), end),
    )


def _decision(problem: MallocGameProblem, row: Ints) -> Decision:
    use, g, at = int(row[USE]), problem.g, problem.at
    tensor = int(g.use_tensor[use])
    is_result = bool(g.use_is_result[use])
    legal = problem.legal(row[None])[0]
    gains: list[int | None] = [None] * len(legal)
    for action in np.flatnonzero(legal):
        gains[action] = int(rules.play(g, at, row.copy(), action))
    candidate = None
    if not is_result and row[at.intact + tensor]:
        block = row[at.block + tensor]
        candidate = Candidate(int(row[at.offset + block]), int(row[at.start + block]), False)
    elif row[OFFSET] >= 0:
        candidate = Candidate(int(row[OFFSET]), int(row[OP] if is_result else row[WINDOW]), True)
    return Decision(use, int(row[OP]), tensor, is_result, tuple(gains), candidate)


def why_illegal(moment: Snapshot, action: int) -> str:
    """The rule that forbids an illegal action now, in a few words."""
    decision, row = moment.decision, moment.row
    assert decision is not None
    g, at = moment.problem.g, moment.problem.at
    fast, backing = (level.name for level in moment.problem.accelerator.levels)
    tensor, saved = decision.tensor, row[at.valid_from + decision.tensor] <= decision.op
    later = g.last_use[tensor] > decision.use
    if action != DROP and (decision.is_result or action == COPY) and decision.candidate is None:
        if not decision.is_result and not saved:
            return f"{backing} does not hold it yet"
        if not decision.is_result and row[WINDOW] < 0:
            return f"no time to copy it before op {decision.op}"
        return f"no room in {fast}"
    if action == COPY:
        if not decision.is_result and saved:
            return f"{backing} holds it already"
        return "it is on its way back" if row[at.pending + tensor] else "nothing needs it later"
    if action == NO_COPY:
        if g.is_output[tensor] and not later and (decision.is_result or row[at.intact + tensor]):
            return f"a graph output must reach {backing}"
        return f"it is not in {fast}"
    return f"{backing} does not hold it" if row[at.valid_from + tensor] == NEVER else f"{backing} does not hold it yet"

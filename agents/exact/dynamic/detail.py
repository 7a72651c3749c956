"""What of a plan the linear program follows in detail; the rest it sees in shares until an answer is broken there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agents.exact.dynamic.columns import Uses, number_columns, uses_of
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task, derived
from memplace_env.workload.program import Ints

AHEAD = 32
"""Ops before a use during which its copy is followed op by op, until an answer begins it earlier. Our choice: programs
are several times smaller with it."""


MOST_COLUMNS = 2_000_000
"""Columns that are about all that 4 GB can solve."""
MOST_SHARES = 150_000
"""Columns of copies that branch and bound can do with; more make it slower than what they say is worth."""


@derived
def is_tractable(task: Task) -> bool:
    """Whether the program has no more than `MOST_COLUMNS`: it grows with how long results live and are written back."""
    uses, horizon = uses_of(task), Detail().window(task, uses_of(task))
    columns = number_columns(task, uses, horizon)
    spans = (uses.sent_by - uses.valid + 1).clip(0).sum() * task.backing
    return bool(columns.total + spans <= MOST_COLUMNS)


def lengths_of_copies(task: Task, plan: MemoryPlan) -> Detail:
    """The copies of a plan that begin longer before their use than is followed anyway."""
    program, ahead = task.program, set[tuple[int, int]]()
    for tensor, source, _, start, end in plan.transfers.tolist():
        uses = np.flatnonzero((program.use_tensor == tensor) & (program.use_op > end))
        if source == task.backing and len(uses) and program.use_op[uses[0]] - start > AHEAD:
            ahead.add((int(uses[0]), int(program.use_op[uses[0]] - start)))
    return Detail(ahead=frozenset(ahead))


@derived
def farthest(task: Task) -> int:
    """The longest horizon, no less than `AHEAD`, with which there are no more than `MOST_SHARES`."""
    program, uses = task.program, uses_of(task)
    reads = ~program.use_is_result
    ahead = (program.use_op - uses.valid[program.use_tensor])[reads].clip(0)
    horizons = np.arange(AHEAD, max(ahead.max(initial=0), AHEAD) + 1)
    shares = np.array([np.minimum(ahead, horizon).sum() for horizon in horizons])
    return int(max(horizons[shares <= MOST_SHARES], default=AHEAD))


@dataclass(frozen=True)
class Detail:
    """Tuples (use or tensor, level, op), each of them a whole-numbered column more.

    Attributes:
        copies: a copy that has started has its whole block.
        sends: a write-back that has not ended keeps its whole block.
        waits: no copy before the write-back has ended; (tensor, op), whatever the level.
        ahead: (use, ops), copies that are followed for longer than `horizon`.
        horizon: see `AHEAD`.
    """

    copies: frozenset[tuple[int, int, int]] = frozenset()
    sends: frozenset[tuple[int, int, int]] = frozenset()
    waits: frozenset[tuple[int, int]] = frozenset()
    ahead: frozenset[tuple[int, int]] = frozenset()
    horizon: int = AHEAD

    def __or__(self, other: Detail) -> Detail:
        """Both."""
        return Detail(
            self.copies | other.copies,
            self.sends | other.sends,
            self.waits | other.waits,
            self.ahead | other.ahead,
            max(self.horizon, other.horizon),
        )

    def __len__(self) -> int:
        return len(self.copies) + len(self.sends) + len(self.waits) + len(self.ahead)

    def window(self, task: Task, uses: Uses) -> Ints:
        """int64[U], first op in which the copy for a use is followed."""
        ahead = np.full(task.program.num_uses, self.horizon)
        for use, ops in self.ahead:
            ahead[use] = max(ahead[use], ops)
        since: Ints = np.maximum(uses.valid[task.program.use_tensor], task.program.use_op - ahead)
        return since

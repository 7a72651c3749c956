"""Parts of a plan that the program models by integers, and rows beside its own: added where an answer needs them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memplace_agents.exact.dynamic.columns import Uses, number_columns, uses_of
from memplace_agents.exact.dynamic.dual_feasible import DualFeasible
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints

AHEAD = 32
"""Number of ops before a use during which its copy is followed op by op, until an answer begins it earlier. Our choice:
programs are several times smaller with it."""
MOST_COLUMNS = 2_000_000
"""Most columns of a program that can be solved in about 4 GB."""
MOST_SHARES = 150_000
"""Most columns of copies for branch and bound; more of them slow it down more than they help. Our choice."""
WeighedRow = tuple[int, int, DualFeasible]
"""Level, op and function of a row of `Detail.weighed`."""


@derived
def most_columns(task: Task) -> int:
    """Return the columns of the program with all write-backs; they grow with the lives of results."""
    uses, horizon = uses_of(task), Detail().window(task, uses_of(task))
    columns = number_columns(task, uses, horizon)
    spans = (uses.sent_by - uses.valid + 1).clip(0).sum() * task.backing
    return int(columns.total + spans)


def is_tractable(task: Task) -> bool:
    """Return whether the program has at most `MOST_COLUMNS`."""
    return most_columns(task) <= MOST_COLUMNS


def lengths_of_copies(task: Task, plan: MemoryPlan) -> Detail:
    """Return the copies of a plan that begin more than `AHEAD` ops before their use."""
    program, ahead = task.program, set[tuple[int, int]]()
    for tensor, source, _, start, end in plan.transfers.tolist():
        uses = np.flatnonzero((program.use_tensor == tensor) & (program.use_op > end))
        if source == task.backing and len(uses) and program.use_op[uses[0]] - start > AHEAD:
            ahead.add((int(uses[0]), int(program.use_op[uses[0]] - start)))
    return Detail(ahead=frozenset(ahead))


@derived
def farthest(task: Task) -> int:
    """Return the longest horizon with at most `MOST_SHARES` columns of copies, at least `AHEAD`."""
    program, uses = task.program, uses_of(task)
    reads = ~program.use_is_result
    ahead = (program.use_op - uses.valid[program.use_tensor])[reads].clip(0)
    horizons = np.arange(AHEAD, max(ahead.max(initial=0), AHEAD) + 1)
    shares = np.array([np.minimum(ahead, horizon).sum() for horizon in horizons])
    return int(max(horizons[shares <= MOST_SHARES], default=AHEAD))


@dataclass(frozen=True)
class Detail:
    """Sets of (use or tensor, level, op), each of which adds a binary column, and of rows.

    Attributes:
        copies: ops in which a copy that has started holds its whole block; of copies from fast level s with F (1 + s)
            more as the level.
        sends: ops in which a write-back that has not ended holds its whole block.
        waits: (tensor, op), ops in which no copy may run before the write-back has ended, at any level.
        ahead: (use, ops), copies that are followed for longer than `horizon`.
        weighed: (level, op, function), ops in which sizes weighed by a dual-feasible function are at most the level,
            too.
        horizon: number of ops before a use during which its copy is followed, see `AHEAD`.
        held: True if every tensor keeps one level, see `held`; the bound holds for such plans only.
    """

    copies: frozenset[tuple[int, int, int]] = frozenset()
    sends: frozenset[tuple[int, int, int]] = frozenset()
    waits: frozenset[tuple[int, int]] = frozenset()
    ahead: frozenset[tuple[int, int]] = frozenset()
    weighed: frozenset[WeighedRow] = frozenset()
    horizon: int = AHEAD
    held: bool = False

    def __or__(self, other: Detail) -> Detail:
        """Return the union, with the longer horizon."""
        return Detail(
            self.copies | other.copies,
            self.sends | other.sends,
            self.waits | other.waits,
            self.ahead | other.ahead,
            self.weighed | other.weighed,
            max(self.horizon, other.horizon),
            self.held or other.held,
        )

    def __len__(self) -> int:
        return len(self.copies) + len(self.sends) + len(self.waits) + len(self.ahead) + len(self.weighed)

    def window(self, task: Task, uses: Uses) -> Ints:
        """Return the first op in which the copy for each use is followed, int64[U]."""
        ahead = np.full(task.program.num_uses, self.horizon)
        for use, ops in self.ahead:
            ahead[use] = max(ahead[use], ops)
        since: Ints = np.maximum(uses.valid[task.program.use_tensor], task.program.use_op - ahead)
        return since

"""Plans that move tensors while the program runs, as a mixed-integer linear program.

Time is cut into ops. With the columns of `columns.Columns`, u_0 < u_1 < ... the uses of a tensor (u_0 makes it, if
anything does), in each fast level l:

    a block       here[u] = stay[u] + copied[u] at the end of the op before u,   stay[u_i] <= here[u_{i-1}]
    moves         where copies go between fast levels, too: here[u] = stay[u] + copied[u] + moved[u] from every other
                  fast level l', with moved[u_i] <= here[u_{i-1}] there, or the weight is resident there; from the op
                  behind u_{i-1} on, in the port of the slower level; the block there stays as long as anything is to be
                  copied
    its use       is served from one level at most, which has a block; from the backing memory if from none; from one
                  where the backing memory may not hold the tensor
    its data      sent at the end <= here[u_0], equal for graph outputs; a result that is made in a fast level is in the
                  backing memory as far as it has been sent: neither reads from there nor copies get ahead of that
    room          in each op, blocks that stay or are used, copies on their way in (whole blocks, of which a linear
                  program sees the share that has arrived), and results that are not yet sent wholly: together at most
                  the level's capacity less what the op reserves, and as much more as results take of an operand's
                  place: at most the share of either's block that is here, and each gives and takes once
    an op         time >= what it computes, and what the ports take by the cost table, added up if they are serial
    the port      of the backing memory: what the op's uses, copies in and write-backs take of it <= time

The sum of the times is the latency. Every valid plan is a solution: give each column what the plan does; copies that an
op waits for belong to the time of the op before. So its bound holds for all plans. `extract` goes the other way: where
no share is a fraction, the solution is a plan of the same latency, apart from addresses.

Shares are forced to 0 or 1 only where `Detail` says so. A copy is followed op by op in a window before its use; what is
copied earlier takes no room and may use any port time that earlier ops have left. Both leave out constraints that plans
keep, so the bound stays valid.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_agents.exact.dynamic.block_rows import add_blocks, add_data
from memplace_agents.exact.dynamic.columns import Columns, Uses
from memplace_agents.exact.dynamic.detail import AHEAD, Detail, WeighedRow
from memplace_agents.exact.dynamic.draft import Draft
from memplace_agents.exact.dynamic.held import hold
from memplace_agents.exact.dynamic.room_rows import Occupants, add_room
from memplace_agents.exact.dynamic.times import add_op_times
from memplace_agents.exact.highs import Floats, LinearProgram
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


class DynamicModel(NamedTuple):
    """A linear program and the meaning of its columns; see the module for the mathematics.

    Attributes:
        task, uses, columns: the problem, times of its tensors, and the columns of its decisions.
        program: minimises the latency.
        unit_ps: picoseconds of one unit of the objective.
        detail: parts that are modelled by integers.
        occupants: who is in each fast level.
        op: int64[C], the op of each column, see `Columns.op`.
        weighed: the row of each entry of `Detail.weighed`.
    """

    task: Task
    uses: Uses
    columns: Columns
    program: LinearProgram
    unit_ps: float
    detail: Detail
    occupants: list[Occupants]
    op: Ints
    weighed: dict[WeighedRow, int]

    @property
    def given(self) -> Ints:
        """int64[N], the columns of results that take an operand's place."""
        return np.concatenate([occupants.given[:, 3] for occupants in self.occupants])

    def copying(self, use: int, level: int, source: int = -1) -> slice:
        """Return the columns of the copy for a use, which must have one, from a fast level, else -1."""
        columns = self.columns
        first = columns.copied[use, level] if source < 0 else columns.moved[use, level, source]
        return slice(
            first, first + self.task.program.use_op[use] - (columns.window if source < 0 else columns.since)[use]
        )

    def copies(self) -> list[tuple[int, int, int]]:
        """Return what `copying` takes for each copy that may be."""
        near, far = np.argwhere(self.columns.moved >= 0), np.argwhere(self.columns.copied >= 0)
        return [(use, level, -1) for use, level in far.tolist()] + [
            (use, level, source) for use, level, source in near.tolist()
        ]

    def sending(self, tensor: int, level: int) -> slice:
        """Return the columns of a tensor's write-back, which must have one."""
        first = self.columns.sent[tensor, level]
        return slice(first, first + self.uses.sent_by[tensor] - self.uses.valid[tensor] + 1)


def build(task: Task, detail: Detail = Detail()) -> DynamicModel:  # noqa: B008
    """Return the program of the module's docstring.

    Args:
        task: the problem.
        detail: parts that are modelled by integers.
    """
    draft = Draft(task, detail)
    occupants = list[Occupants]()
    for level in draft.levels:
        add_blocks(draft, level)
        occupants.append(add_room(draft, level))
    add_data(draft)
    add_op_times(draft)
    never = hold(draft) if detail.held else np.zeros(0, dtype=np.int64)
    columns, total = draft.columns, draft.total
    cost, lower, upper = np.zeros(total), np.zeros(total), np.ones(total)
    cost[columns.time] = 1
    lower[columns.time[:-1]] = (task.costs.compute_ps + task.costs.overhead_ps) / draft.unit
    # A best plan takes no longer than one with everything in the backing memory, or native's where that cannot be, so
    # none of its ops and waits does.
    # `dual_bound` needs such finite bounds.
    for part in (columns.time, columns.spare, columns.bank):
        upper[part[part >= 0]] = draft.longest
    upper[never] = 0
    binary = np.zeros(total, dtype=bool)
    for part in (columns.resident, columns.here, columns.fast, columns.stay):
        binary[part[part >= 0]] = True
    binary[draft.switches] = binary[draft.last_moves()] = True
    program = LinearProgram(cost, lower, upper, binary, *draft.rows.matrix(total))
    return DynamicModel(
        task, draft.uses, columns, program, draft.unit, detail, occupants, np.concatenate(draft.op), draft.weighed
    )


def only_near(model: DynamicModel, program: LinearProgram, values: Floats, uses: NDArray[np.bool_]) -> LinearProgram:
    """Return the program with columns fixed to a solution's values, but those near uses that are decided again.

    Free are columns from `AHEAD` ops before the first of these uses to as many behind the last one, and those of the
    write-backs of results that are made at them.

    Args:
        model: says what the columns mean.
        program: the model's program, with all other uses' decisions fixed.
        values: float64[C], the solution.
        uses: bool[U].
    """
    task, columns = model.task, model.columns
    op = task.program.use_op[uses]
    near = (model.op >= op.min() - AHEAD) & (model.op <= op.max() + AHEAD)
    # The op of a block that stays is that of the use before, and a resident weight has none of its own.
    for part in (columns.stay[uses], columns.resident[task.program.use_tensor[uses]]):
        near[part[part >= 0]] = True
    for tensor, level in np.argwhere(model.columns.sent >= 0).tolist():
        if uses[model.uses.first[tensor]]:
            near[model.sending(tensor, level)] = True
    return replace(program, lower=np.where(near, program.lower, values), upper=np.where(near, program.upper, values))


def without_early(model: DynamicModel, program: LinearProgram) -> LinearProgram:
    """Return the program with copies within their windows only, as a schedule needs them."""
    early = model.columns.early[model.columns.early >= 0]
    if not len(early):
        return program
    upper = program.upper.copy()
    upper[early] = 0
    return replace(program, upper=upper)

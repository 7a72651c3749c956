"""Plans that move tensors while the program runs, as a mixed-integer linear program.

Time is cut into ops. With the columns of `columns.Columns`, u_0 < u_1 < ... the uses of a tensor (u_0 makes it, if
anything does), in each fast level l:

    a block       here[u] = stay[u] + copied[u] at the end of the op before u,   stay[u_i] <= here[u_{i-1}]
    its use       is served from one level at most, which has a block; from the backing memory if from none
    its data      sent at the end <= here[u_0], equal for graph outputs; a result that is made in a fast level is in the
                  backing memory as far as it has been sent: neither reads from there nor copies get ahead of that
    room          in each op, blocks that stay or are used, copies on their way in (whole blocks, of which a linear
                  program sees the share that has arrived), and results that are not yet sent wholly: together at most
                  the level's capacity less what the op reserves
    an op         time >= what it computes, and what the ports take by the cost table, added up if they are serial
    the port      of the backing memory: what the op's uses, copies in and write-backs take of it <= time

The sum of the times is the latency. Every valid plan fits: give each column what the plan does; copies that an op waits
for belong to the time of the op before. So what the program proves holds for all plans. Its other half is `extract`:
where the shares are whole the answer is a plan of the same latency, apart from addresses.

What is whole in a plan is whole here where `Detail` says so. A copy is followed op by op in a window before its use;
what is copied earlier takes no room and may use any port time that earlier ops have left. All that keeps it a bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.exact.dynamic.blocks import add_blocks, add_data
from agents.exact.dynamic.columns import Columns, Uses
from agents.exact.dynamic.detail import Detail
from agents.exact.dynamic.draft import Draft
from agents.exact.dynamic.room import add_room
from agents.exact.dynamic.times import add_op_times
from agents.exact.highs import LinearProgram
from memplace_env.task import Task
from memplace_env.workload.program import Ints


class Model(NamedTuple):
    """A linear program and what its columns mean; see the module for the mathematics.

    Attributes:
        task, uses, columns: what it is about.
        program: minimise the latency.
        unit_ps: picoseconds of one unit of it.
        detail: what it follows in detail.
    """

    task: Task
    uses: Uses
    columns: Columns
    program: LinearProgram
    unit_ps: float
    detail: Detail

    def copying(self, use: int, level: int) -> slice:
        """Columns of the copy for a use, which has one."""
        first = self.columns.copied[use, level]
        return slice(first, first + self.task.program.use_op[use] - self.columns.window[use])

    def sending(self, tensor: int, level: int) -> slice:
        """Columns of a tensor's write-back, which has one."""
        first = self.columns.sent[tensor, level]
        return slice(first, first + self.uses.sent_by[tensor] - self.uses.valid[tensor] + 1)


def build(task: Task, detail: Detail = Detail(), free_bytes: Ints | None = None) -> Model:  # noqa: B008
    """The program of the module's docstring.

    Args:
        task: the problem.
        detail: what is followed in detail.
        free_bytes: int64[T+1, F], what else stays free in each op and fast level; then it is no bound for all plans.
    """
    draft = Draft(task, detail)
    for level in draft.levels:
        add_blocks(draft, level)
        add_room(draft, level, None if free_bytes is None else free_bytes[:, level])
    add_data(draft)
    add_op_times(draft)
    columns, total = draft.columns, draft.total
    cost, lower, upper = np.zeros(total), np.zeros(total), np.ones(total)
    cost[columns.time] = 1
    lower[columns.time[:-1]] = (task.costs.compute_ps + task.costs.overhead_ps) / draft.unit
    # No plan takes longer than one that moves nothing, so no op and no wait of a plan worth having does.
    for part in (columns.time, columns.spare, columns.bank):
        upper[part[part >= 0]] = draft.longest
    binary = np.zeros(total, dtype=bool)
    for part in (columns.resident, columns.here, columns.fast, columns.stay):
        binary[part[part >= 0]] = True
    binary[draft.switches] = True
    program = LinearProgram(cost, lower, upper, binary, *draft.rows.matrix(total))
    return Model(task, draft.uses, columns, program, draft.unit, detail)

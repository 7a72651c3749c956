"""Plans with given levels: addresses by the compiler, or by a search."""

from __future__ import annotations

from typing import NamedTuple

from memplace_agents.exact.address_search import Conflict, pack
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.static.level_moves import lives
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.compiler.compile import plan_of_levels
from memplace_env.placement.compiler.placing_order import ORDERS
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


class Placed(NamedTuple):
    """Plans made of levels.

    Attributes:
        plans: one plan with exactly these levels; without addresses for it, the compiler's, in which some tensors are
            in other levels.
        conflicts: the tensors that have no addresses together; empty if the plan has exactly these levels.
    """

    plans: list[MemoryPlan]
    conflicts: list[Conflict]


def placed(task: Task, level: Ints, clock: Clock) -> Placed:
    """Return plans with the levels int64[K]; see `pack` for the clock."""
    compiled = [place_levels(task, level, order) for order in ORDERS]
    complete = [plan for plan, reassigned in compiled if reassigned == 0]
    if complete:
        return Placed(complete[:1], [])
    blocks = lives(task, level)
    offset, conflicts = pack(task, blocks.rows, clock)
    if conflicts:
        return Placed([plan for plan, _ in compiled], conflicts)
    return Placed([plan_of_levels(task, blocks.level, offset, blocks.copy_start)], [])

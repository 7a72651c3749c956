"""Plans with given levels: addresses by the compiler, or by a search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_agents.exact.chains import pack_chains
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.static.level_moves import Lives, lives, released
from memplace_env.placement.addresses.address_search import Conflict, pack
from memplace_env.placement.compiler import at_home, place_levels
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
    offset, conflicts = offsets(task, blocks, clock)
    if conflicts:
        return Placed([at_home(task, plan) for plan, _ in compiled], conflicts)
    return Placed([at_home(task, plan_of_levels(task, blocks.level, offset, blocks.copy_start))], [])


def offsets(task: Task, blocks: Lives, clock: Clock | None = None) -> tuple[Ints, list[Conflict]]:
    """Return an offset for each tensor, int64[K], and the conflicts of those without one, as `pack` does.

    What has no addresses as chains might have some with other pairs: that is proven only where lives without the ops of
    pairs have none.
    """
    offset, joined, head = pack_chains(task, blocks.rows, clock)
    if not joined or not len(task.program.handovers):
        return offset, joined
    apart = blocks._replace(last=released(task.program, blocks.level, blocks.last))
    conflicts = pack(task, apart.rows, clock)[1]
    for level, *found, height, _ in () if conflicts else joined:
        passing, permanent = (np.flatnonzero(np.isin(head, tensors)) for tensors in found)
        conflicts.append(Conflict(level, passing, permanent, height, proven=False))
    return offset, conflicts

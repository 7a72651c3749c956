"""Sequences of wishes, see `kernels`, and which uses belong together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.game import kernels
from agents.xla_msa import PUBLIC_SETS, default_plan
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.envs.malloc_game.state import COPY, DROP, NO_COPY
from memplace_env.plan import MemoryPlan
from memplace_env.workload.program import Ints

Wishes = NDArray[np.int8]

FAST = 0


class Groups(NamedTuple):
    """Uses in groups: group i is `members[ptr[i] : ptr[i + 1]]`, in order; `of[u]` is the group of use u."""

    ptr: Ints
    members: Ints
    of: Ints


def groups(keys: Ints) -> Groups:
    """Groups of equal states of int64[U, F]."""
    _, of = np.unique(keys, axis=0, return_inverse=True)
    of = of.reshape(-1)
    return Groups(np.concatenate([[0], np.bincount(of).cumsum()]), np.argsort(of, kind="stable"), of)


def by_tensor(problem: MallocGameProblem) -> Groups:
    """The uses of each tensor."""
    return groups(problem.tables.use_tensor[:, None])


def by_role(problem: MallocGameProblem) -> Groups:
    """Uses of the same place, size and cost in ops of the same cost: mostly the same use in each layer of a network."""
    tables, costs = problem.tables, problem.task.costs
    place = np.arange(len(tables.use_op)) - tables.use_ptr[tables.use_op]
    size, compute_ps = tables.size[tables.use_tensor], costs.compute_ps[tables.use_op]
    return groups(np.stack([place, size, costs.use_ps[:, 1], compute_ps, tables.use_is_result], 1))


def starts(problem: MallocGameProblem, incumbent: MemoryPlan | None = None) -> Wishes:
    """int8[5 or 6, U], where searches begin.

    What the best plan so far does, if there is one; the greedy player's game; fast memory wherever possible; the same,
    and copies of everything; and what XLA's solver would do with each of its public option sets.
    """
    count = problem.num_decisions
    begun = [] if incumbent is None else [incumbent]
    xla = [default_plan(problem.task, each.options) for each in PUBLIC_SETS]
    return np.stack(
        [
            *(plan_wishes(problem, plan) for plan in begun),
            greedy_wishes(problem),
            np.full(count, NO_COPY),
            np.full(count, COPY),
            *(plan_wishes(problem, plan) for plan in xla),
        ]
    ).astype(np.int8)


def plan_wishes(problem: MallocGameProblem, plan: MemoryPlan) -> Wishes:
    """int8[U], what a plan of the same program does: the way to replay it as a game.

    - A use that the backing memory serves: Drop.
    - Of each write-back, the last use that fast memory serves before it starts: Copy. The game's own starts right
      after that use, so it is at least as early.
    - Any other use that fast memory serves: NoCopy, which is granted as a copy in where the data is not there, so what
      the plan fetches is fetched, unless a block of the game still holds it.

    The game along these wishes is the plan's own if the plan is that of a game. Of any other plan it may be better or
    worse than the plan, as the game places blocks and times copies by its own rules.
    """
    tables, fast = problem.tables, plan.use_level == FAST
    wishes = np.where(fast, NO_COPY, DROP).astype(np.int8)
    for tensor, source, _, start, _ in plan.transfers.tolist():
        if source == FAST:
            before = fast & (tables.use_tensor == tensor) & (tables.use_op < start)
            wishes[np.flatnonzero(before)[-1:]] = COPY
    return wishes


def greedy_wishes(problem: MallocGameProblem) -> Wishes:
    """int8[U], what the greedy player plays; where it has no choice, fast memory."""
    states, wishes = problem.new_states(3), np.full(problem.num_decisions, NO_COPY, dtype=np.int8)
    rank = np.array([NO_COPY, COPY, 2])
    for use in range(problem.num_decisions):
        legal = problem.legal(states)[0]
        gains, _ = problem.play(states, rank)
        best = max((gains[i], -i) for i in range(3) if legal[rank[i]])[1]
        if legal.sum() > 1:
            wishes[use] = rank[-best]
        states[:] = states[-best]
    return wishes


def finished(problem: MallocGameProblem, wishes: Wishes) -> Ints:
    """int64[B, size], the finished games along wishes int8[B, U]."""
    states = problem.new_states(len(wishes))
    for state, each in zip(states, wishes, strict=True):
        kernels.follow(problem.tables, problem.layout, state, each)
    return states

"""Preferred actions for each use, see `annealing_kernels`, and groups of uses that belong together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_agents.search import annealing_kernels
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.envs.malloc_game.plan_actions import preferences_of_plan
from memplace_env.envs.malloc_game.state import COPY, DROP, NO_COPY
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.program.program import Ints

Preferences = NDArray[np.int8]
"""int8[U] or int8[B, U], a preferred action for each use; where it is illegal the nearest legal one is played."""


class Groups(NamedTuple):
    """Uses in groups: group i is `members[ptr[i] : ptr[i + 1]]`, in order; `of[u]` is the group of use u."""

    ptr: Ints
    members: Ints
    of: Ints

    def drawn(self, rng: np.random.Generator) -> Ints:
        """Return the uses of a random group."""
        group = rng.integers(len(self.ptr) - 1)
        return self.members[self.ptr[group] : self.ptr[group + 1]]


def groups(keys: Ints) -> Groups:
    """Return the groups of uses with equal rows of int64[U, F]."""
    _, of = np.unique(keys, axis=0, return_inverse=True)
    of = of.reshape(-1)
    return Groups(np.concatenate([[0], np.bincount(of).cumsum()]), np.argsort(of, kind="stable"), of)


def by_tensor(problem: MallocGameProblem) -> Groups:
    """Return the uses of each tensor as one group."""
    return groups(problem.tables.use_tensor[:, None])


def by_role(problem: MallocGameProblem) -> Groups:
    """Return groups of uses that play the same role, mostly the same use in each layer of a network.

    They have the same position in their op, bytes and costs, in ops with the same compute time.
    """
    tables, costs = problem.tables, problem.task.costs
    position = np.arange(len(tables.use_op)) - tables.use_ptr[tables.use_op]
    size, compute_ps = tables.size[tables.use_tensor], costs.compute_ps[tables.use_op]
    return groups(np.stack([position, size, costs.use_ps[:, 1], compute_ps, tables.use_is_result], 1))


def first_preferences(problem: MallocGameProblem, incumbent: MemoryPlan | None = None) -> Preferences:
    """Return the preferences from which searches begin, int8[B, U].

    These are of the best plan so far, if there is one; of every rule's plan; fast memory wherever possible; and the
    same with write-backs of everything.
    """
    plans = [*([] if incumbent is None else [incumbent]), *cheap_plans(problem).values()]
    fast = np.repeat([[NO_COPY], [COPY]], problem.num_decisions, axis=1)
    return np.concatenate([[preferences_of_plan(problem, plan) for plan in plans], fast]).astype(np.int8)


def greedy_preferences(problem: MallocGameProblem) -> Preferences:
    """Return the greedy player's actions, int8[U]; where it has no choice, the preference is fast memory."""
    states, preferences = problem.new_states(3), np.full(problem.num_decisions, NO_COPY, dtype=np.int8)
    # One state for each action, by falling priority among equal gains.
    rank = np.array([NO_COPY, COPY, DROP])
    for use in range(problem.num_decisions):
        legal = problem.legal(states)[0]
        gains, _ = problem.play(states, rank)
        best = max((i for i in range(3) if legal[rank[i]]), key=lambda i: (gains[i], -i))
        if legal.sum() > 1:
            preferences[use] = rank[best]
        states[:] = states[best]
    return preferences


def finished(problem: MallocGameProblem, preferences: Preferences) -> Ints:
    """Return the finished games along preferences int8[B, U], as states int64[B, size]."""
    states = problem.new_states(len(preferences))
    for state, preferred in zip(states, preferences, strict=True):
        annealing_kernels.follow(problem.tables, problem.layout, state, preferred)
    return states

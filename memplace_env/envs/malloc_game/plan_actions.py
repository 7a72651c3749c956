"""The actions of the game that follows a plan."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import PlanError
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.malloc_game.state import COPY, DROP, NO_COPY
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.program.program import Ints


def greedy_actions(problem: MallocGameProblem) -> Ints:
    """Return int64[U], the actions of `finish_greedily` from the start."""
    states = problem.new_states(1)
    problem.finish_greedily(states)
    return actions_of(problem, problem.plan(states[0]))


def actions_of(problem: MallocGameProblem, plan: MemoryPlan) -> Ints:
    """Return int64[U], the actions of the game that ends in this plan.

    Raises:
        PlanError: if no game does.
    """
    actions = nearest_actions(problem, plan)
    states = problem.new_states(1)
    problem.replay(states, actions[None].copy())
    if not _same(problem.plan(states[0]), plan):
        raise PlanError("The plan is not the end of any game on this accelerator, so there is no course of it to draw.")
    return actions


def nearest_actions(problem: MallocGameProblem, plan: MemoryPlan) -> Ints:
    """Return int64[U], the legal actions of the game that follows a plan, see `preferences_of_plan`.

    The exact agent chooses addresses and times of copies itself, so its plans are rarely ends of games to the byte, as
    `actions_of` wants them.

    Raises:
        PlanError: if the plan is for another program.
    """
    if plan.program_sha256 != problem.program.sha256:
        raise PlanError(f"The plan was made for another program than {problem.program.name!r} is now.")
    actions, states = preferences_of_plan(problem, plan).astype(np.int64), problem.new_states(1)
    for use in range(problem.num_decisions):
        if actions[use] == NO_COPY and not problem.legal(states)[0, NO_COPY]:
            actions[use] = COPY  # the data is not in fast memory, and the plan reads it there
        _, actions[use : use + 1] = problem.play(states, actions[use : use + 1])
    return actions


def preferences_of_plan(problem: MallocGameProblem, plan: MemoryPlan) -> NDArray[np.int8]:
    """Return int8[U], the actions with which a plan of the same program is followed; they need not be legal.

    - A use that the backing memory serves: Drop.
    - The last use that fast memory serves before a write-back begins: Copy. The game's own write-back begins right
      after that use, so it is at least as early.
    - Any other use that fast memory serves: NoCopy. Where the data is not in fast memory the nearest legal action is
      Copy, so the game fetches what the plan fetches, unless one of its blocks still holds the data.

    If the plan comes from a game, the result is that game. For any other plan the game may be faster or slower, as it
    places blocks and times copies by its own rules.
    """
    tables, fast = problem.tables, plan.use_level == 0
    preferences = np.where(fast, NO_COPY, DROP).astype(np.int8)
    for tensor, source, _, start, _ in plan.transfers.tolist():
        if source == 0:
            before = fast & (tables.use_tensor == tensor) & (tables.use_op < start)
            preferences[np.flatnonzero(before)[-1:]] = COPY
    return preferences


def _same(one: MemoryPlan, other: MemoryPlan) -> bool:
    """Return whether two plans of one program place and move alike."""
    return (
        np.array_equal(one.use_level, other.use_level)
        and np.array_equal(one.allocations, other.allocations)
        and np.array_equal(one.transfers, other.transfers)
    )

"""States on the way along a plan, from which episodes can begin."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from memplace_env._lib.errors import EnvError
from memplace_env.envs.arguments import integers
from memplace_env.envs.malloc_game import MallocGameProblem, nearest_actions
from memplace_env.envs.steps import StepsProblem
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.program.program import Ints


def states_along(problem: MallocGameProblem | StepsProblem, plan: MemoryPlan, decisions: ArrayLike) -> Ints:
    """Return the states of the episode that follows a plan, before each of these decisions; starts for a curriculum.

    Args:
        problem: the `problem` of a game's or a stepwise environment.
        plan: a plan of its program, such as the exact agent's, followed as by `PlanFollower`.
        decisions: int[N], numbers of decisions already made, each below the number of all.

    Returns:
        int64[N, size]; one row is a state for `reset(options={"state": ...})` and `set_state`, all rows are the states
        of a vector environment with N copies.

    Raises:
        PlanError: if the plan is for another program.
        ActionError: for numbers of decisions that are no integers.
        EnvError: for numbers of decisions out of range.
    """
    wanted = integers(np.atleast_1d(decisions), (None,), "Numbers of decisions are integers")
    if wanted.size and (wanted.min() < 0 or wanted.max() >= problem.num_decisions):
        raise EnvError(
            f"An episode of {problem.num_decisions} decisions has states before decisions "
            f"0..{problem.num_decisions - 1}, not {wanted.min()}..{wanted.max()}."
        )
    actions = nearest_actions(problem, plan) if isinstance(problem, MallocGameProblem) else problem.actions_of(plan)
    states, found = problem.new_states(1), problem.new_states(len(wanted))
    for decision in range(wanted.max(initial=-1) + 1):
        if (wanted == decision).any():
            found[wanted == decision] = states[0]
            if isinstance(problem, MallocGameProblem):
                problem.known.add(states[0])
        problem.play(states, actions[decision : decision + 1])
    return found

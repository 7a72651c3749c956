"""The actions of a game, recovered from its plan."""

from __future__ import annotations

import numpy as np

from memplace_env._lib.errors import PlanError
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.malloc_game.state import COPY, DROP, NO_COPY, USE
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
    if plan.program_sha256 != problem.program.sha256:
        raise PlanError(f"The plan was made for another program than {problem.program.name!r} is now.")
    tables, layout = problem.tables, problem.layout
    sent = {tensor: start for tensor, source, _, start, _ in plan.transfers.tolist() if source == 0}
    actions = np.empty(problem.num_decisions, dtype=np.int64)
    states = problem.new_states(1)
    for use in range(problem.num_decisions):
        op, tensor = int(tables.use_op[use]), int(tables.use_tensor[use])
        in_fast = tables.use_is_result[use] or states[0, layout.intact + tensor]
        if plan.use_level[use] == 1:
            actions[use] = DROP
        elif in_fast:
            actions[use] = COPY if sent.get(tensor) == op + 1 else NO_COPY
        else:
            actions[use] = COPY
        _, played = problem.play(states, actions[use : use + 1])
        if played[0] != actions[use]:
            break
    if states[0, USE] < problem.num_decisions or not _same(problem.plan(states[0]), plan):
        raise PlanError("The plan is not the end of any game on this accelerator, so there is no course of it to draw.")
    return actions


def _same(one: MemoryPlan, other: MemoryPlan) -> bool:
    """Return whether two plans of one program place and move alike."""
    return (
        np.array_equal(one.use_level, other.use_level)
        and np.array_equal(one.allocations, other.allocations)
        and np.array_equal(one.transfers, other.transfers)
    )

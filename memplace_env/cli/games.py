"""Games on the command line: making one, and turning plans back into the actions that led to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memplace_env.cli.formulations import TRAITS, Formulation
from memplace_env.cli.options import ModelFlags
from memplace_env.errors import PlanError

if TYPE_CHECKING:
    from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameProblem
    from memplace_env.plan import MemoryPlan
    from memplace_env.workload.program import Ints


def make_game(model: str, flags: ModelFlags) -> MallocGameEnv:
    """The game of a model.

    Raises:
        MemPlaceError: naming what cannot be resolved, or that the machine has not two levels.
    """
    import gymnasium as gym

    from memplace_env.envs.malloc_game import MallocGameEnv

    name = TRAITS[Formulation.GAME].env_id
    env = gym.make(name, disable_env_checker=True, **flags.arguments(model)).unwrapped
    assert isinstance(env, MallocGameEnv)
    return env


def greedy_actions(problem: MallocGameProblem) -> Ints:
    """int64[U], the actions of `finish_greedily` from the start."""
    rows = problem.new_rows(1)
    problem.finish_greedily(rows)
    return actions_of(problem, problem.plan(rows[0]))


def actions_of(problem: MallocGameProblem, plan: MemoryPlan) -> Ints:
    """int64[U], the actions of the game that ends in this plan.

    Raises:
        PlanError: if no game does.
    """
    from memplace_env.envs.malloc_game.state import COPY, DROP, NO_COPY, USE

    g, at = problem.g, problem.at
    if plan.program_sha256 != problem.program.sha256:
        raise PlanError(f"The plan was made for another program than {problem.program.name!r} is now.")
    sent = {tensor: start for tensor, source, _, start, _ in plan.transfers.tolist() if source == 0}
    actions = np.empty(problem.num_decisions, dtype=np.int64)
    rows = problem.new_rows(1)
    for use in range(problem.num_decisions):
        op, tensor = int(g.use_op[use]), int(g.use_tensor[use])
        here = g.use_is_result[use] or rows[0, at.intact + tensor]
        if plan.use_level[use] == 1:
            actions[use] = DROP
        elif here:
            actions[use] = COPY if sent.get(tensor) == op + 1 else NO_COPY
        else:
            actions[use] = COPY
        _, played = problem.play(rows, actions[use : use + 1])
        if played[0] != actions[use]:
            break
    if rows[0, USE] < problem.num_decisions or not _same(problem.plan(rows[0]), plan):
        raise PlanError("The plan is not the end of any game on this accelerator, so there is no course of it to draw.")
    return actions


def _same(one: MemoryPlan, other: MemoryPlan) -> bool:
    """Whether two plans of one program place and move alike."""
    return (
        np.array_equal(one.use_level, other.use_level)
        and np.array_equal(one.allocations, other.allocations)
        and np.array_equal(one.transfers, other.transfers)
    )

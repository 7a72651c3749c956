"""Episodes that follow a plan, step by step, and the states on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib.errors import EnvError
from memplace_env.envs.arguments import integers
from memplace_env.envs.batch.sequential_env import SequentialEnv
from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameProblem, nearest_actions
from memplace_env.envs.malloc_game.state import USE
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.placement_env import Observed, PlacementEnv
from memplace_env.envs.steps import StepsEnv, StepsProblem
from memplace_env.envs.steps.step_kernels import CURSOR
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.program.program import Ints

Followed = MallocGameEnv | OneShotEnv | StepsEnv
"""Environments that can follow a plan."""


class PlanEpisode(NamedTuple):
    """An episode of T steps that ended.

    Attributes:
        observations: T + 1 observations, the last one after the end.
        actions: T actions, those that were played: legal ones.
        rewards: T rewards.
        infos: T + 1 infos, the first one of `reset`.
        seed: what drew its random decisions.
    """

    observations: list[Observed]
    actions: list[Any]
    rewards: list[float]
    infos: list[dict[str, Any]]
    seed: int


class PlanFollower:
    """Plays an environment as a plan says.

    Args:
        env: a game, a one-shot or a stepwise environment, without wrappers.
        plan: a plan of its program. A game follows it as `nearest_actions` says; the others get the assignment of its
            tensors' levels, which the compiler places by its own rules. Either may be a little slower or faster than
            the plan itself.

    Raises:
        EnvError: if the environment draws another program in each episode.
        PlanError: if the plan is for another program.
    """

    def __init__(self, env: Followed, plan: MemoryPlan) -> None:
        if isinstance(env, SequentialEnv) and env.programs is not None:
            raise EnvError("A plan is followed in an environment of its program alone, not in one that draws programs.")
        self._env: PlacementEnv[Any] = env
        self._choose = _assignments(env, plan) if isinstance(env, OneShotEnv) else _decisions(env, plan)

    def episode(self, seed: int, epsilon: float = 0.0) -> PlanEpisode:
        """Play an episode; each decision is random with probability `epsilon`, uniform over the legal choices.

        In a one-shot environment the levels of an assignment are such decisions. After a random decision a game follows
        the plan as far as that is still legal.
        """
        rng, env = np.random.default_rng(seed), self._env
        observation, info = env.reset(seed=seed)
        episode, over = PlanEpisode([observation], [], [], [info], seed), False
        while not over:
            action = self._choose(rng, epsilon)
            observation, reward, over, _, info = env.step(action)
            if "played" in info:  # recorded as played, which is never illegal
                action, info["illegal"] = info["played"], False
            episode.observations.append(observation)
            episode.actions.append(action)
            episode.rewards.append(float(reward))
            episode.infos.append(info)
        return episode


_Choose = Callable[[np.random.Generator, float], Any]
"""Return the next action; with that probability each decision in it is random."""


def _decisions(env: MallocGameEnv | StepsEnv, plan: MemoryPlan) -> _Choose:
    if isinstance(env, MallocGameEnv):
        actions, position = nearest_actions(env.problem, plan), USE
    else:
        actions, position = env.problem.actions_of(plan), CURSOR

    def choose(rng: np.random.Generator, epsilon: float) -> int:
        if rng.random() < epsilon:
            return int(rng.choice(env.legal_actions()))
        return int(actions[env.get_state()[position]])

    return choose


def _assignments(env: OneShotEnv, plan: MemoryPlan) -> _Choose:
    assignment, mask = env.problem.assignments_of(plan.tensor_levels(env.program)[None])[0], env.problem.mask

    def choose(rng: np.random.Generator, epsilon: float) -> NDArray[np.int64]:
        drawn = np.where(mask, rng.random(mask.shape), -1.0).argmax(axis=1)  # uniform over the levels that can hold it
        levels: NDArray[np.int64] = np.where(rng.random(len(assignment)) < epsilon, drawn, assignment)
        return levels

    return choose


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
    counts = integers(np.atleast_1d(decisions), (None,), "Numbers of decisions are integers")
    if counts.size and (counts.min() < 0 or counts.max() >= problem.num_decisions):
        raise EnvError(
            f"An episode of {problem.num_decisions} decisions has states before decisions "
            f"0..{problem.num_decisions - 1}, not {counts.min()}..{counts.max()}."
        )
    actions = nearest_actions(problem, plan) if isinstance(problem, MallocGameProblem) else problem.actions_of(plan)
    states, states_before = problem.new_states(1), problem.new_states(len(counts))
    for decision in range(counts.max(initial=-1) + 1):
        if (counts == decision).any():
            states_before[counts == decision] = states[0]
            if isinstance(problem, MallocGameProblem):
                problem.known.add(states[0])
        problem.play(states, actions[decision : decision + 1])
    return states_before

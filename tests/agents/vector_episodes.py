"""Episodes of a native vector environment, those of many programs included."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from memplace_agents.learning.rollouts import Bools, Floats, Turn
from memplace_env.program.program import Ints


class VectorEpisodes:
    """Episodes of a `MemPlaceSteps` or `MallocGame` id side by side; see `rollouts.Episodes`.

    No search counts them: rewards are the environment's. Programs of many are drawn by the seed, and cannot be told
    apart by tables.

    Args:
        env_id: the id, such as "MemPlaceSteps-Train-v0".
        count: number of episodes.
        seed: seed of the first reset.
        options: further arguments of the environment, such as `skip_forced=True`.

    Attributes:
        envs: the vector environment.
        returns: returns of the episodes that ended since this list was emptied.
    """

    entries = 0

    def __init__(self, env_id: str, count: int, seed: int = 0, **options: Any) -> None:
        made: Any = gym.make_vec(env_id, num_envs=count, observation="flat", autoreset_mode="SameStep", **options)
        self.envs: Any = made.unwrapped
        problem = self.envs.problem  # None for ids of many programs
        self.length = problem.num_decisions if problem else 512
        self.inputs, self.actions = self.envs.single_observation_space.shape[0], int(self.envs.single_action_space.n)
        self._rows: Floats = self.envs.reset(seed=seed)[0]
        self._running, self.returns = np.zeros(count), list[float]()

    def turn(self) -> Turn:
        """Return the present decisions."""
        legal = self.envs.action_masks()
        return Turn(self._rows, legal, np.zeros(len(legal), dtype=np.int64))

    def step(self, actions: Ints) -> tuple[NDArray[np.float64], Bools]:
        """Play a decision in each episode."""
        self._rows, rewards, ended, _, _ = self.envs.step(actions)
        self._running += rewards
        self.returns += self._running[ended].tolist()
        self._running[ended] = 0.0
        return rewards, ended

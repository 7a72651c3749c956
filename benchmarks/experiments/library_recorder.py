"""Environments that the libraries are measured on: a recorded one of this package, and one that costs nothing."""

from __future__ import annotations

import time
from typing import Any, Final

import gymnasium as gym
import numpy as np
import psutil
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

import memplace_env  # noqa: F401 - registers the ids

MEASURED: Final = "MallocGame-Measured-v0"
"""Id under which a trial hands its environment to a library, in this process."""

ROUND: Final = 64 * 128
"""Steps of a round of collecting and learning, in every glue file."""


def processor_seconds() -> float:
    """Return the processor seconds of this process, of those that it started, and of theirs."""
    others = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return time.process_time() + sum(times.user + times.system for times in others)


class BudgetUsedError(Exception):
    """Processor seconds of a trial are used up."""


class Recorder(VectorWrapper):
    """Record the return of every episode, and end training when its processor seconds are used up.

    Args:
        env: a vector environment.
        seconds: processor seconds of this process from the first reset on.

    Attributes:
        steps: steps of single environments.
        used_up: whether the processor seconds are used up; libraries may raise other errors then than ours.
        own_began: processor seconds of this process at the first reset.
        began: processor seconds of this process, and of all that it started, at the first reset; None before.
        returns: returns of the finished episodes, in their order.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], seconds: float) -> None:
        super().__init__(env)
        self.autoreset_mode = env.metadata["autoreset_mode"]  # where TorchRL looks for it
        self.seconds = seconds
        self.steps = 0
        self.used_up = False
        self.began: float | None = None
        self.own_began = 0.0
        self.returns: list[float] = []
        self._marks: list[float] = []
        self._sums = np.zeros(env.num_envs)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begin all episodes."""
        if self.began is None:
            self.began, self.own_began = processor_seconds(), time.process_time()
        self._sums[(kwargs.get("options") or {}).get("reset_mask", ...)] = 0
        return self.env.reset(**kwargs)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the legal actions."""
        masks: NDArray[np.bool_] = self.env.unwrapped.action_masks()
        return masks

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play an action in every environment.

        Raises:
            BudgetUsedError: if the processor seconds are used up.
        """
        spent = time.process_time() - self.own_began
        if self.steps % ROUND == 0:
            self._marks.append(spent)
        if spent > self.seconds:
            self.used_up = True
            raise BudgetUsedError
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        self.steps += self.num_envs
        self._sums += rewards
        ended = terminations | truncations
        if ended.any():
            self.returns += self._sums[ended].tolist()
            self._sums[ended] = 0
        return observations, rewards, terminations, truncations, infos

    def rate(self) -> float:
        """Return steps per processor second in the later half of the rounds: compilation came before."""
        later = self._marks[len(self._marks) // 2 :]
        return ROUND * (len(later) - 1) / (later[-1] - later[0]) if len(later) > 1 else self.steps / self.seconds


class FreeVectorEnv(VectorEnv[NDArray[np.float32], NDArray[np.int64], NDArray[Any]]):
    """Environments whose step returns the same arrays each time: nothing but the library takes time.

    Args:
        env: the vector environment whose spaces it has; all actions are legal.
        length: steps of an episode; all end together.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], length: int) -> None:
        self.metadata = env.metadata
        self.num_envs, self.length = env.num_envs, length
        self.single_observation_space = env.single_observation_space
        self.single_action_space = env.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._masks = np.ones_like(env.unwrapped.action_masks())
        self._observations = np.ones(self.observation_space.shape, np.float32)
        self._rewards, self._no, self._yes = (
            np.zeros(self.num_envs),
            *(np.full(self.num_envs, v) for v in (False, True)),
        )
        self._last = np.empty(self.num_envs, dtype=object)
        self._last[:] = list(self._observations)
        self._step = 0

    def action_masks(self) -> NDArray[np.bool_]:
        """Return that every action is legal."""
        return self._masks

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin all episodes."""
        super().reset(seed=seed)
        self._step = 0
        return self._observations, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Count a step."""
        self._step += 1
        if self._step < self.length:
            return self._observations, self._rewards, self._no, self._no, {}
        infos: dict[str, Any] = {}
        if self.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP:
            infos = {"final_obs": self._last, "_final_obs": self._yes, "final_info": {}, "_final_info": self._yes}
            self._step = 0
        elif self.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP:
            self._step = -1
        return self._observations, self._rewards, self._yes, self._no, infos


def register_measured(env_id: str, free: bool, seconds: float) -> list[Recorder]:
    """Register `MEASURED`; the list that is returned will have the recorder of each vector environment of that id."""
    recorders: list[Recorder] = []

    def make(num_envs: int, max_episode_steps: int | None = None, **kwargs: Any) -> Recorder:
        env = gym.make_vec(env_id, num_envs=num_envs, **kwargs)
        length = episode_length(env_id, kwargs)  # this compiles the kernels, before the clock begins
        inner = FreeVectorEnv(env, length) if free else env
        recorders.append(Recorder(inner, seconds))
        return recorders[-1]

    def make_one(**kwargs: Any) -> gym.Env[Any, Any]:
        return gym.make(env_id, **kwargs)

    gym.registry.pop(MEASURED, None)
    gym.register(MEASURED, entry_point=make_one, vector_entry_point=make)
    return recorders


def episode_length(env_id: str, kwargs: dict[str, Any]) -> int:
    """Return the steps of an episode in which action 0 is always played."""
    env = gym.make_vec(env_id, num_envs=1, **kwargs)
    env.reset()
    length, over = 0, False
    while not over:
        _, _, ended, _, _ = env.step(np.zeros_like(env.action_space.sample()))
        length, over = length + 1, bool(ended[0])
    return length

"""What every environment of this package has in common: a task, a plan and its report."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, Generic, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from memplace_env.accelerator import Accelerator
from memplace_env.costs import KnownCosts
from memplace_env.errors import EnvError
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import BuiltinSimulator, Report, Simulator, judge_plan
from memplace_env.task import Task
from memplace_env.workload.program import Program

Observation = dict[str, NDArray[Any]]
Action = TypeVar("Action")
Env = TypeVar("Env", bound="PlacementEnv[Any]")


class PlacementEnv(gym.Env[Observation, Action], Generic[Action]):
    """An environment whose episodes end in a MemoryPlan.

    Attributes:
        task: program, accelerator, costs, simulator, and the settings that made the program.
        render_mode: None, "rgb_array" or "ansi".
    """

    def __init__(self, task: Task, render_mode: str | None) -> None:
        modes = self.metadata["render_modes"]
        if render_mode not in (None, *modes):
            raise EnvError(f"render_mode {render_mode!r} is none of {', '.join(modes)}.")
        self.task = task
        self.render_mode = render_mode

    @property
    def program(self) -> Program:
        """What is placed."""
        return self.task.program

    @property
    def accelerator(self) -> Accelerator:
        """Where it is placed."""
        return self.task.accelerator

    @property
    def simulator(self) -> Simulator:
        """What times a plan; without a black box, the built-in one with the task's costs."""
        task = self.task
        if task.simulator is None:
            return BuiltinSimulator(KnownCosts(task.costs, task.program, task.accelerator))
        return task.simulator

    @abstractmethod
    def plan(self) -> MemoryPlan:
        """The plan of the present state; always valid."""

    def report(self) -> Report:
        """What the simulator says of `plan()`."""
        return judge_plan(self.task, self.plan(), trusted=True)

    def render(self) -> Any:
        """`rgb_array`: a picture as uint8[H, W, 3]; `ansi`: text."""
        if self.render_mode is None:
            gym.logger.warn("render() needs render_mode='rgb_array' or 'ansi' in gym.make.")
            return None
        return self._view(self.render_mode)

    @abstractmethod
    def _view(self, mode: str) -> Any:
        """The picture or text of that mode."""


class PlacementVectorEnv(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]], Generic[Env]):
    """Copies of an environment in one; an episode that ends begins anew in the same step.

    Attributes:
        env: a single one, which knows what all have in common.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int, env: Env) -> None:
        self.num_envs = num_envs
        self.env = env
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space

    @cached_property
    def observation_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Batched space; made on demand, since its bounds alone take as much memory as the observations."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Batched space, made on demand."""
        return batch_space(self.single_action_space, self.num_envs)

"""What every environment of this package has in common: a task, a plan and its report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from memplace_env.accelerator import Accelerator
from memplace_env.costs import KnownCosts
from memplace_env.errors import EnvError
from memplace_env.foreign import described
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import BuiltinSimulator, Report, Simulator, judge_plan
from memplace_env.task import Task
from memplace_env.workload.program import Program

Observation = dict[str, NDArray[Any]] | NDArray[np.float32]
"""The arrays of a Dict, or one vector; of one environment, or of a batch."""
Action = TypeVar("Action")


class PlacementEnv(gym.Env[Observation, Action], Generic[Action]):
    """An environment whose episodes end in a MemoryPlan.

    Attributes:
        task: program, accelerator, costs, simulator, and the settings that made the program.
        render_mode: None, "rgb_array" or "ansi".
        flat: whether the observation is one vector instead of a Dict.
    """

    def __init__(self, task: Task, render_mode: str | None, observation: str) -> None:
        modes = self.metadata["render_modes"]
        if render_mode is not None and not (isinstance(render_mode, str) and render_mode in modes):
            raise EnvError(f"render_mode {described(render_mode)} is none of {', '.join(modes)}.")
        if not isinstance(observation, str) or observation not in ("dict", "flat"):
            raise EnvError(f"observation {described(observation)} is neither 'dict' nor 'flat'.")
        self.task = task
        self.render_mode = render_mode
        self.flat = observation == "flat"

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


def each_array(function: Callable[[NDArray[Any]], NDArray[Any]], observation: Observation) -> Observation:
    """The function of every array of an observation."""
    if isinstance(observation, dict):
        return {key: function(array) for key, array in observation.items()}
    return function(observation)


def row_of(observation: Observation, index: int) -> Observation:
    """A copy of one row of a batch."""
    return each_array(lambda array: array[index].copy(), observation)

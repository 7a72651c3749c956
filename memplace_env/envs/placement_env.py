"""Base of every environment of this package: a task, a plan and its report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.spaces import GraphInstance
from numpy.typing import NDArray

from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described, shown
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.costs import KnownCosts
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import BuiltinSimulator, Report, Simulator, evaluate_plan
from memplace_env.placement.synthetic import planted_optimum_ps
from memplace_env.placement.task import Task
from memplace_env.program.program import Program

Observation = dict[str, NDArray[Any]] | NDArray[np.float32]
"""The arrays of a Dict, or one vector; of one environment, or of a batch."""
Observed = Observation | GraphInstance
"""An observation of a single environment; graphs come in no batches."""
Action = TypeVar("Action")
Copied = TypeVar("Copied")


def formulation_of(env: gym.Env[Any, Any]) -> Formulation:
    """Return the formulation that an environment poses, with or without wrappers.

    Raises:
        EnvError: if it has no attribute `formulation`, as environments of this package have.
    """
    try:
        return Formulation(env.get_wrapper_attr("formulation"))
    except (AttributeError, ValueError) as error:
        names = " or ".join(repr(formulation.value) for formulation in (Formulation.ONE_SHOT, Formulation.GAME))
        raise EnvError(
            f"{env} does not say which problem it poses; it needs an attribute `formulation`, {names}."
        ) from error


class PlacementEnv(gym.Env[Observed, Action], Generic[Action]):
    """An environment whose episodes end in a MemoryPlan.

    Attributes:
        formulation: the problem that it poses.
        task: program, accelerator, costs, simulator, and the settings that made the program.
        render_mode: None, "rgb_array" or "ansi".
        flat: whether the observation is one vector instead of a Dict.
        graph: whether it is a graph. Then `info` has the `action_mask`.
        mask_slice: the part of the flat observation that is the action mask; None where it has none, and for others.
        episode_info: what infos say in all steps of the episode: `optimal_latency_s` and `optimal_return` if the
            environment was made with `optimum=True`, see `optimum_info`; names of what was drawn, if it draws.
    """

    formulation: ClassVar[Formulation]
    mask_slice: slice | None = None
    graph_columns: ClassVar[tuple[str, ...]]
    """Columns of the nodes of graph observations."""
    episode_info: Mapping[str, Any]

    def __init__(self, task: Task, render_mode: str | None, observation: str) -> None:
        modes = self.metadata["render_modes"]
        if render_mode is not None and not (isinstance(render_mode, str) and render_mode in modes):
            raise EnvError(f"render_mode must be one of {', '.join(modes)}, not {described(render_mode)}.")
        if not isinstance(observation, str) or observation not in ("dict", "flat", "graph"):
            raise EnvError(f"observation must be 'dict', 'flat' or 'graph', not {described(observation)}.")
        self.task = task
        self.render_mode = render_mode
        self.flat, self.graph = observation == "flat", observation == "graph"
        if not self.flat:
            self.mask_slice = None
        self.episode_info = {}

    @property
    def n_steps(self) -> int:
        """Steps of an episode."""
        return 1

    @property
    def program(self) -> Program:
        """The program whose tensors are placed."""
        return self.task.program

    @property
    def accelerator(self) -> Accelerator:
        """The chip that they are placed on."""
        return self.task.accelerator

    @property
    def simulator(self) -> Simulator:
        """The black box that times plans, or the built-in simulator with the task's costs."""
        task = self.task
        if task.simulator is None:
            return BuiltinSimulator(KnownCosts(task.costs, task.program, task.accelerator))
        return task.simulator

    @abstractmethod
    def action_masks(self) -> NDArray[np.bool_]:
        """Return the legal actions in the form that sb3-contrib expects."""

    def sample_mask(self) -> Any:
        """Return the same as int8, in the form that `action_space.sample` takes."""
        return self.action_masks().astype(np.int8)

    def complete(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return an info with what each has in an episode, and the mask where the observation has none."""
        masks = {"action_mask": self.action_masks().astype(np.int8)} if self.graph else {}
        return {**info, **masks, **self.episode_info}

    @abstractmethod
    def plan(self) -> MemoryPlan:
        """Return the plan of the present state; it is always valid."""

    def report(self) -> Report:
        """Return the simulator's report of `plan()`."""
        return evaluate_plan(self.task, self.plan(), trusted=True)

    def render(self) -> Any:
        """Return a picture as uint8[H, W, 3] (`rgb_array`) or text (`ansi`)."""
        if self.render_mode is None:
            gym.logger.warn("render() needs render_mode='rgb_array' or 'ansi' in gym.make.")
            return None
        return self._view(self.render_mode)

    @abstractmethod
    def _view(self, mode: str) -> Any:
        """Return the picture or text of that mode."""


def optimum_info(task: Task, return_of: Callable[[float], float]) -> dict[str, float]:
    """Return the part of `info` that environments made with `optimum=True` add.

    Args:
        task: a planted program where it was planted.
        return_of: the return of an episode whose plan has that latency in seconds.

    Returns:
        `optimal_latency_s`, seconds, and `optimal_return`, in the environment's own units.

    Raises:
        EnvError: if the optimum is not known.
    """
    optimum_ps = planted_optimum_ps(task)
    if optimum_ps is None:
        raise EnvError(
            f"The optimum of {shown(task.program.name)} on {shown(task.accelerator.name)} is not known; optimum=True "
            "is for planted programs, such as synthetic:diamond, on the chip and at the costs they were planted for."
        )
    return {"optimal_latency_s": optimum_ps * PS, "optimal_return": return_of(optimum_ps * PS)}


def shallow_copy(original: Copied) -> Copied:
    """Return a copy that shares all attributes, in a fifth of the time of `copy.copy`."""
    copied = object.__new__(type(original))
    copied.__dict__.update(original.__dict__)
    return copied


def each_array(function: Callable[[NDArray[Any]], NDArray[Any]], observation: Observation) -> Observation:
    """Apply a function to every array of an observation."""
    if isinstance(observation, dict):
        return {key: function(array) for key, array in observation.items()}
    return function(observation)


def row_of(observation: Observation, index: int) -> Observation:
    """Return a copy of one row of a batch."""
    return each_array(lambda array: array[index].copy(), observation)

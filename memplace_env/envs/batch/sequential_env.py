"""Base of the environments of several decisions, about one program or another one in each episode."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env._lib.errors import ActionError, EnvError
from memplace_env._lib.units import PS
from memplace_env.envs.arguments import checked_choice, checked_flag, checked_options, checked_seed, integers
from memplace_env.envs.batch.batch import Batch, Problem
from memplace_env.envs.many.drawn import Drawn
from memplace_env.envs.many.draws import Draws, SplitDraws, draws_of
from memplace_env.envs.many.setting import Setting
from memplace_env.envs.one_shot.graph import graph_of
from memplace_env.envs.placement_env import Observation, Observed, PlacementEnv, each_array, optimum_info, shallow_copy
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import UnorderedOptions, resolve_task
from memplace_env.placement.simulator import Simulator
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program

Episodes = TypeVar("Episodes", bound=Batch[Any])
Info = dict[str, NDArray[Any]]
SCALES: Final = {"percent": 100.0, "fraction": 1.0}
"""Reward of saving the whole latency with everything in the backing memory, by name of the reward.

The reward "gain" is in percent of what the best cheap plan of a drawn program saves.
"""


class SequentialEnv(PlacementEnv[np.int64], Generic[Problem, Episodes]):
    """A batch of one episode, of a program or, with `programs`, of one that each reset draws.

    Attributes:
        problem: the problem of the present episode.
        programs: the distribution that `reset` draws from; None for one program.
        setting: what was drawn; of environments with `programs` only.
        reward: name of the reward.
        scale: factor of rewards from fractions of the latency with everything in the backing memory.
    """

    ACTIONS: ClassVar[tuple[str, str, str]]
    """Names of the actions, for error messages."""
    state_columns: ClassVar[Any]
    """Function of a problem and a state: float64[T, C], what nodes of graph observations say about the state."""
    problem: Problem
    programs: Draws | None
    setting: Setting
    reward: str
    scale: float
    _batch: Episodes

    def __init__(
        self,
        workload: str | Program | Task | None,
        accelerator: str | Accelerator,
        programs: str | Draws | None,
        *,
        reward: str,
        rewards: Sequence[str],
        optimum: bool,
        render_mode: str | None,
        observation: str,
        options: UnorderedOptions,
    ) -> None:
        optimum = checked_flag("optimum", optimum)
        self.programs = None if programs is None else draws_of(self.formulation, programs)
        self.reward = checked_choice("reward", reward, [*rewards, *(["gain"] if self.programs else [])])
        if self.programs is not None:
            other_accelerator = accelerator != self.formulation.traits.accelerator
            arguments = {"workload": workload, "accelerator": other_accelerator, "optimum": optimum, **options}
            if superfluous := [name for name, value in arguments.items() if value]:
                raise EnvError(f"An environment that draws its programs takes no {', '.join(superfluous)}.")
            first = self.drawn(self.programs.first)
            super().__init__(first.problem.task, render_mode, observation)
            self.turn_to(first)
        elif workload is None:
            raise EnvError("An environment is about a workload, or draws from programs; pass one of the two.")
        else:
            task = resolve_task(workload, accelerator, **options)
            self.problem, self.scale = self.problem_of(task), SCALES.get(self.reward, 1.0)
            super().__init__(self.problem.task, render_mode, observation)
            if optimum:
                self.episode_info = optimum_info(task, partial(self.return_of, problem=self.problem, scale=self.scale))
        self._batch = self.new_batch([self.problem], [self.start_of(self.problem)])
        self.action_space: spaces.Discrete = spaces.Discrete(len(self.ACTIONS))

    @abstractmethod
    def drawn(self, setting: Setting) -> Drawn[Problem]:
        """Return the problem of a setting, shared by all environments of the process.

        Raises:
            MemPlaceError: naming what cannot be resolved.
        """

    @abstractmethod
    def problem_of(self, task: Task) -> Problem:
        """Return the problem of a task."""

    @abstractmethod
    def start_of(self, problem: Problem, state: Ints | None = None) -> Ints:
        """Return the state in which an episode begins: the first, or the one after a given state; read-only."""

    @abstractmethod
    def new_batch(self, problems: list[Problem], states: list[Ints]) -> Episodes:
        """Return episodes of these problems in copies of these states."""

    @abstractmethod
    def play(
        self, batch: Episodes, actions: Ints, scale: float | NDArray[np.float64], seen: Any
    ) -> tuple[NDArray[np.float64], Info]:
        """Play an action in each episode of a batch.

        Args:
            batch: from `new_batch`.
            actions: int64[B].
            scale: the `scale` of each episode, or of all.
            seen: filled with the observations after it, see `Batch.empty`.

        Returns:
            Rewards float64[B], and infos, arrays of length B.
        """

    @abstractmethod
    def first_infos(self, batch: Episodes) -> Info:
        """Return the infos of episodes that have just begun at their start, arrays of length B."""

    @abstractmethod
    def form_of(self, seen: Any) -> Observation:
        """Return observations of a batch in the form that Gymnasium takes; never graphs."""

    def graph_of(self, problem: Problem, state: Ints) -> spaces.GraphInstance:
        """Return the graph that `observation="graph"` shows of a state."""
        return graph_of(problem.task, self.state_columns(problem, state))

    @property
    def n_steps(self) -> int:
        """Steps of an episode of the present problem."""
        return self.steps_of(self.problem)

    def steps_of(self, problem: Problem) -> int:
        """Return the steps of an episode of a problem."""
        return problem.num_decisions

    def preload(self) -> None:
        """Load all programs of a split, which takes seconds, so that no episode waits for its own.

        Where programs have no end, or there is one only, nothing is to be loaded.
        """
        for setting in self.programs.settings if isinstance(self.programs, SplitDraws) else ():
            self.drawn(setting)

    def turn_to(self, drawn: Drawn[Problem]) -> None:
        """Turn to a drawn problem; its episode begins with `_begin`."""
        self.setting, self.problem, self.task = drawn.setting, drawn.problem, drawn.problem.task
        self.scale = self.scale_of(drawn)
        self.episode_info = self.info_of(drawn)

    def scale_of(self, drawn: Drawn[Problem]) -> float:
        """Return the `scale` of a drawn problem."""
        return SCALES["percent"] / drawn.gain if self.reward == "gain" else SCALES.get(self.reward, 1.0)

    def info_of(self, drawn: Drawn[Problem]) -> dict[str, Any]:
        """Return the `episode_info` of a drawn problem."""
        if self.programs is None or not self.programs.planted:
            return drawn.setting.info
        best = self.return_of(drawn.optimal_s, drawn.problem, self.scale_of(drawn))
        return {**drawn.setting.info, "optimal_latency_s": drawn.optimal_s, "optimal_return": best}

    def return_of(self, latency_s: float, problem: Problem, scale: float) -> float:
        """Return the return of an episode of a problem whose plan has that latency by the cost arrays."""
        return scale * (1 - latency_s / (problem.all_backing_ps * PS))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        """Begin an episode; without `programs` it is the same each time.

        Args:
            seed: seeds `np_random`, from which programs are drawn.
            options: `state`: a state, as `get_state` or `states_along` returns it, from which the episode begins
                instead of from its start. Rewards are those of the decisions from there on, so they add up to the
                return of the whole episode less that of the decisions before. With `programs` instead `program`,
                `accelerator`, `batch`, `dims` and `dtype`, which narrow what is drawn.

        Raises:
            EnvError: for an invalid seed, invalid options, a state that no decisions lead to, or one of an episode that
                is over.
            MemPlaceError: naming what options cannot be resolved.
        """
        checked = checked_options(options)
        start = self.checked_start(checked)
        super().reset(seed=checked_seed(seed))
        if self.programs is not None:
            self.turn_to(self.drawn(self.programs.draw(self.np_random, checked)))
        self._begin(self.start_of(self.problem, start))
        info = self.first_infos(self._batch)
        if start is not None and "skipped" in info:
            info["skipped"] -= start[Batch.DECIDED]
        return self._shown(self._batch.observe()), self._told(info)

    def checked_start(self, options: Any) -> Ints | None:
        """Return a copy of the state that options of `reset` name, or None.

        Raises:
            EnvError: if no decisions lead to it, its episode is over, or programs are drawn.
        """
        if options.get("state") is None:
            return None
        if self.programs is not None:
            raise EnvError(
                "An environment of many programs begins each episode at its start; to begin from a state, make the "
                "environment of that program alone."
            )
        return self.problem.checked_start(options["state"])

    def step(self, action: int | np.integer) -> tuple[Observed, float, bool, bool, dict[str, Any]]:
        """Take one decision.

        Raises:
            ActionError: if the action is no integer of 0..2, or the episode is over.
        """
        actions = self.checked_actions(action, ()).reshape(1)
        if self._is_over:
            raise ActionError("The episode is over; call reset() before the next step.")
        seen = self._batch.empty(1)
        rewards, info = self.play(self._batch, actions, self.scale, seen)
        return self._shown(seen), rewards[0].item(), self._is_over, False, self._told(info)

    def checked_actions(self, actions: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the actions as int64 of that shape.

        Raises:
            ActionError: for another shape, a dtype that is no integer, or values outside 0..2.
        """
        form = "one integer" if shape == () else f"integers of shape {shape}"
        first, second, third = self.ACTIONS
        array = integers(actions, shape, f"An action is {form}, 0 {first}, 1 {second}, 2 {third}")
        if array.size and (array.min() < 0 or array.max() >= len(self.ACTIONS)):
            raise ActionError(
                f"An action is 0 {first}, 1 {second} or 2 {third}; this one holds {array.min()}..{array.max()}."
            )
        return array.astype(np.int64)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[3], which actions are legal, in the form that sb3-contrib expects."""
        masks: NDArray[np.bool_] = self._batch.legal()[0]
        return masks

    def legal_actions(self) -> list[int]:
        """Return the legal actions of the next decision; none once the episode is over."""
        return [int(action) for action in np.flatnonzero(self.action_masks())]

    @property
    def _is_over(self) -> bool:
        return bool(self._batch.heads[0, self._batch.MASK] == 0)

    @property
    def _state(self) -> Ints:
        return self._batch.states[0]

    def plan(self) -> MemoryPlan:
        """Return the plan of the present state, see `problem.plan`."""
        return self.problem.plan(self._state)

    def get_state(self) -> Ints:
        """Return a copy of the state, int64[size]."""
        return self._state.copy()

    def set_state(self, state: Ints) -> None:
        """Return to a state that `get_state` returned, of this environment or another one of the same problem.

        Raises:
            EnvError: if no decisions lead to it.
        """
        self._begin(self.problem.checked_state(state))

    def fork(self) -> Self:
        """Return an independent copy in the same state, for planners; program and tables are shared.

        The fork gets its own generator when it is reset.
        """
        other = shallow_copy(self)
        other._batch = self._batch.fork()
        other._np_random = None
        return other

    def with_simulator(self, simulator: Simulator) -> Self:
        """Return a fork with an equivalent simulator, see `Task.with_simulator`.

        Raises:
            EnvError: if the environment draws its programs.
        """
        if self.programs is not None:
            raise EnvError("An environment of many programs has no simulator of its own; make that of one program.")
        other = self.fork()
        other.task = self.task.with_simulator(simulator)
        other.problem = self.problem_of(other.task)
        other._batch = self.new_batch([other.problem], self._batch.states)
        return other

    def _begin(self, state: Ints) -> None:
        self._batch.begin([0], [self.problem], [state])

    def _told(self, info: Info) -> dict[str, Any]:
        """Return the only row of infos, Python's numbers and arrays, see `complete`."""
        return self.complete({key: value.item() if value.ndim == 1 else value[0] for key, value in info.items()})

    def _shown(self, seen: Any) -> Observed:
        if self.graph:
            return self.graph_of(self.problem, self._state)
        return each_array(lambda array: array[0], self.form_of(seen))

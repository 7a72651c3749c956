"""The one-shot problem in steps."""

from __future__ import annotations

from copy import copy
from typing import Any, Final, Unpack

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env._lib.errors import ActionError, EnvError
from memplace_env._lib.foreign import described
from memplace_env.envs.arguments import checked_flag, checked_options, checked_seed, integers
from memplace_env.envs.placement_env import Observation, PlacementEnv, optimum_info, row_of
from memplace_env.envs.registration import Formulation
from memplace_env.envs.steps.observation import dict_space, flat_space, in_form
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.envs.steps.step_kernels import ESTIMATE
from memplace_env.envs.steps.step_tables import BACKING, LEVELS
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import TaskOptions, resolve_task
from memplace_env.placement.simulator import Simulator
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program

STEPS_REWARDS: Final = ("end", "dense")
"""Names of the rewards, see `StepsEnv`."""


class StepsEnv(PlacementEnv[np.int64]):
    """Assign the tensors of a network to memory levels, one decision after the other.

    ## Description
    The problem of `OneShotEnv`, decided entry by entry. An entry of an assignment is the level of the weights that an
    op is the first to read, or of the results of an op. Entries that fit into no fast level, and streamed weights of
    the first op, have no choice and stay in the backing memory. The others are decided once each; the compiler makes a
    plan of the finished assignment and the simulator times it. Observations and actions depend neither on the program
    nor on the chip, so that one policy plays everything.

    ## Action space
    `Discrete(3)`, the level of the next entry:

    - 0 fast: the fastest level.
    - 1 middle: the second of three levels. On a chip with two levels it is never allowed.
    - 2 backing: the backing memory, the slowest level. It is always allowed.

    The mask marks the levels that have room for all bytes of the entry in every op of its life, beside what has been
    decided so far. A level without room is replaced by the next slower one that has it, and `info` says `illegal`.
    Where weights stay on the chip, the compiler grants each decided level by bytes, and moves a tensor down only if no
    address is left for it between the others (`reassigned` > 0 at the end). Where weights are streamed, bytes are
    counted as if each weight came one op before its first use; the compiler also moves weights down that no copy can
    bring in time.

    ## Observation space
    `observation="flat"` (default): Box(0, 1, (71,) float32), the action mask as numbers 0..2, then 68 features;
    `observation.flat_space` lists every number. `observation="dict"`: `features` Box(0, 1, (68,) float32) and
    `action_mask` Box(0, 1, (3,) int8). At the end of an episode the features of the entry are 0.

    ## Reward
    The return is the speed-up over native of the compiler's plan, latency(native) / latency, by the simulator if there
    is one. It lies about 1, with a spread of some hundredths among sensible plans; use a discount (gamma) of 1.

    - `reward="end"` (default): the last step pays it, all others 0.
    - `reward="dense"`: each step pays the change of the estimated speed-up, the last one the rest of the return. The
      estimate is the cost arrays' with undecided entries in the backing memory.

    ## Episode end
    After the last entry (`terminated=True`); every episode of a program has the same length.

    ## Info
    | key                | meaning                                                                              |
    |--------------------|--------------------------------------------------------------------------------------|
    | `latency_s`        | estimated; at the end the plan's, by the simulator                                   |
    | `speedup`          | over native: estimated; at the end the plan's                                        |
    | `reassigned`       | fraction of bytes that the compiler moved at the end (EGRL's epsilon); 0 before      |
    | `native_latency_s` | of native's plan                                                                     |
    | `decision`         | index of the next entry in the one-shot assignment, a tensor if sliced; -1: the end  |
    | `played`           | the level given by the last action, -1 after `reset`                                 |
    | `illegal`          | whether that is another one than the action                                          |
    | `action_mask`      | int8[3], levels that have room for the next entry; zeros at the end                  |

    With `optimum=True`, as in `MemPlaceSteps-Tiny-v0`, also `optimal_latency_s` and `optimal_return`, which are known
    for planted programs only.

    ## Arguments
    As `OneShotEnv` (`workload`, `accelerator`, `simulator`, `batch`, `dims`, `dtype`, `fusion`, `trips`, `cut`,
    `costs`), and:

    | name          | default     | meaning                                                                            |
    |---------------|-------------|------------------------------------------------------------------------------------|
    | `order`       | `"density"` | entries that save most time per byte and op of their life first; or `"schedule"`   |
    | `reward`      | `"end"`     | or `"dense"`, see above                                                            |
    | `observation` | `"flat"`    | or `"dict"`                                                                        |
    | `optimum`     | `False`     | whether `info` has the optimum, see there                                          |

    A chip with more than three levels is refused.

    ## Version history
    - v0: first version.
    """

    formulation = Formulation.STEPS
    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}  # noqa: RUF012

    def __init__(
        self,
        workload: str | Program | Task,
        accelerator: str | Accelerator = "nnp-i",
        order: str = "density",
        reward: str = "end",
        render_mode: str | None = None,
        observation: str = "flat",
        optimum: bool = False,
        **options: Unpack[TaskOptions],
    ) -> None:
        task = resolve_task(workload, accelerator, **options)
        super().__init__(task, render_mode, observation)
        if not isinstance(reward, str) or reward not in STEPS_REWARDS:
            raise EnvError(f"reward must be {' or '.join(map(repr, STEPS_REWARDS))}, not {described(reward)}.")
        self.problem = StepsProblem(task, order)
        self.dense = reward == "dense"
        native_s = self.problem.one_shot.native_report.latency_s
        known = checked_flag("optimum", optimum)
        self.optimum_info = optimum_info(task, lambda latency_s: native_s / latency_s) if known else {}
        self._states = self.problem.new_states(1)
        self._last_speedup = 0.0
        space: spaces.Space[Any] = flat_space() if self.flat else dict_space()
        self.observation_space = space
        self.action_space: spaces.Discrete = spaces.Discrete(LEVELS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; it is the same each time.

        Args:
            seed: seeds `np_random`; the steps draw nothing.
            options: `state`: a state, as `get_state` returns it, from which the episode begins instead of from its
                start. With `reward="dense"` rewards then add up to the return of the whole episode less that of the
                decisions before.

        Raises:
            EnvError: for an invalid seed, invalid options, a state that no decisions lead to, or one of an episode
                that is over.
        """
        state = checked_options(options).get("state")
        states = self.problem.new_states(1) if state is None else self.problem.checked_start(state)[None]
        super().reset(seed=checked_seed(seed))
        self._states = states
        info = {**_scalars(self.first_info(states)), **self.optimum_info}
        return self._form(self.problem.observe(states)), info

    def step(self, action: int | np.integer) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Decide the next entry.

        Raises:
            ActionError: if the action is no integer of 0..2, or the episode is over.
        """
        wanted = check_levels(action, ()).reshape(1)
        if self.problem.done(self._states)[0]:
            raise ActionError("The episode is over; call reset() before the next step.")
        gains, played, rows = self.problem.step(self._states, wanted)
        rewards, info = self.outcome(self._states, gains, played, wanted)
        over = bool(self.problem.done(self._states)[0])
        self._last_speedup = info["speedup"][0].item()
        return self._form(rows), rewards[0].item(), over, False, {**_scalars(info), **self.optimum_info}

    def first_info(self, states: Ints) -> dict[str, NDArray[Any]]:
        """Return the infos of a reset to these states int64[B, size], arrays of length B."""
        none = np.full(len(states), -1)
        return self.outcome(states, np.zeros_like(none), none, none)[1]

    def outcome(
        self, states: Ints, gains: Ints, played: Ints, wanted: Ints
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[Any]]]:
        """Return rewards float64[B] and infos, arrays of length B, after a step of each state.

        Episodes that ended in this step are compiled and evaluated.

        Args:
            states: int64[B, size], after the step.
            gains, played: picoseconds gained and levels given, see `StepsProblem.play`; `played` -1 for no step.
            wanted: int64[B], the actions.
        """
        problem = self.problem
        latency, speedup = problem.latency_s(states), problem.speedup(states[:, ESTIMATE])
        reassigned, rewards = np.zeros(len(states)), np.zeros(len(states))
        ended = np.flatnonzero(problem.done(states) & (played >= 0))
        if self.dense:
            before = problem.speedup(states[:, ESTIMATE] + gains)
            rewards = speedup - before
            # What all earlier steps have paid together.
            rewards[ended] = problem.speedup(np.array([problem.tables.all_backing_ps])) - before[ended]
        if len(ended):
            scores = problem.scores(states[ended])
            latency[ended], speedup[ended], reassigned[ended] = scores.latency_s, scores.speedup, scores.reassigned
            rewards[ended] += scores.speedup
        info = {
            "latency_s": latency,
            "speedup": speedup,
            "reassigned": reassigned,
            "native_latency_s": np.full(len(states), problem.one_shot.native_report.latency_s),
            "decision": problem.next_decision(states),
            "played": played,
            "illegal": played != wanted,
            "action_mask": problem.legal(states).astype(np.int8),
        }
        return rewards, info

    def reward_change(self, factor: float) -> float:
        """Return by how much the last reward would differ if the finished plan had taken `factor` times as long."""
        return self._last_speedup * (1 / factor - 1)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[3], which levels have room for the next entry, in the form that sb3-contrib expects."""
        masks: NDArray[np.bool_] = self.problem.legal(self._states)[0]
        return masks

    def legal_actions(self) -> list[int]:
        """Return the levels that have room for the next entry; none once the episode is over."""
        return [int(action) for action in np.flatnonzero(self.action_masks())]

    def assignment(self) -> Ints:
        """Return the one-shot assignment int64[2T] of the state; undecided entries are in the backing memory."""
        row: Ints = self.problem.assignments(self._states)[0]
        return row

    def plan(self) -> MemoryPlan:
        """Return the compiler's plan of `assignment()`."""
        return self.problem.plan(self._states[0])

    def get_state(self) -> Ints:
        """Return a copy of the state, int64[size]."""
        state: Ints = self._states[0].copy()
        return state

    def set_state(self, state: Ints) -> None:
        """Return to a state that `get_state` returned, of this environment or another one of the same task and order.

        Raises:
            EnvError: if no decisions lead to it.
        """
        self._states = self.problem.checked_state(state)[None]

    def fork(self) -> StepsEnv:
        """Return an independent copy in the same state, for planners; program and tables are shared.

        Steps draw nothing at random; the fork gets its own generator when it is reset.
        """
        other = copy(self)
        other._states = self._states.copy()
        other._np_random = None
        return other

    def with_simulator(self, simulator: Simulator) -> StepsEnv:
        """Return a fork with an equivalent simulator, see `Task.with_simulator`."""
        other = self.fork()
        other.task = self.task.with_simulator(simulator)
        other.problem = StepsProblem(other.task, self.problem.order)
        return other

    def _form(self, rows: NDArray[np.float32]) -> Observation:
        return row_of(in_form(rows, self.flat), 0)

    def _view(self, mode: str) -> Any:
        from memplace_env.envs.one_shot.viewer import render

        return render(self.task, self.plan(), self.report(), mode)


def check_levels(actions: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the actions as int64 of that shape.

    Raises:
        ActionError: for another shape, a dtype that is no integer, or values outside 0..2.
    """
    form = "one integer" if shape == () else f"integers of shape {shape}"
    array = integers(actions, shape, f"An action is {form}, 0 fast, 1 middle, 2 backing")
    if array.size and (array.min() < 0 or array.max() > BACKING):
        raise ActionError(f"An action is 0 fast, 1 middle or 2 backing; this one holds {array.min()}..{array.max()}.")
    return array.astype(np.int64)


def _scalars(info: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the only row of infos: Python's numbers, and arrays."""
    return {key: value[0].item() if value.ndim == 1 else value[0] for key, value in info.items()}

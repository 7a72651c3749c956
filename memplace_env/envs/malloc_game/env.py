"""The sequential environment, mallocGame."""

from __future__ import annotations

from copy import copy
from typing import Any, Unpack

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env._lib.errors import ActionError
from memplace_env._lib.units import PS
from memplace_env.envs.arguments import checked_flag, checked_options, checked_seed, integers
from memplace_env.envs.malloc_game.flat import empty_flat, flat_space
from memplace_env.envs.malloc_game.observation import Observations, dict_space, empty_observations
from memplace_env.envs.malloc_game.problem import MallocGameProblem, Seen
from memplace_env.envs.malloc_game.reward_scale import reward_scale
from memplace_env.envs.malloc_game.state import ACTIONS, ESTIMATE, USE
from memplace_env.envs.placement_env import Observation, PlacementEnv, optimum_info
from memplace_env.envs.registration import Formulation
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import TaskOptions, resolve_task
from memplace_env.placement.simulator import Simulator
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program


class MallocGameEnv(PlacementEnv[np.int64]):
    """Decide use by use which tensors live in fast memory, and when they move there and back.

    ## Description
    The formulation of mallocMuZero (Wang et al., arXiv 2305.07440), a single-player game, on a machine with a fast
    and a backing memory. Weights and inputs start in the backing memory, graph outputs must end there. The decisions
    are the uses of tensors in execution order: for each op its distinct operands, then its results. Copies run
    beside the ops in the time that these leave of the backing memory's port; an op waits for a copy that comes in late,
    and for write-backs of data that it must read from the backing memory or whose room it needs. `rules` has the rules.
    The paper also describes alias groups and a drop-backup for dead ends: here views share one tensor, and data that
    exists nowhere else is protected, so that some action is always legal.

    ## Action space
    `Discrete(3)`:

    - 0 Copy: an operand that is not in fast memory is copied there, in time if that is possible, else the op waits for
      it; one that is only there is used and sent back to the backing memory; a result is made in fast memory and sent
      back.
    - 1 NoCopy: use the operand where it lies in fast memory, or make the result there, and no more.
    - 2 Drop: read the operand from the backing memory, or write the result there.

    The mask marks the legal ones. An illegal action is replaced by Drop; if that is illegal too or has to wait by
    NoCopy, or else Copy. `info` reports it.

    ## Observation space
    `Dict`, see `observation.dict_space` for every field: `profile` uint8 (2, 64, 64), `bandwidth` (64,),
    `tensor` (17,), `lookahead` (32, 12), `progress` (6,), `action_mask` int8 (3,).

    `observation="flat"`: one vector instead, Box(0, 1, (546,) float32), for a plain MLP: the same with the profile and
    the bandwidth eight times coarser; `flat.flat_space` lists every number.

    ## Reward
    `reward="percent"` (default): the drop of the estimated latency, in percent of the latency with everything in the
    backing memory. The estimate counts final ops as they are, everything undecided as in the backing memory, and all
    waits so far: the reward of a decision includes its own wait, that of the last one also the copies that are still
    under way at the end. The return is 100 * (1 - latency / latency(all backing)), at most 100, and negative where
    waits cost more than fast memory saves. `"fraction"`: the same divided by 100.
    In percent returns are of order one, as learners with default settings need them: random games of BERT return 2.2
    with a standard deviation of 0.35, its proven optimum 6.2; elsewhere optima lie between about 2 and 97. Rewards
    telescope, so learn with gamma = 1.
    With a `simulator` the estimate is still the cost arrays', and the last decision adds the difference to the
    simulator's latency, so that the return is that of the simulator.

    ## Episode end
    After the last use (`terminated=True`); every game of a program has the same length.

    ## Info
    `latency_s`: estimated, exact at the end; `played`: the action that was played, -1 after `reset`; `illegal`: whether
    that is another one than the action passed. With `skip_forced` also `skipped`: how many forced decisions were played
    after it, or by `reset` before the first one with a choice. With `optimum=True`, as in `MallocGame-Tiny-v0`, also
    `optimal_latency_s` and `optimal_return`, which are known for planted programs only.

    ## Arguments
    As `OneShotEnv` (`workload`, `accelerator`, `simulator`, `batch`, `dims`, `dtype`, `fusion`, `trips`, `cut`,
    `costs`, `observation`, `optimum`); the default accelerator is `"tpu-v4i"`. Any machine with two levels will do; one
    with resident weights is replaced by a copy that streams them, named so in `accelerator.name`:
    `"edge-tpu-streamed"`.
    A program that updates its weights needs that name, or a chip that streams weights anyway.

    And `reward`, see above; `skip_forced`: True plays decisions with a single legal action at once. These are half
    of BERT's 635: about 310 in a random game, 346 in the greedy player's. Their rewards are added to that of the step
    before them, so that the return is the same; those before the first choice earn nothing. Each step then has two or
    three legal actions, but for programs of which no decision has a choice: `reset` leaves them the last one.

    ## Version history
    - v0: first version.
    """

    formulation = Formulation.GAME
    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}  # noqa: RUF012

    def __init__(
        self,
        workload: str | Program | Task,
        accelerator: str | Accelerator = "tpu-v4i",
        render_mode: str | None = None,
        observation: str = "dict",
        reward: str = "percent",
        optimum: bool = False,
        skip_forced: bool = False,
        **options: Unpack[TaskOptions],
    ) -> None:
        self.reward_scale, self.skip_forced = reward_scale(reward), checked_flag("skip_forced", skip_forced)
        task = resolve_task(workload, accelerator, **options)
        self.problem = MallocGameProblem(task)
        super().__init__(self.problem.task, render_mode, observation)
        self.optimum_info = optimum_info(task, self._return_of) if checked_flag("optimum", optimum) else {}
        self._begin(self.problem.first_state)
        space: spaces.Space[Any] = flat_space() if self.flat else dict_space()
        self.observation_space = space
        self.action_space: spaces.Discrete = spaces.Discrete(len(ACTIONS))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a game; it is the same each time.

        Args:
            seed: seeds `np_random`; the game draws nothing.
            options: `state`: a state, as `get_state` or `states_along` returns it, from which the game begins instead
                of from its start. Rewards are those of the decisions from there on, so they add up to the return of
                the whole game less that of the decisions before. With `skip_forced` forced decisions that follow the
                state count among those before.

        Raises:
            EnvError: for an invalid seed, invalid options, a state that no legal play leads to, or one of a game that
                is over.
        """
        state = checked_options(options).get("state")
        first = self.problem.first_state if state is None else self.problem.checked_start(state)
        super().reset(seed=checked_seed(seed))
        start = self.first_state if state is None else first
        if state is not None and self.skip_forced:
            start = self.problem.without_forced(first)
        self._begin(start)
        info: dict[str, Any] = {"latency_s": self.latency_s, "played": -1, "illegal": False, **self.optimum_info}
        if self.skip_forced:
            info["skipped"] = int(start[USE] - first[USE])
        seen = self.problem.observe_flat(self._states) if self.flat else self.problem.observe(self._states)
        return row_of_game(seen), info

    def step(self, action: int | np.integer) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play one decision.

        Raises:
            ActionError: if the action is no integer of 0..2, or the game is over.
        """
        wanted = check_actions(action, ())
        if self._states[0, USE] == self.problem.num_decisions:
            raise ActionError("The game is over; call reset() before the next step.")
        observations = empty_flat(1) if self.flat else empty_observations(1)
        gains, played, skipped = self.problem.step(
            self._states, wanted.reshape(1), self._profiles, observations, self.skip_forced
        )
        over = bool(self._states[0, USE] == self.problem.num_decisions)
        fractions, latency = self.problem.settle(self._states, gains, played)
        self.problem.evaluated += over and not self.task.is_black_box  # `settle` counts those of a black box
        info = {"latency_s": latency[0].item(), "played": int(played[0]), "illegal": bool(played[0] != wanted)}
        if self.skip_forced:
            info["skipped"] = int(skipped[0])
        reward = self.reward_scale * fractions[0].item()
        return row_of_game(observations), reward, over, False, {**info, **self.optimum_info}

    @property
    def first_state(self) -> Ints:
        """The state after `reset`, int64[size]; read-only."""
        return self.problem.first_choice if self.skip_forced else self.problem.first_state

    @property
    def latency_s(self) -> float:
        """Estimated latency in seconds; once the game is over its plan's latency, by the simulator if there is one."""
        if self.task.is_black_box and self._states[0, USE] == self.problem.num_decisions:
            return self.report().latency_s
        return float(self._states[0, ESTIMATE] * PS)

    def legal_actions(self) -> list[int]:
        """Return the legal actions of the current decision; none once the game is over."""
        return [int(action) for action in np.flatnonzero(self.action_masks())]

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[3], which actions are legal, in the form that sb3-contrib expects."""
        masks: NDArray[np.bool_] = self.problem.legal(self._states)[0]
        return masks

    def plan(self) -> MemoryPlan:
        """Return the plan; an unfinished game goes on with Drop if that waits for nothing, else NoCopy, else Copy."""
        return self.problem.plan(self._states[0])

    def get_state(self) -> Ints:
        """Return a copy of the state, int64[size]."""
        state: Ints = self._states[0].copy()
        self.problem.known.add(state)
        return state

    def set_state(self, state: Ints) -> None:
        """Return to a state that `get_state` of this game returned, in this process or another one.

        A state from elsewhere than this environment and its forks is played again, about 1.5 us a decision.

        Raises:
            EnvError: if no legal play leads to it.
        """
        self._begin(self.problem.known.check(state))

    def fork(self) -> MallocGameEnv:
        """Return an independent copy in the same state, for planners; program and tables are shared.

        The game draws nothing at random; the fork gets its own generator when it is reset.
        """
        other = copy(self)
        other._states, other._profiles = self._states.copy(), self._profiles.copy()
        other._np_random = None
        return other

    def with_simulator(self, simulator: Simulator) -> MallocGameEnv:
        """Return a fork with an equivalent simulator, see `Task.with_simulator`."""
        other = self.fork()
        other.task = self.task.with_simulator(simulator)
        other.problem = MallocGameProblem(other.task)
        return other

    def _return_of(self, latency_s: float) -> float:
        """Return the return of a game whose plan has that latency by the cost arrays."""
        return self.reward_scale * (1 - latency_s / (self.problem.all_backing_ps * PS))

    def _begin(self, state: Ints) -> None:
        self._states = state[None].copy()
        self._profiles = self.problem.profiles(self._states, self.flat)

    def _view(self, mode: str) -> Any:
        from memplace_env.envs.malloc_game.viewer.viewer import render

        return render(self.problem, self._states[0], mode)


def row_of_game(seen: Seen) -> Observation:
    """Return the first row of observations, in the form of a single environment."""
    return seen.of(0) if isinstance(seen, Observations) else seen[0]


def check_actions(actions: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the actions as int64 of that shape.

    Raises:
        ActionError: for another shape, a dtype that is no integer, or values outside 0..2.
    """
    form = "one integer" if shape == () else f"integers of shape {shape}"
    array = integers(actions, shape, f"An action is {form}, 0 Copy, 1 NoCopy, 2 Drop")
    if array.size and (array.min() < 0 or array.max() >= len(ACTIONS)):
        raise ActionError(f"An action is 0 Copy, 1 NoCopy or 2 Drop; this one holds {array.min()}..{array.max()}.")
    return array.astype(np.int64)

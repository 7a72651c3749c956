"""The sequential environment."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env.accelerator import Accelerator
from memplace_env.costs import CostModel
from memplace_env.envs.arguments import checked_options, checked_seed, integers
from memplace_env.envs.base import Observation, PlacementEnv
from memplace_env.envs.malloc_game.flat import flat_space, flatten
from memplace_env.envs.malloc_game.observation import Observations, dict_space
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.malloc_game.state import ACTIONS, ESTIMATE, USE
from memplace_env.errors import ActionError
from memplace_env.plan import MemoryPlan
from memplace_env.resolve import resolve_task
from memplace_env.simulator import Simulator
from memplace_env.task import Task
from memplace_env.units import PS
from memplace_env.workload.program import Ints, Program


class MallocGameEnv(PlacementEnv[np.int64]):
    """Decide use by use what lives in fast memory, and when it moves there and back.

    ## Description
    The formulation of mallocMuZero (Wang et al., arXiv 2305.07440), a single-player game, on a machine with a fast
    and a backing memory. Weights and inputs start in the backing memory, graph outputs must end there. The decisions
    are the uses of tensors in execution order: for each op its distinct operands, then its results. Copies run
    beside the ops in what they leave of the backing memory's port; an op waits for what comes in late, and for data on
    its way back that it must read there or whose room it needs. The rules stand in `rules`. The paper also describes
    alias groups and a drop-backup for dead ends: here views share one tensor, and data that exists nowhere else is
    protected, so that some action is always legal.

    ## Action space
    `Discrete(3)`:

    - 0 Copy: an operand that is not in fast memory is copied there, in time if that is possible, else the op waits for
      it; one that is only there is used and sent back to the backing memory; a result is made in fast memory and sent
      back.
    - 1 NoCopy: use the operand where it lies in fast memory, or make the result there, and no more.
    - 2 Drop: read the operand from the backing memory, or write the result there.

    The mask tells which are legal. An illegal action is replaced by Drop, or where that is illegal too or has to wait
    by NoCopy, or else Copy, and `info` says so.

    ## Observation space
    `Dict`, see `observation.dict_space` for every field: `profile` uint8 (2, 64, 64), `bandwidth` (64,),
    `tensor` (17,), `lookahead` (32, 12), `progress` (6,), `action_mask` int8 (3,).

    `observation="flat"`: one vector in its place, Box(0, 1, (546,) float32), for a plain MLP: the same with the profile
    and the bandwidth eight times coarser; `flat.flat_space` says what every number is.

    ## Reward
    By how much the decision lowers the estimated latency, as a share of the latency with everything in the backing
    memory. The estimate takes final ops as they are, everything undecided as in the backing memory, and all waits so
    far: a decision that waits pays at once, and the last one for copies that are still under way at the end. The
    return is 1 - latency / latency(all backing), which may be negative.
    With a `simulator` the estimate is still the cost arrays', and the last decision adds what the simulator says more
    or less, so that the return is that of its latencies.

    ## Episode end
    After the last use (`terminated=True`); every game of a program has the same length.

    ## Info
    `latency_s`: estimated, exact at the end; `played`: the action that was really played, -1 after `reset`;
    `illegal`: whether that was not the one asked for.

    ## Arguments
    As `OneShotEnv` (`workload`, `accelerator`, `simulator`, `batch`, `dims`, `dtype`, `fusion`, `costs`,
    `observation`), with `"tpu-v4i"` as the default accelerator. Any machine with two levels will do; of one with
    resident weights a copy is played that streams them, which `accelerator.name` says: `"edge-tpu-streamed"`.
    A program that updates its weights asks for that name, or a chip that streams weights anyway.

    ## Version history
    - v0: first version.
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}  # noqa: RUF012

    def __init__(
        self,
        workload: str | Program | Task,
        accelerator: str | Accelerator = "tpu-v4i",
        simulator: str | Simulator | None = None,
        batch: int | None = None,
        dims: Mapping[str, int] | None = None,
        dtype: str | None = None,
        fusion: str | None = None,
        render_mode: str | None = None,
        costs: str | CostModel | None = None,
        observation: str = "dict",
    ) -> None:
        task = resolve_task(
            workload, accelerator, simulator, costs=costs, batch=batch, dims=dims, dtype=dtype, fusion=fusion
        )
        self.problem = MallocGameProblem(task)
        super().__init__(self.problem.task, render_mode, observation)
        self._states = self.problem.new_states(1)
        self._profiles = self.problem.observe(self._states).profile
        space: spaces.Space[Any] = flat_space() if self.flat else dict_space()
        self.observation_space = space
        self.action_space: spaces.Discrete = spaces.Discrete(len(ACTIONS))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a game; it is the same each time.

        Raises:
            EnvError: for a seed or options that are none.
        """
        checked_options(options)
        super().reset(seed=checked_seed(seed))
        self._begin(self.problem.first_state)
        info = {"latency_s": self.latency_s, "played": -1, "illegal": False}
        return self._only(self.problem.observe(self._states)), info

    def step(self, action: int | np.integer) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play one decision.

        Raises:
            ActionError: if the action is no integer of 0..2, or the game is over.
        """
        wanted = check_actions(action, ())
        if self._states[0, USE] == self.problem.num_decisions:
            raise ActionError("The game is over; call reset() before the next step.")
        gains, played, seen = self.problem.step(self._states, wanted.reshape(1), self._profiles)
        over = bool(self._states[0, USE] == self.problem.num_decisions)
        rewards, latency = self.problem.settle(self._states, gains, played)
        self.problem.judged += over and not self.task.is_black_box  # a black box was asked, and that counted
        info = {"latency_s": latency[0].item(), "played": int(played[0]), "illegal": bool(played[0] != wanted)}
        return self._only(seen), rewards[0].item(), over, False, info

    @property
    def latency_s(self) -> float:
        """Estimated latency in seconds; once the game is over that of its plan, by the simulator if there is one."""
        if self.task.is_black_box and self._states[0, USE] == self.problem.num_decisions:
            return self.report().latency_s
        return float(self._states[0, ESTIMATE] * PS)

    def legal_actions(self) -> list[int]:
        """The legal actions of the current decision; empty once the game is over."""
        return [int(action) for action in np.flatnonzero(self.action_masks())]

    def action_masks(self) -> NDArray[np.bool_]:
        """bool[3], in the form that sb3-contrib asks for."""
        masks: NDArray[np.bool_] = self.problem.legal(self._states)[0]
        return masks

    def plan(self) -> MemoryPlan:
        """The plan of the game; if it is not over, with Drop if that waits for nothing, else NoCopy, else Copy."""
        return self.problem.plan(self._states[0])

    def get_state(self) -> Ints:
        """int64[size], a copy of the state."""
        state: Ints = self._states[0].copy()
        self.problem.known.add(state)
        return state

    def set_state(self, state: Ints) -> None:
        """Return to a state that `get_state` of this game gave, in this process or another one.

        A state that this environment or a fork of it did not give is played again, which takes about 1.5 us a decision.

        Raises:
            EnvError: if no legal play leads to it.
        """
        self._begin(self.problem.known.check(state))

    def fork(self) -> MallocGameEnv:
        """An independent copy in the same state, for planners; program and tables are shared.

        The game draws nothing at random; the fork gets a generator of its own when it is reset.
        """
        other = copy(self)
        other._states, other._profiles = self._states.copy(), self._profiles.copy()
        other._np_random = None
        return other

    def judged_by(self, simulator: Simulator) -> MallocGameEnv:
        """A fork with another judge who says the same, see `Task.judged_by`."""
        other = self.fork()
        other.task = self.task.judged_by(simulator)
        other.problem = MallocGameProblem(other.task)
        return other

    def _begin(self, state: Ints) -> None:
        self._states[0] = state
        self._profiles = self.problem.observe(self._states).profile

    def _only(self, seen: Observations) -> Observation:
        """The one row of the observations, as this environment shows it."""
        return flatten(seen)[0] if self.flat else seen.of(0)

    def _view(self, mode: str) -> Any:
        from memplace_env.envs.malloc_game.viewer import render

        return render(self.problem, self._states[0], mode)


def check_actions(actions: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The actions as int64 of that shape.

    Raises:
        ActionError: for another shape, a dtype that is no integer, or values outside 0..2.
    """
    form = "one integer" if shape == () else f"integers of shape {shape}"
    array = integers(actions, shape, f"An action is {form}, 0 Copy, 1 NoCopy, 2 Drop")
    if array.size and (array.min() < 0 or array.max() >= len(ACTIONS)):
        raise ActionError(f"An action is 0 Copy, 1 NoCopy or 2 Drop; this one holds {array.min()}..{array.max()}.")
    return array.astype(np.int64)

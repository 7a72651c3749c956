"""The one-shot environment."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy, deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from memplace_env.accelerator import Accelerator
from memplace_env.costs import CostModel
from memplace_env.envs.arguments import checked_options, checked_seed
from memplace_env.envs.base import Observation, PlacementEnv, each_array
from memplace_env.envs.one_shot.flat import flat_observation, flat_space
from memplace_env.envs.one_shot.observation import dict_observation, dict_space
from memplace_env.envs.one_shot.problem import OneShotProblem
from memplace_env.envs.one_shot.reward import RewardFn, Scores, resolve_reward
from memplace_env.errors import EnvError
from memplace_env.plan import MemoryPlan
from memplace_env.resolve import resolve_task
from memplace_env.simulator import Simulator
from memplace_env.task import Task
from memplace_env.workload.program import Program


class OneShotEnv(PlacementEnv[NDArray[np.int64]]):
    """Map all tensors of a network to memory levels at once.

    ## Description
    The formulation of EGRL (Khadka et al., ICLR 2021): one action holds a memory level for the weights and one for
    the results of every op. The compiler makes a plan of it (`compile_mapping`), moving down what does not fit, and
    the simulator times the plan.

    ## Action space
    `MultiDiscrete([L] * 2T)`: entry 2t is the level for the weights that op t is the first to read, entry 2t+1 the
    level for the results of op t; 0 is the fastest level, L-1 the backing memory. Graph inputs and outputs live in
    the backing memory; entries of ops without weights, or whose only results are graph outputs, are ignored.

    ## Observation space
    `Dict`, the same in every episode:

    | key           | space                     | meaning                                                         |
    |---------------|---------------------------|-----------------------------------------------------------------|
    | `nodes`       | Box(0, 1, (T, 19) float32)| features of each op, see `observation.node_features`            |
    | `edge_index`  | Box(0, T-1, (2, E) int64) | producing op, consuming op; each pair once                      |
    | `action_mask` | Box(0, 1, (2T * L,) int8) | 1 for levels worth asking for, entry by entry; see `problem.mask` |

    `observation="flat"`: one vector in its place, Box(0, 1, (100 + 2L,) float32), a summary of the program and the chip
    that a plain MLP can read; `flat.flat_space` says what every number is.

    ## Reward
    `reward="latency"` (default): -epsilon if the compiler had to move anything, epsilon being the share of bytes
    moved; else latency(native) / latency. `"energy"` and `"edp"` (energy x delay) use those ratios instead. Or any
    function of `Scores`.

    ## Episode end
    Every step ends the episode (`terminated=True`).

    ## Info
    Of the plan that the compiler made, whether it had to move something or not, and after `reset` of native's:
    `latency_s`, `energy_j`, `speedup` over native, `reassigned` (epsilon), `valid` (epsilon is 0). The same each time:
    `native_latency_s`, `native_energy_j`.

    ## Arguments
    | name          | default   | meaning                                                                          |
    |---------------|-----------|----------------------------------------------------------------------------------|
    | `workload`    |           | zoo name, path of an .onnx file, `synthetic:...`, a `Program`, or a whole `Task` |
    | `accelerator` | `"nnp-i"` | shipped name, path of a .toml file, or an `Accelerator`                          |
    | `simulator`   | `None`    | the cost arrays; or the name of an installed one, or an object with `run`        |
    | `batch`       | `None`    | batch size; None keeps the workload's default                                    |
    | `dims`        | `None`    | values of symbolic dims, such as `{"sequence": 384}`                             |
    | `dtype`       | `None`    | deployment dtype; None takes the accelerator's                                   |
    | `fusion`      | `None`    | "none", "activation", "chain", "conv" or "epilogue"; None takes the accelerator's |
    | `reward`      | `"latency"` | see above                                                                      |
    | `costs`       | `None`    | name of a cost model, or an object with `costs`; None takes the accelerator's    |
    | `observation` | `"dict"`  | or "flat"                                                                        |

    A program that updates its weights, such as a training step, needs a chip with streamed weights: `"tpu-v4i"`, or
    `"<chip>-streamed"` of one that keeps them in place.

    ## Version history
    - v0: first version.
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(
        self,
        workload: str | Program | Task,
        accelerator: str | Accelerator = "nnp-i",
        simulator: str | Simulator | None = None,
        batch: int | None = None,
        dims: Mapping[str, int] | None = None,
        dtype: str | None = None,
        fusion: str | None = None,
        reward: str | RewardFn = "latency",
        render_mode: str | None = None,
        costs: str | CostModel | None = None,
        observation: str = "dict",
    ) -> None:
        task = resolve_task(
            workload, accelerator, simulator, costs=costs, batch=batch, dims=dims, dtype=dtype, fusion=fusion
        )
        super().__init__(task, render_mode, observation)
        self.problem = OneShotProblem(task)
        self._reward = resolve_reward(reward)
        self._map: NDArray[np.integer] | None = None
        self._scores: Scores | None = None
        self.seen: Observation = flat_observation(self.problem) if self.flat else dict_observation(self.problem)
        space: spaces.Space[Any] = flat_space(self.problem) if self.flat else dict_space(self.problem)
        self.observation_space = space
        self.action_space = action_space(self.problem)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start over; the observation is the same each time.

        Raises:
            EnvError: for a seed or options that are none.
        """
        checked_options(options)
        super().reset(seed=checked_seed(seed))
        self._map = None
        return self._observation(), native_info(self.problem)

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Compile and time one map.

        Raises:
            ActionError: if the action has the wrong shape, dtype or range.
        """
        self._map = self.problem.check(action).copy()
        scores = self.problem.evaluate(self._map[None])
        self._scores = scores
        reward = float(self.reward_of(scores)[0])
        info = {key: value[0].item() for key, value in step_info(self.problem, scores).items()}
        return self._observation(), reward, True, False, info

    def score(self, maps: ArrayLike) -> tuple[NDArray[np.float64], Scores]:
        """Rewards float64[B] and scores of maps int[B, 2T], without touching the episode: for searches.

        Raises:
            ActionError: if the maps have the wrong shape, dtype or range.
        """
        scores = self.problem.evaluate(self.problem.check(maps, (None,)))
        return self.reward_of(scores), scores

    def reward_of(self, scores: Scores) -> NDArray[np.float64]:
        """Rewards float64[B] by this environment's reward function.

        Raises:
            EnvError: if that returns something else.
        """
        rewards, shape = self._reward(scores), scores.latency_s.shape
        if not isinstance(rewards, np.ndarray) or rewards.shape != shape or rewards.dtype.kind not in "fiu":
            form = f"{rewards.dtype}{list(rewards.shape)}" if hasattr(rewards, "dtype") else type(rewards).__name__
            raise EnvError(f"The reward function returned {form}; it must return float64{list(shape)}, one per map.")
        return rewards

    def reward_change(self, factor: float) -> float:
        """What the last step would have earned more if its plan had taken `factor` times as long."""
        if self._scores is None:
            return 0.0
        return float((self.reward_of(self._scores.slowed(factor)) - self.reward_of(self._scores))[0])

    def plan(self) -> MemoryPlan:
        """The plan that the compiler made of the last action; before any action, native's."""
        return self.problem.native_plan if self._map is None else self.problem.compile(self._map).plan

    def action_masks(self) -> NDArray[np.bool_]:
        """bool[2T * L], the observation's `action_mask` in the form that sb3-contrib asks for."""
        return self.problem.mask.ravel()

    def get_state(self) -> NDArray[np.integer] | None:
        """The last action, or None; all that an episode consists of."""
        return None if self._map is None else self._map.copy()

    def set_state(self, state: NDArray[np.integer] | None) -> None:
        """Return to a state that `get_state` gave; any map is one.

        Raises:
            ActionError: if it is neither None nor a map.
        """
        self._map = None if state is None else self.problem.check(state).copy()

    def fork(self) -> OneShotEnv:
        """An independent copy in the same state; the program and its tables are shared."""
        other = copy(self)
        other._np_random = deepcopy(self._np_random)
        other.set_state(self.get_state())
        return other

    def judged_by(self, simulator: Simulator) -> OneShotEnv:
        """A fork with another judge who says the same, see `Task.judged_by`."""
        other = self.fork()
        other.task = self.task.judged_by(simulator)
        other.problem = OneShotProblem(other.task)
        return other

    def _view(self, mode: str) -> Any:
        from memplace_env.envs.one_shot.viewer import render

        return render(self.task, self.plan(), self.report(), mode)

    def _observation(self) -> Observation:
        return each_array(np.copy, self.seen)


def action_space(problem: OneShotProblem) -> spaces.MultiDiscrete:
    """Space of one action, as `OneShotEnv` documents it."""
    return spaces.MultiDiscrete(np.full(problem.map_size, problem.accelerator.num_levels))


def native_info(problem: OneShotProblem) -> dict[str, float | bool]:
    """What `reset` reports: native's plan, which is that of an episode before its action."""
    latency_s, energy_j = problem.native_report.latency_s, problem.native_report.energy_j
    return {
        "latency_s": latency_s,
        "energy_j": energy_j,
        "speedup": 1.0,
        "reassigned": 0.0,
        "valid": True,
        "native_latency_s": latency_s,
        "native_energy_j": energy_j,
    }


def step_info(problem: OneShotProblem, scores: Scores) -> dict[str, NDArray[Any]]:
    """What `step` reports, an array of length B each; the keys are those of `native_info`."""
    native = problem.native_report
    return {
        "latency_s": scores.latency_s,
        "energy_j": scores.energy_j,
        "speedup": scores.speedup,
        "reassigned": scores.reassigned,
        "valid": scores.reassigned == 0,
        "native_latency_s": np.full_like(scores.latency_s, native.latency_s),
        "native_energy_j": np.full_like(scores.energy_j, native.energy_j),
    }

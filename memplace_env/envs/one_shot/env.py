"""The one-shot environment."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any, Unpack

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib.errors import EnvError
from memplace_env.envs.arguments import NO_STATE, checked_flag, checked_options, checked_seed
from memplace_env.envs.one_shot.flat import flat_observation, flat_space
from memplace_env.envs.one_shot.graph import TASK_COLUMNS, graph_of, graph_space
from memplace_env.envs.one_shot.observation import dict_observation, dict_space
from memplace_env.envs.one_shot.problem import OneShotProblem
from memplace_env.envs.one_shot.reward import RewardFn, Scores, resolve_reward
from memplace_env.envs.placement_env import Observation, Observed, PlacementEnv, each_array, optimum_info
from memplace_env.envs.registration import Formulation
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.compiler import native_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import TaskOptions, resolve_task
from memplace_env.placement.simulator import Simulator
from memplace_env.placement.task import Task
from memplace_env.program.program import Program


class OneShotEnv(PlacementEnv[NDArray[np.int64]]):
    """Assign all tensors of a network to memory levels at once.

    | specification | of a program with T ops on a chip with L levels                                               |
    |---------------|-----------------------------------------------------------------------------------------------|
    | action        | `MultiDiscrete([L] * 2T)`, one for the whole program                                          |
    | observation   | `Dict` of `nodes`, `edge_index` and `action_mask`; flat: `Box(0, 1, (100 + 2L,))`             |
    | reward        | latency of native's plan over the plan's, above 0                                             |
    | horizon       | 1 step; gamma has no effect                                                                   |
    | BERT          | mean of 100 random assignments 0.69, native 1, proven optimum 1.265                           |

    ## Description
    The formulation of EGRL (Khadka et al., ICLR 2021): one action holds a memory level for the weights and one for
    the results of every op. The compiler turns it into a plan (`compile_levels`) and moves tensors that do not fit to
    slower levels. The simulator times the plan.

    ## Action space
    `MultiDiscrete([L] * 2T)`, an assignment: decision 2t is the level for the weights that op t is the first to read,
    decision 2t+1 the level for the results of op t; 0 is the fastest level, L-1 the backing memory. Graph inputs and
    outputs live in the backing memory, unless `io_level` says otherwise; decisions of ops without weights, or whose
    only results are graph outputs, are ignored.

    If a memory may not hold a tensor, the tensor goes to the next slower one that may, or else to the slowest. Some
    backing memories may not hold some tensors: flash holds no results. Then an assignment may leave them no room. Its
    reward is about 0, as its latency is that of a machine which stands still. Its plan is native's, which a simulator
    times.

    ## Observation space
    `Dict`, the same in every episode:

    | key           | space                     | meaning                                                         |
    |---------------|---------------------------|-----------------------------------------------------------------|
    | `nodes`       | Box(0, 1, (T, 19) float32)| features of each op, see `observation.node_features`            |
    | `edge_index`  | Box(0, T-1, (2, E) int64) | producing op, consuming op; each pair once                      |
    | `action_mask` | Box(0, 1, (2T * L,) int8) | 1 for levels that can hold the tensor; see `problem.mask`       |

    `observation="flat"`: one vector instead, Box(0, 1, (100 + 2L,) float32), a summary of the program and the chip for
    a plain MLP; `flat.flat_space` lists every number. `"graph"`: Gymnasium's own type, see `graph.graph_space`.

    ## Reward
    `reward="speedup"` (default): latency(native) / latency of the plan that the compiler made, even if it had to move
    tensors. `"egrl"`: if it had to, -epsilon, where epsilon is the fraction of bytes moved; else the speed-up.
    `"energy"` and `"edp"` (energy x delay): as `"egrl"`, with those ratios. Or any function of `Scores`.

    Speed-ups are positive, and 1 is as fast as native: random assignments of BERT get 0.69 with a standard deviation of
    0.03, its proven optimum 1.265; of ResNet50 0.73, 0.05 and 1.053. `"egrl"`, the paper's reward, is in [-1, 0) until
    an assignment fits, and none of 1,000 random ones of either does. An episode is one step, so gamma has no effect.

    ## As a decision process
    A bandit: one state, one action, and a deterministic reward. `Dict` shows the graph and the sizes that the reward
    depends on, but no times. In the flat observation many programs look alike. With one program neither hides anything,
    as each episode is the same.

    ## Episode end
    Every step ends the episode (`terminated=True`).

    ## Info
    About the compiler's plan, and after `reset` about native's: `latency_s`, `energy_j`, `speedup` over native,
    `reassigned` (epsilon), `fits` (epsilon is 0). Constant: `native_latency_s`, `native_energy_j`; with `optimum=True`,
    as in `MemPlace-Tiny-v0`, `optimal_latency_s` and `optimal_return`, which are known for planted programs only; the
    return is NaN if the reward counts energy.

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
    | `in_place`    | `None`    | "none", "elementwise" or "rows": results that may lie in an operand's place      |
    | `patterns`    | `None`    | "on" or "off": a written-out formula, such as GELU, is one op; None is "on"      |
    | `trips`       | `None`    | trip count of data-dependent loops                                               |
    | `values`      | `None`    | values of graph inputs of one element, such as `{"sr": 16000}`                   |
    | `cut`         | `None`    | name of a tensor up to which an .onnx or .tflite file is loaded                  |
    | `aliases`     | `None`    | inputs by the outputs written in their place, such as `{"present": "past"}`      |
    | `alignment`   | `None`    | sizes and offsets of blocks are multiples of it; None: the accelerator's         |
    | `io_level`    | `None`    | "backing", "any" or a level: memory of graph inputs and outputs; None likewise   |
    | `pins`        | `None`    | levels of tensors by name, such as `{"input": "SRAM"}`, or `"SRAM@64"`           |
    | `copies`      | `None`    | "all": plans may copy tensors between fast memories, too                         |
    | `reward`      | `"speedup"` | see above                                                                      |
    | `costs`       | `None`    | name of a cost model, or an object with `costs`; None takes the accelerator's    |
    | `observation` | `"dict"`  | or "flat", "graph"                                                               |
    | `optimum`     | `False`   | whether `info` has the optimum, see there                                        |

    A program that updates its weights, such as a training step, needs a chip with streamed weights: `"tpu-v4i"`, or
    `"<chip>-streamed"` of one that keeps them in place.

    ## Version history
    - v0: first version.
    """

    formulation = Formulation.ONE_SHOT
    graph_columns = TASK_COLUMNS
    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(
        self,
        workload: str | Program | Task,
        accelerator: str | Accelerator = "nnp-i",
        reward: str | RewardFn = "speedup",
        render_mode: str | None = None,
        observation: str = "dict",
        optimum: bool = False,
        **options: Unpack[TaskOptions],
    ) -> None:
        task = resolve_task(workload, accelerator, **options)
        super().__init__(task, render_mode, observation)
        self.problem = OneShotProblem(task)
        self.reward = resolve_reward(reward)
        self.episode_info = optimum_info(task, self._return_of) if checked_flag("optimum", optimum) else {}
        self._assignment: NDArray[np.integer] | None = None
        self._scores: Scores | None = None
        self.fixed_observation: Observation = (
            flat_observation(self.problem) if self.flat else dict_observation(self.problem)
        )
        space: spaces.Space[Any] = flat_space(self.problem) if self.flat else dict_space(self.problem)
        self.observation_space = graph_space(self.graph_columns) if self.graph else space
        self.action_space = action_space(self.problem)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        """Start over; the observation is the same each time.

        Raises:
            EnvError: for an invalid seed, invalid options or a `state` in them.
        """
        if checked_options(options).get("state") is not None:
            raise EnvError(NO_STATE)
        super().reset(seed=checked_seed(seed))
        self._assignment = None
        return self._observation(), self.complete(native_info(self.problem))

    def step(self, action: ArrayLike) -> tuple[Observed, float, bool, bool, dict[str, Any]]:
        """Compile and time one assignment.

        Raises:
            ActionError: if the action has the wrong shape, dtype or range.
        """
        self._assignment = self.problem.check(action).copy()
        scores = self.problem.evaluate(self._assignment[None])
        self._scores = scores
        reward = float(self.reward_of(scores)[0])
        info = {key: np.asarray(value).item() for key, value in step_info(self.problem, scores).items()}
        return self._observation(), reward, True, False, self.complete(info)

    def score(self, assignments: ArrayLike) -> tuple[NDArray[np.float64], Scores]:
        """Return rewards float64[B] and scores of assignments int[B, 2T]; for searches, the episode stays as it is.

        Raises:
            ActionError: if the assignments have the wrong shape, dtype or range.
        """
        scores = self.problem.evaluate(self.problem.check(assignments, (None,)))
        return self.reward_of(scores), scores

    def reward_of(self, scores: Scores) -> NDArray[np.float64]:
        """Return rewards float64[B] by this environment's reward function.

        Raises:
            EnvError: if the function returns something else.
        """
        rewards, shape = self.reward(scores), scores.latency_s.shape
        if not isinstance(rewards, np.ndarray) or rewards.shape != shape or rewards.dtype.kind not in "fiu":
            form = f"{rewards.dtype}{list(rewards.shape)}" if hasattr(rewards, "dtype") else type(rewards).__name__
            raise EnvError(
                f"The reward function returned {form}; it must return float64{list(shape)}, one per assignment."
            )
        return rewards

    def _return_of(self, latency_s: float) -> float:
        """Return the reward of a plan with that latency that the compiler did not change; NaN if it counts energy."""
        one, unknown = np.ones(1), np.full(1, np.nan)
        speedup = self.problem.native_report.latency_s / latency_s * one
        level = native_levels(self.task)[None].astype(np.int8)
        return float(self.reward_of(Scores(latency_s * one, unknown, 0 * one, speedup, unknown, level))[0])

    def reward_change(self, factor: float) -> float:
        """Return by how much the last reward would differ if its plan had taken `factor` times as long."""
        if self._scores is None:
            return 0.0
        return float((self.reward_of(self._scores.slowed(factor)) - self.reward_of(self._scores))[0])

    def plan(self) -> MemoryPlan:
        """Return the plan that the compiler made of the last action; before any action, native's."""
        return self.problem.native_plan if self._assignment is None else self.problem.compile(self._assignment).plan

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[2T * L], the observation's `action_mask` in the form that sb3-contrib expects."""
        return self.problem.mask.ravel()

    def sample_mask(self) -> tuple[NDArray[np.int8], ...]:
        """Return the same as int8[L] for each decision, in the form that `action_space.sample` takes."""
        return tuple(self.problem.mask.astype(np.int8))

    def get_state(self) -> NDArray[np.integer] | None:
        """Return the last action, or None: the whole state of an episode."""
        return None if self._assignment is None else self._assignment.copy()

    def set_state(self, state: NDArray[np.integer] | None) -> None:
        """Return to a state from `get_state`; any assignment is one.

        Raises:
            ActionError: if it is neither None nor an assignment.
        """
        self._assignment = None if state is None else self.problem.check(state).copy()

    def fork(self) -> OneShotEnv:
        """Return an independent copy in the same state; the program and its tables are shared."""
        other = copy(self)
        other._np_random = deepcopy(self._np_random)
        other.set_state(self.get_state())
        return other

    def with_simulator(self, simulator: Simulator) -> OneShotEnv:
        """Return a fork with an equivalent simulator, see `Task.with_simulator`."""
        other = self.fork()
        other.task = self.task.with_simulator(simulator)
        other.problem = OneShotProblem(other.task)
        return other

    def _view(self, mode: str) -> Any:
        from memplace_env.envs.one_shot.viewer import render

        return render(self.task, self.plan(), self.report(), mode)

    def _observation(self) -> Observed:
        return graph_of(self.task) if self.graph else each_array(np.copy, self.fixed_observation)


def action_space(problem: OneShotProblem) -> spaces.MultiDiscrete:
    """Return the space of one action, see `OneShotEnv`."""
    return spaces.MultiDiscrete(np.full(problem.num_decisions, problem.accelerator.num_levels))


def native_info(problem: OneShotProblem) -> dict[str, float | bool]:
    """Return the info of `reset`, about native's plan: that of an episode before its action."""
    latency_s, energy_j = problem.native_report.latency_s, problem.native_report.energy_j
    return {
        "latency_s": latency_s,
        "energy_j": energy_j,
        "speedup": 1.0,
        "reassigned": 0.0,
        "fits": True,
        "native_latency_s": latency_s,
        "native_energy_j": energy_j,
    }


def step_info(problem: OneShotProblem, scores: Scores) -> dict[str, Any]:
    """Return the info of `step`, arrays of length B, but native's are numbers; the keys are those of `native_info`."""
    native = problem.native_report
    return {
        "latency_s": scores.latency_s,
        "energy_j": scores.energy_j,
        "speedup": scores.speedup,
        "reassigned": scores.reassigned,
        "fits": scores.reassigned == 0,
        "native_latency_s": native.latency_s,
        "native_energy_j": native.energy_j,
    }

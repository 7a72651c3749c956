"""The one-shot problem in steps."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, Unpack

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env._lib.units import PS
from memplace_env.envs.arguments import checked_flag
from memplace_env.envs.batch.sequential_env import SCALES, Info, SequentialEnv
from memplace_env.envs.batch.sequential_vector import SequentialVectorEnv
from memplace_env.envs.many.drawn import MOST_LOADED, Drawn, drawn_problem
from memplace_env.envs.many.draws import Draws
from memplace_env.envs.many.setting import Setting
from memplace_env.envs.one_shot.graph import TASK_COLUMNS, graph_space
from memplace_env.envs.placement_env import Observation, Observed
from memplace_env.envs.registration import Formulation
from memplace_env.envs.steps.graph import STATE_COLUMNS, state_columns
from memplace_env.envs.steps.observation import dict_space, flat_space, in_form
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.envs.steps.step_features import checked_order
from memplace_env.envs.steps.step_tables import LEVELS
from memplace_env.envs.steps.steps_batch import StepsBatch
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.compiler import HEURISTICS
from memplace_env.placement.resolve_task import UnorderedOptions
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program

CHEAP: Final = ("native", "all-fastest", "density-greedy")
"""Rules of the compiler whose best plan is the unit of rewards of settings outside the list."""


class StepsEnv(SequentialEnv[StepsProblem, StepsBatch]):
    """Assign the tensors of a network to memory levels, one decision after the other.

    | specification | the same for every program and chip                                                           |
    |---------------|-----------------------------------------------------------------------------------------------|
    | action        | `Discrete(3)`: fast, middle, backing                                                          |
    | observation   | flat: `Box(0, 1, (71,))`, 0..2 the action mask, 3..70 features; dict: the two by name          |
    | reward        | at the end latency of native's plan over the plan's, above 0; or as its estimate changes      |
    | horizon       | number of entries with a choice, 544 of BERT; gamma must be 1                                 |
    | BERT          | mean of 100 random episodes of legal actions 0.69, native 1, optimum of `OneShotEnv` 1.265    |

    ## Description
    The problem of `OneShotEnv`, decided entry by entry. An entry is the level of the weights that an op is the first to
    read, or of the results of an op; of a sliced program that of one tensor. Entries that fit into no fast level, and
    streamed weights of the first op, have no choice and stay in the backing memory. The others are decided once each;
    the compiler makes a plan of all levels and the simulator times it. Observations and actions depend neither on the
    program nor on the chip, so that one policy plays everything.

    ## Action space
    `Discrete(3)`, the level of the next entry:

    - 0 fast: the fastest level.
    - 1 middle: the second of three levels. On a chip with two levels it is never allowed.
    - 2 backing: the backing memory, the slowest level. It is always allowed, unless it may not hold the entry and
      another level has room; where none has, `OneShotEnv` says what becomes of the plan.

    The mask marks the levels that may hold the entry and have room for all its bytes in every op of its life, beside
    what has been decided so far. Another level is replaced by the next slower marked one, or else by the slowest, and
    `info` says `illegal`.
    Where weights stay on the chip, each decided level has room by bytes. The compiler moves a tensor to a slower level
    only if no address is left for it (`reassigned` > 0 at the end). Where weights are streamed, bytes are counted as if
    each weight came one op before its first use. There the compiler also moves weights that no copy can bring in time.

    ## Observation space
    `observation="flat"` (the default here, as all there is to see is one short vector): Box(0, 1, (71,) float32), the
    action mask as numbers 0..2, then 68 features; `observation.flat_space` lists every number. `observation="dict"`:
    `features` Box(0, 1, (68,) float32) and `action_mask` Box(0, 1, (3,) int8). At the end of an episode the features of
    the entry are 0.

    `observation="graph"`: Gymnasium's `Graph` of the ops, see `one_shot.graph` and `graph.STATE_COLUMNS`.

    ## Reward
    The return is that of the compiler's plan, by the simulator if there is one. Use a discount (gamma) of 1.

    - `reward="speedup"` (default): over native, latency(native) / latency. It lies about 1, with a spread of some
      hundredths among sensible plans.
    - `"percent"`, `"fraction"`: what is saved of the latency with everything in the backing memory.
    - `"gain"`, with `programs`: the same in percent of what the best cheap plan of the program saves: 100 is as good as
      that plan. Cheap plans are those of native, all-fastest and ten runs of density-greedy, of programs outside the
      list its first run alone; of synthetic programs the planted optimum is 100. A saving below 1 % of the latency
      counts as 1 %, so that no reward grows beyond all bounds; bad ones have no limit.

    The last step pays it, all others 0. With `dense=True` each step pays the change of the estimate, and the last one
    the rest of the return. The estimate is the cost arrays' with undecided entries in the backing memory.

    ## As a decision process
    The state (`get_state()`) is the level of each decided entry. Transition and reward are deterministic; the program
    fixes the horizon. Observations are not Markov: they show how full the levels are during the entry's life, but not
    what lies there, nor the entries to come. With a discount of 0.99 a reward 544 decisions ahead counts 0.4 %.

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
    | `illegal`          | whether that differs from the action                                                 |
    | `action_mask`      | int8[3], levels that have room for the next entry; zeros at the end                  |

    With `optimum=True`, as in `MemPlaceSteps-Tiny-v0`, also `optimal_latency_s` and `optimal_return`, which are known
    for planted programs only. With `programs` also the setting: `program`, `accelerator`, `dims` and `dtype` as texts,
    `batch` as a number, 0 where it is fixed; `env.unwrapped.setting.options` are the options of `reset` that draw it
    again. Synthetic programs add the optimum, NaN if none is planted on this chip.

    ## Arguments
    As `OneShotEnv` (`workload`, `accelerator`, `simulator`, `batch`, `dims`, `dtype`, `fusion`, `in_place`, `patterns`,
    `trips`, `values`, `cut`, `aliases`, `costs`), and:

    | name          | default     | meaning                                                                            |
    |---------------|-------------|------------------------------------------------------------------------------------|
    | `order`       | `"density"` | entries that save most time per byte and op of their life first; or `"schedule"`   |
    | `reward`      | `"speedup"` | or `"percent"`, `"fraction"`, `"gain"`, see above                                  |
    | `dense`       | `False`     | whether all steps pay, see above                                                   |
    | `observation` | `"flat"`    | or `"dict"`, `"graph"`                                                             |
    | `optimum`     | `False`     | whether `info` has the optimum, see there                                          |
    | `programs`    | `None`      | what `reset` draws from instead of a workload, as in `MallocGameEnv`               |

    A chip with more than three levels is refused.

    ## Version history
    - v0: first version.
    """

    formulation = Formulation.STEPS
    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}  # noqa: RUF012
    ACTIONS = ("fast", "middle", "backing")
    state_columns = staticmethod(state_columns)
    graph_columns = (*TASK_COLUMNS, *STATE_COLUMNS)
    mask_slice = slice(0, LEVELS)

    def __init__(
        self,
        workload: str | Program | Task | None = None,
        accelerator: str | Accelerator = "nnp-i",
        order: str = "density",
        reward: str = "speedup",
        dense: bool = False,
        render_mode: str | None = None,
        observation: str = "flat",
        optimum: bool = False,
        programs: str | Draws | None = None,
        **options: Unpack[UnorderedOptions],
    ) -> None:
        self.order, self.dense = checked_order(order), checked_flag("dense", dense)
        self._last: dict[str, Any] = {"speedup": 0.0, "latency_s": 0.0}
        super().__init__(
            workload,
            accelerator,
            programs,
            reward=reward,
            rewards=["speedup", *SCALES],
            optimum=optimum,
            render_mode=render_mode,
            observation=observation,
            options=options,
        )
        space: spaces.Space[Any] = flat_space() if self.flat else dict_space()
        self.observation_space = graph_space(self.graph_columns) if self.graph else space

    def drawn(self, setting: Setting) -> Drawn[StepsProblem]:
        """Return the steps of a setting, see `drawn_steps`."""
        return drawn_steps(setting, self.order)

    def problem_of(self, task: Task) -> StepsProblem:
        """Return the steps of a task."""
        return StepsProblem(task, self.order)

    def start_of(self, problem: StepsProblem, state: Ints | None = None) -> Ints:
        """Return the state in which an episode begins."""
        return problem.tables.first_state if state is None else state

    def new_batch(self, problems: list[StepsProblem], states: list[Ints]) -> StepsBatch:
        """Return episodes in copies of these states."""
        return StepsBatch(problems, states)

    def return_of(self, latency_s: float, problem: StepsProblem, scale: float) -> float:
        """Return the return of an episode of a problem whose plan has that latency."""
        if self.reward == "speedup":
            return problem.one_shot.native_report.latency_s / latency_s
        return super().return_of(latency_s, problem, scale)

    def play(
        self, batch: StepsBatch, actions: Ints, scale: float | NDArray[np.float64], seen: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], Info]:
        """Decide the next entry of each episode by int64[B], see `SequentialEnv.play`.

        The plans of episodes that end are compiled and evaluated, those of one problem in one batch.
        """
        levels = batch.step(actions, seen)
        info, ended = self._infos(batch, levels.played, actions), batch.done() & (levels.played >= 0)
        estimated = info["speedup"].copy()
        for problem, same in batch.by_problem(np.flatnonzero(ended)).items() if ended.any() else ():
            scores = problem.scores(batch.stacked(np.array(same)))
            info["latency_s"][same], info["speedup"][same] = scores.latency_s, scores.speedup
            info["reassigned"][same] = scores.reassigned
        if not (self.dense or ended.any()):
            return np.zeros(len(batch)), info
        before_ps, backing_ps = batch.heads[:, batch.ESTIMATE] + levels.gains, batch.all_backing_ps
        # What a step pays if the reward is dense, what is paid in all, and what earlier steps have paid of it.
        if self.reward == "speedup":
            paid = batch.native_ps / before_ps
            each, total, earlier = estimated - paid, info["speedup"], paid - batch.native_ps / backing_ps
        else:
            each, total = levels.gains / backing_ps, 1 - info["latency_s"] / (backing_ps * PS)
            earlier = 1 - before_ps / backing_ps
        rewards = np.where(ended, total - earlier, each) if self.dense else np.where(ended, total, 0.0)
        return scale * rewards, info

    def _infos(self, batch: StepsBatch, played: Ints, actions: Ints) -> Info:
        """Return infos of episodes as estimated."""
        estimate_ps = batch.heads[:, batch.ESTIMATE]
        return {
            "latency_s": batch.latency_s(),
            "speedup": batch.native_ps / estimate_ps,
            "reassigned": np.zeros(len(batch)),
            "native_latency_s": batch.native_s.copy(),
            "decision": batch.following.copy(),
            "played": played,
            "illegal": played != actions,
            "action_mask": batch.legal().astype(np.int8),
        }

    def first_infos(self, batch: StepsBatch) -> Info:
        """Return the infos of episodes that have just begun, arrays of length B."""
        none = np.full(len(batch), -1)
        return self._infos(batch, none, none)

    def form_of(self, seen: NDArray[np.float32]) -> Observation:
        """Return observations in the form that Gymnasium takes."""
        return in_form(seen, self.flat)

    def step(self, action: int | np.integer) -> tuple[Observed, float, bool, bool, dict[str, Any]]:
        """Decide the next entry; errors as in `SequentialEnv.step`."""
        result = super().step(action)
        self._last = result[4]
        return result

    def reward_change(self, factor: float) -> float:
        """Return by how much the last reward would differ if the finished plan had taken `factor` times as long."""
        if self.reward == "speedup":
            return float(self._last["speedup"] * (1 / factor - 1))
        return float(self.scale * (1 - factor) * self._last["latency_s"] / (self.problem.all_backing_ps * PS))

    def levels(self) -> Ints:
        """Return int64[K], the level that the state asks for each tensor; undecided ones are in the backing memory."""
        levels: Ints = self.problem.levels(self._state[None])[0]
        return levels

    def _view(self, mode: str) -> Any:
        from memplace_env.envs.one_shot.viewer import render

        return render(self.task, self.plan(), self.report(), mode)


class StepsVectorEnv(SequentialVectorEnv[StepsEnv]):
    """`num_envs` episodes of `StepsEnv` in one; takes the same arguments, and those of `SequentialVectorEnv`.

    All episodes of a program are equally long; those that end in the same step are compiled by one call.
    """

    single = StepsEnv


@lru_cache(maxsize=MOST_LOADED)
def drawn_steps(setting: Setting, order: str) -> Drawn[StepsProblem]:
    """Return the steps of a setting in an order, made once and shared by all environments of the process.

    Raises:
        MemPlaceError: naming what cannot be resolved.
    """
    task = setting.task()

    def cheap_s() -> float:
        return min(evaluate_plan(task, HEURISTICS[name](task)).latency_s for name in CHEAP)

    return drawn_problem(setting, Formulation.STEPS, StepsProblem(task, order), cheap_s)

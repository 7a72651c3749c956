"""The steps with another program in each episode."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.units import PS
from memplace_env.envs.arguments import checked_flag
from memplace_env.envs.many.drawn import MOST_LOADED, Drawn, drawn_problem
from memplace_env.envs.many.many_env import ManyProgramsEnv
from memplace_env.envs.many.setting import Setting
from memplace_env.envs.registration import Formulation
from memplace_env.envs.steps.env import StepsEnv
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.envs.steps.step_features import checked_order
from memplace_env.envs.steps.step_kernels import ESTIMATE
from memplace_env.placement.compiler import HEURISTICS
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.program.program import Ints

CHEAP = ("native", "all-fastest", "density-greedy")
"""Rules of the compiler whose best plan is the unit of rewards of settings outside the list."""


@lru_cache(maxsize=MOST_LOADED)
def drawn_steps(setting: Setting, order: str) -> Drawn[StepsProblem]:
    """Return the steps of a setting in an order, made once and shared by all environments of the process.

    Raises:
        MemPlaceError: naming what cannot be resolved.
    """
    task = setting.task()
    problem = StepsProblem(task, order)

    def cheap_s() -> float:
        return min(evaluate_plan(task, HEURISTICS[name](task)).latency_s for name in CHEAP)

    backing_ps = problem.tables.all_backing_ps
    return drawn_problem(setting, Formulation.STEPS, problem, (problem.tables,), backing_ps, task, cheap_s)


class StepsManyEnv(ManyProgramsEnv, StepsEnv):
    """Decide the one-shot problem entry by entry on programs that `reset` draws.

    ## Description
    Everything is as in `StepsEnv`, whose spaces are the same for every program and chip, but each `reset` draws a
    program, its batch, dims and dtype, and a chip, from the environment's own generator. `many.draws` says how;
    docs/environments.md counts what there is. Before the first `reset` the program is the first of the list.

    ## Reward
    `reward="gain"` (default): the return is what the plan saves of the latency with everything in the backing memory,
    in percent of what the best cheap plan of this program saves: 100 is as good as that plan, more is better. Cheap
    plans are those of native, all-fastest and ten runs of density-greedy, of programs outside the list its first run
    alone; of synthetic programs the planted optimum is 100. A saving below 1 % of the latency counts as 1 %, so that no
    reward grows beyond all bounds. `"percent"`: in percent of the latency with everything in the backing memory. The
    last step pays all of it; with `dense=True` each pays what it saves of the estimated latency, and the last one the
    rest. Learn with gamma = 1.

    ## Options of `reset`
    `program`, `accelerator`, `batch`, `dims`, `dtype`: what is drawn agrees with those given. If nothing of the split
    does, the setting is what they say and need not belong to the split, with defaults as in `gym.make`.

    ## Info
    As `StepsEnv`, and the setting: `program`, `accelerator`, `dims` and `dtype` as texts, `batch` as a number, 0 where
    it is fixed. `env.unwrapped.setting.options` are the options that draw it again. The synthetic distribution adds
    `optimal_latency_s` and `optimal_return`, NaN if no optimum is planted on this chip.

    ## Arguments
    `split`: "train", "validation", "test" or "synthetic". `reward`, `dense`: see above. `order`, `render_mode`,
    `observation`: as `StepsEnv`.

    ## Version history
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        order: str = "density",
        reward: str = "gain",
        dense: bool = False,
        render_mode: str | None = None,
        observation: str = "flat",
    ) -> None:
        self._prepare(split, reward)
        self.order = checked_order(order)
        first = self.drawn(self.draws.first)
        pays = "dense" if checked_flag("dense", dense) else "end"
        StepsEnv.__init__(self, first.problem.task, "", order, pays, render_mode, observation)
        self.turn_to(first)

    def drawn(self, setting: Setting) -> Drawn[StepsProblem]:
        """Return the steps of a setting, shared by all environments of the process.

        Raises:
            MemPlaceError: naming what cannot be resolved.
        """
        return drawn_steps(setting, self.order)

    def first_of(self, drawn: Drawn[StepsProblem]) -> Ints:
        """Return the state int64[size] in which an episode of that program begins."""
        return drawn.problem.tables.first_state

    def outcome(
        self, states: Ints, gains: Ints, played: Ints, wanted: Ints
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[Any]]]:
        """Return rewards float64[B] and infos, see `StepsEnv.outcome`."""
        info = super().outcome(states, gains, played, wanted)[1]
        ended = self.problem.done(states) & (played >= 0)
        self._last_s = float(info["latency_s"][0])
        backing_ps = np.array([self.problem.tables.all_backing_ps])
        saved = saved_fractions(backing_ps, states[:, ESTIMATE], gains, info["latency_s"], ended, self.dense)
        return self._scale * saved, info

    def reward_change(self, factor: float) -> float:
        """Return by how much the last reward would differ if the finished plan had taken `factor` times as long."""
        return self._scale * (1 - factor) * self._last_s / (self.problem.tables.all_backing_ps * PS)

    def _turn_to(self, drawn: Drawn[StepsProblem]) -> None:
        self.problem, self.task, self._scale = drawn.problem, drawn.problem.task, drawn.scale(self.unit)
        self._states = self.problem.new_states(1)


def saved_fractions(
    backing_ps: Ints,
    estimate_ps: Ints,
    gains: Ints,
    latency_s: NDArray[np.float64],
    ended: NDArray[np.bool_],
    dense: bool,
) -> NDArray[np.float64]:
    """Return float64[B], rewards of steps as fractions of the latency with everything in the backing memory.

    Args:
        backing_ps: int64[B], that latency.
        estimate_ps: int64[B], estimated latencies after the steps.
        gains: int64[B], by how much the steps have lowered them.
        latency_s: float64[B], latencies of the plans where episodes ended.
        ended: bool[B], where they did in this step.
        dense: whether each step pays what it gained, and the last one the rest.
    """
    before = 1 - (estimate_ps + gains) / backing_ps if dense else 0.0  # all that earlier steps have paid
    each = gains / backing_ps if dense else np.zeros(len(gains))
    return np.where(ended, 1 - latency_s / (backing_ps * PS) - before, each)

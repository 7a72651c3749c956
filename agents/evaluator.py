"""What every search over one-shot maps shares: counting, timing, remembering the best, telling the callback."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import memplace_env  # noqa: F401  (registers the environments)
from agents.base import Callback, Outcome, Progress, Solution
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.errors import AgentError
from memplace_env.plan import MemoryPlan, require_valid
from memplace_env.simulator import Report


class Evaluated(NamedTuple):
    """Rewards and latencies of evaluated maps, float64[B] each, and whether the compiler left them as they are."""

    reward: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    valid: NDArray[np.bool_]


class Evaluator:
    """Evaluates maps within a budget.

    Every plan that the compiler makes of a map counts, whether it had to move something or not: it is what would
    run. The best one is kept.

    Attributes:
        env: the one-shot environment, without wrappers.
        evaluations: maps evaluated so far.
    """

    def __init__(
        self,
        env: str | gym.Env[Any, Any],
        *,
        budget: int,
        callback: Callback | None = None,
        time_limit: float | None = None,
    ) -> None:
        if budget < 1:
            raise AgentError(f"A budget of {budget} evaluations leaves nothing to do; pass at least 1.")
        if time_limit is not None and not time_limit > 0:
            raise AgentError(f"A time limit of {time_limit} s leaves nothing to do; pass more than 0.")
        self.env = one_shot_env(env)
        self.evaluations = 0
        self._budget = budget
        self._callback = callback
        self._time_limit = time_limit
        self._begin = time.perf_counter()
        self._history: list[Progress] = []
        self._best_map: NDArray[np.integer] | None = None
        self._best_plan: MemoryPlan | None = None
        self._best_latency = float("inf")

    @property
    def remaining(self) -> int:
        """Maps that may still be evaluated; 0 once the time is up."""
        if self._time_limit is not None and self.seconds >= self._time_limit:
            return 0
        return self._budget - self.evaluations

    @property
    def seconds(self) -> float:
        """Wall time since the search began."""
        return time.perf_counter() - self._begin

    @property
    def seconds_left(self) -> float | None:
        """Wall time that remains, or None without a limit."""
        return None if self._time_limit is None else max(self._time_limit - self.seconds, 0.0)

    def __call__(self, maps: NDArray[np.integer]) -> Evaluated:
        """Evaluate maps int[B, 2T], the first `remaining` of them."""
        maps = maps[: self.remaining]
        reward, scores = self.env.score(maps)
        if len(maps):
            self.evaluations += len(maps)
            best = int(scores.latency_s.argmin())
            if scores.latency_s[best] < self._best_latency:
                self._best_map, self._best_plan = maps[best].copy(), None
                self._remember(scores.latency_s[best].item())
            self._tell()
        return Evaluated(reward, scores.latency_s, scores.reassigned == 0)

    def offer(self, plan: MemoryPlan) -> Report:
        """Count and time a plan that no map describes, and keep it if it is the best.

        Raises:
            PlanError: if the plan is not valid.
        """
        require_valid(self.env.program, self.env.accelerator, plan)
        report = self.env.simulator.run(self.env.program, self.env.accelerator, plan)
        self.evaluations += 1
        if report.latency_s < self._best_latency:
            self._best_map, self._best_plan = None, plan
            self._remember(report.latency_s)
        self._tell()
        return report

    def solution(self, agent: str, seed: int, outcome: Outcome = "feasible", bound_s: float | None = None) -> Solution:
        """The best plan so far, validated, with everything that is known of it."""
        env, plan, report = self.env, self._best_plan, None
        if self._best_map is not None:
            plan = env.problem.compile(self._best_map).plan
        if plan is not None:
            plan = env.task.signed(plan)
            require_valid(env.program, env.accelerator, plan)
            report = env.simulator.run(env.program, env.accelerator, plan)
        return Solution(
            agent=agent,
            outcome=outcome if plan is not None or outcome == "infeasible" else "unknown",
            plan=plan,
            report=report,
            native_latency_s=env.problem.native_report.latency_s,
            bound_s=bound_s,
            history=tuple(self._history),
            evaluations=self.evaluations,
            seconds=self.seconds,
            seed=seed,
        )

    def _remember(self, latency_s: float) -> None:
        self._best_latency = latency_s
        self._history.append(Progress(self.evaluations, self.seconds, latency_s))

    def _tell(self) -> None:
        if self._callback is not None:
            self._callback(Progress(self.evaluations, self.seconds, self._best_latency))


def one_shot_env(env: str | gym.Env[Any, Any]) -> OneShotEnv:
    """The bare one-shot environment behind an id or a made environment.

    Raises:
        AgentError: if it is another kind of environment.
    """
    made = gym.make(env) if isinstance(env, str) else env
    if not isinstance(made.unwrapped, OneShotEnv):
        raise AgentError(f"{made} is no one-shot environment; this agent plays MemPlace-...-v0.")
    return made.unwrapped

"""What every search shares: counting, timing, remembering the best, telling the callback."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import memplace_env  # noqa: F401  (registers the environments)
from agents.solution import Callback, Progress, Solution, Verdict
from memplace_env.compiler import all_backing_report
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.errors import AgentError
from memplace_env.plan import MemoryPlan
from memplace_env.registration import Formulation
from memplace_env.simulator import Report, judge_plan
from memplace_env.workload.program import Ints


class Evaluated(NamedTuple):
    """What evaluated maps earned.

    Attributes:
        reward: float64[B].
        repaired_reward: float64[B], what the map that the compiler made of each would have earned.
        latency_s: float64[B].
        reassigned: float64[B], EGRL's epsilon, 0 where the compiler left the map as it was.
        level: int8[B, K], the level that the compiler gave each tensor.
    """

    reward: NDArray[np.float64]
    repaired_reward: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    reassigned: NDArray[np.float64]
    level: NDArray[np.int8]


class Evaluator(ABC):
    """Counts and times the plans of one search, remembers the best and tells the callback.

    Args:
        env: an id or a made environment.
        budget: plans to evaluate at most.
        callback: see `Agent.solve`.
        time_limit: seconds to spend at most, or None.

    Attributes:
        env: the environment, without wrappers.
        evaluations: plans evaluated so far.
        budget: plans to evaluate at most.
    """

    kind: ClassVar[type[OneShotEnv | MallocGameEnv]]
    refusal: ClassVar[str]
    """What is said of other environments."""

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
        made = gym.make(env) if isinstance(env, str) else env
        if not isinstance(made.unwrapped, self.kind):
            raise AgentError(f"{made} is no {self.refusal}")
        self.env: Any = made.unwrapped
        self._callbacks = [callback] if callback else []
        self._whole: Evaluator | None = None
        self._start(budget, time_limit)

    def _start(self, budget: int, time_limit: float | None) -> None:
        self.evaluations = 0
        self.budget = budget
        self._time_limit = time_limit
        self._begin = time.perf_counter()
        self._history: list[Progress] = []
        self._best_plan: MemoryPlan | None = None
        self._best_latency = float("inf")

    @property
    @abstractmethod
    def baseline_s(self) -> float:
        """Latency of the baseline of every speed-up."""

    @property
    def remaining(self) -> int:
        """Plans that may still be evaluated, in a part no more than in the whole; 0 once the time is up."""
        if self._time_limit is not None and self.seconds >= self._time_limit:
            return 0
        left = max(self.budget - self.evaluations, 0)
        return left if self._whole is None else min(left, self._whole.remaining)

    @property
    def seconds(self) -> float:
        """Wall time since the search began."""
        return time.perf_counter() - self._begin

    @property
    def seconds_left(self) -> float | None:
        """Wall time that remains, or None without a limit."""
        return None if self._time_limit is None else max(self._time_limit - self.seconds, 0.0)

    @property
    def best_latency_s(self) -> float:
        """Latency of the best plan so far; infinite before there is one."""
        return self._best_latency

    @property
    def best_speedup(self) -> float:
        """latency(baseline) / latency(best plan so far); 0 before there is one."""
        return self.baseline_s / self._best_latency

    def part(self, share: float, seconds: float | None = None) -> Self:
        """An evaluator with a share of what is left of budget and time; what it evaluates counts here at once.

        With `seconds` it has no more than that.
        """
        part, left = copy(self), self.seconds_left
        part._callbacks, part._whole = [], self
        limits = [limit for limit in (seconds, None if left is None else share * left) if limit is not None]
        part._start(max(int(share * self.remaining), 1), min(limits, default=None))
        return part

    def listen(self, callback: Callback) -> None:
        """Tell somebody else, before all others, after each round of evaluations."""
        self._callbacks.insert(0, callback)

    def spend(self, evaluations: int) -> None:
        """Count plans that were evaluated without this evaluator and are not to be remembered."""
        self.evaluations += evaluations
        if self._whole is not None:
            self._whole.spend(evaluations)

    def offer(self, plan: MemoryPlan) -> Report:
        """Count and time a plan, and keep it if it is the best.

        Raises:
            PlanError: if the plan is not valid.
        """
        report = judge_plan(self.env.task, plan)
        self._account(1, report.latency_s, lambda: plan)
        return report

    def solution(self, agent: str, seed: int, verdict: Verdict = Verdict()) -> Solution:  # noqa: B008
        """The best plan so far, validated, with everything that is known of it."""
        plan, outcome = self._best_plan, verdict.outcome
        return Solution(
            agent=agent,
            outcome=outcome if plan is not None or outcome == "infeasible" else "unknown",
            plan=plan,
            report=None if plan is None else judge_plan(self.env.task, plan),
            native_latency_s=self.baseline_s,
            bound_s=verdict.bound_s,
            history=tuple(self._history),
            evaluations=self.evaluations,
            seconds=self.seconds,
            seed=seed,
            stints=verdict.stints,
        )

    def state_dict(self) -> dict[str, Any]:
        """What has been found and spent, as plain values."""
        return {
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "history": [list(progress) for progress in self._history],
            "plan": self._best_plan.to_json() if self._best_plan else None,
            "latency_s": self._best_latency,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; the clock goes on as well."""
        self.evaluations = state["evaluations"]
        self._begin = time.perf_counter() - state["seconds"]
        self._history = [Progress(*progress) for progress in state["history"]]
        self._best_plan = MemoryPlan.from_json(state["plan"]) if state["plan"] else None
        self._best_latency = state["latency_s"]

    def _account(self, evaluations: int, latency_s: float, plan: Callable[[], MemoryPlan]) -> None:
        """Count plans, the fastest of which takes so long, keep that one if it is the best, and tell everybody."""
        self.evaluations += evaluations
        if latency_s < self._best_latency:
            self._best_plan, self._best_latency = plan(), latency_s
            self._history.append(Progress(self.evaluations, self.seconds, latency_s))
        if self._whole is not None:
            self._whole._account(evaluations, latency_s, plan)
        for callback in self._callbacks:
            callback(Progress(self.evaluations, self.seconds, self._best_latency))


class MapEvaluator(Evaluator):
    """Evaluates one-shot maps within a budget.

    Every plan that the compiler makes of a map counts, whether it had to move something or not: it is what would
    run. The best one is kept.
    """

    env: OneShotEnv
    kind = OneShotEnv
    refusal = "one-shot environment; this agent plays MemPlace-...-v0."

    @property
    def baseline_s(self) -> float:
        """Latency of native's plan."""
        return self.env.problem.native_report.latency_s

    def __call__(self, maps: NDArray[np.integer]) -> Evaluated:
        """Evaluate maps int[B, 2T], the first `remaining` of them."""
        maps = maps[: self.remaining]
        reward, scores = self.env.score(maps)
        if len(maps):
            best = int(scores.latency_s.argmin())
            self._account(len(maps), scores.latency_s[best].item(), lambda: self.env.problem.compile(maps[best]).plan)
        repaired = self.env.reward_of(scores._replace(reassigned=np.zeros(len(maps))))
        return Evaluated(reward, repaired, scores.latency_s, scores.reassigned, scores.level)


class GameEvaluator(Evaluator):
    """Counts finished games, and keeps the best."""

    env: MallocGameEnv
    kind = MallocGameEnv
    refusal = "environment of mallocGame; this agent plays MallocGame-...-v0."

    @property
    def baseline_s(self) -> float:
        """Latency with everything in the backing memory."""
        return all_backing_report(self.env.task).latency_s

    def offer_states(self, states: Ints, games: int | None = None) -> NDArray[np.float64]:
        """Count finished games and keep the plan of the best if it beats all before.

        Args:
            states: int64[B, size], at least one.
            games: how many games were played to find these; B if None.

        Returns:
            Their latencies in seconds, float64[B].
        """
        problem = self.env.problem
        latency = problem.judged_s(states)
        best = int(latency.argmin())
        count = len(states) if games is None else games
        self._account(count, latency[best].item(), lambda: problem.plan(states[best]))
        return latency

    def solution(self, agent: str, seed: int, verdict: Verdict = Verdict()) -> Solution:  # noqa: B008
        """As above; the bound is by default the simulator's, which holds for any plan whatever."""
        if verdict.bound_s is None:
            verdict = verdict._replace(bound_s=all_backing_report(self.env.task).lower_bound_s)
        return super().solution(agent, seed, verdict)


def evaluator_for(
    env: str | gym.Env[Any, Any],
    formulations: Sequence[Formulation],
    *,
    budget: int,
    callback: Callback | None = None,
    time_limit: float | None = None,
) -> MapEvaluator | GameEvaluator:
    """The evaluator of an environment for an agent that plays these formulations.

    Raises:
        AgentError: if the environment is of another kind, or the budget or the time leaves nothing to do.
    """
    made = gym.make(env) if isinstance(env, str) else env
    game = Formulation.GAME in formulations
    if Formulation.ONE_SHOT in formulations and game:
        game = isinstance(made.unwrapped, MallocGameEnv)
    kind = GameEvaluator if game else MapEvaluator
    return kind(made, budget=budget, callback=callback, time_limit=time_limit)

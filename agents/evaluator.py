"""What a search evaluates with: maps of one-shot environments, or finished games."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.accounting import Evaluator
from agents.solution import Callback
from memplace_env.compiler import all_backing_report
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.plan import MemoryPlan
from memplace_env.registration import Formulation
from memplace_env.workload.program import Ints

__all__ = ["Evaluated", "Evaluator", "GameEvaluator", "MapEvaluator", "evaluator_for"]


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
        if self._race is not None and len(maps):
            measured = self._measured(scores.latency_s, lambda place: self._made_by(maps[place].copy()))
            scores = scores.slowed(measured / scores.latency_s)
            reward = self.env.reward_of(scores)
        if len(maps):
            best = int(scores.latency_s.argmin())
            self._account(len(maps), scores.latency_s[best].item(), lambda: self.env.problem.compile(maps[best]).plan)
        repaired = self.env.reward_of(scores._replace(reassigned=np.zeros(len(maps))))
        return Evaluated(reward, repaired, scores.latency_s, scores.reassigned, scores.level)

    def _made_by(self, one_map: NDArray[np.integer]) -> tuple[bytes, Callable[[], MemoryPlan]]:
        return one_map.tobytes(), lambda: self.env.problem.compile(one_map).plan


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
            states: int64[B, size]; B may be 0, as time may run out between two looks at `remaining`.
            games: how many games were played to find these; B if None.

        Returns:
            Their latencies in seconds, float64[B].
        """
        problem = self.env.problem
        if not len(states):
            return np.empty(0)
        latency = problem.judged_s(states)
        latency = self._measured(latency, lambda place: self._made_by(states[place].copy()))
        best = int(latency.argmin())
        count = len(states) if games is None else games
        self._account(count, latency[best].item(), lambda: problem.plan(states[best]))
        return latency

    def _made_by(self, state: Ints) -> tuple[bytes, Callable[[], MemoryPlan]]:
        return state.tobytes(), lambda: self.env.problem.plan(state)


def evaluator_for(
    env: str | gym.Env[Any, Any],
    formulations: Sequence[Formulation],
    *,
    budget: int,
    callback: Callback | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    workers: int = 1,
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
    return kind(made, budget=budget, callback=callback, time_limit=time_limit, seed=seed, workers=workers)

"""Evaluators of one-shot assignments and of finished episodes, with which agents search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from memplace_agents.search.accounting import Evaluator, made
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.one_shot.reward import egrl_reward, speedup_reward
from memplace_env.envs.placement_env import formulation_of
from memplace_env.envs.registration import Formulation
from memplace_env.envs.steps import StepsEnv
from memplace_env.placement.compiler import all_backing_report
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.program.program import Ints

__all__ = [
    "EpisodeEvaluator",
    "Evaluated",
    "Evaluator",
    "GameEvaluator",
    "OneShotEvaluator",
    "StepsEvaluator",
    "evaluator_for",
]


class Evaluated(NamedTuple):
    """Results of evaluated assignments.

    Attributes:
        reward: float64[B], the environment's; where that is the plain speed-up, the reward "egrl" instead, by which
            agents tell assignments that fit from those that the compiler had to change.
        repaired_reward: float64[B], reward of the assignment that the compiler made of each.
        latency_s: float64[B].
        reassigned: float64[B], EGRL's epsilon, 0 if the compiler kept the assignment.
        level: int8[B, K], level that the compiler gave each tensor.
    """

    reward: NDArray[np.float64]
    repaired_reward: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    reassigned: NDArray[np.float64]
    level: NDArray[np.int8]


class OneShotEvaluator(Evaluator):
    """Evaluates one-shot assignments within a budget, and keeps the best plan.

    Every plan that the compiler makes of an assignment counts, whether it had to reassign tensors or not.
    """

    env: OneShotEnv
    formulation = Formulation.ONE_SHOT
    refusal = "a one-shot environment; this agent plays MemPlace-...-v0."

    @property
    def baseline_s(self) -> float:
        """Latency of native's plan."""
        return self.env.problem.native_report.latency_s

    def __call__(self, assignments: NDArray[np.integer]) -> Evaluated:
        """Evaluate the first `remaining` of these assignments, int[B, 2T]."""
        assignments = assignments[: self.remaining]
        scores = self.env.score(assignments)[1]
        if self._race is not None and len(assignments):
            measured = self._measured(scores.latency_s, assignments, self._compiled)
            scores = scores.slowed(measured / scores.latency_s)
        if len(assignments):
            best = int(scores.latency_s.argmin())
            self._account(len(assignments), scores.latency_s[best].item(), lambda: self._compiled(assignments[best]))
        reward = egrl_reward(scores) if self.env.reward is speedup_reward else self.env.reward_of(scores)
        repaired = self.env.reward_of(scores._replace(reassigned=np.zeros(len(assignments))))
        return Evaluated(reward, repaired, scores.latency_s, scores.reassigned, scores.level)

    def _compiled(self, assignment: NDArray[np.integer]) -> MemoryPlan:
        return self.env.problem.compile(assignment).plan


class EpisodeEvaluator(Evaluator):
    """Counts episodes of several decisions as they end, and keeps the plan of the best."""

    env: MallocGameEnv | StepsEnv

    def offer_states(self, states: Ints, games: int | None = None) -> NDArray[np.float64]:
        """Count finished episodes as `offer_ended` does, whose arguments these are, and return their latencies."""
        exact_s = self.env.problem.final_latency_s(states) if len(states) else np.empty(0)
        return self.offer_ended(states, exact_s, games)

    def offer_ended(
        self, states: Ints, exact_s: NDArray[np.float64], episodes: int | None = None
    ) -> NDArray[np.float64]:
        """Count episodes and keep the plan of the best if it is faster than all before.

        Args:
            states: int64[B, size], their last states; B may be 0, as time may run out between two checks of
                `remaining`.
            exact_s: float64[B], their latencies in seconds, by the black box if there is one.
            episodes: number of episodes played to find these; B if None.

        Returns:
            The latencies in seconds as measured, float64[B].
        """
        problem = self.env.problem
        if not len(states):
            return np.empty(0)
        latency = self._measured(exact_s, states, problem.plan)
        best = int(latency.argmin())
        count = len(states) if episodes is None else episodes
        self._account(count, latency[best].item(), lambda: problem.plan(states[best]))
        return latency


class GameEvaluator(EpisodeEvaluator):
    """Counts finished games, and keeps the plan of the best."""

    env: MallocGameEnv
    formulation = Formulation.GAME
    refusal = "an environment of mallocGame; this agent plays MallocGame-...-v0."

    @property
    def baseline_s(self) -> float:
        """Latency with everything in the backing memory."""
        return all_backing_report(self.env.task).latency_s


class StepsEvaluator(EpisodeEvaluator):
    """Counts finished episodes in steps, and keeps the plan of the best."""

    env: StepsEnv
    formulation = Formulation.STEPS
    refusal = "an environment in steps; this agent plays MemPlaceSteps-...-v0."

    @property
    def baseline_s(self) -> float:
        """Latency of native's plan."""
        return self.env.problem.one_shot.native_report.latency_s


_EVALUATORS: Mapping[str, type[OneShotEvaluator | EpisodeEvaluator]] = {
    Formulation.GAME: GameEvaluator,
    Formulation.STEPS: StepsEvaluator,
}


def evaluator_for(
    env: str | gym.Env[Any, Any], formulations: Sequence[Formulation], **options: Any
) -> OneShotEvaluator | EpisodeEvaluator:
    """Return the evaluator of an environment for an agent that plays these formulations; see `Evaluator` for options.

    Raises:
        AgentError: if the environment has another formulation, or the budget or the time is out of range.
        EnvError: if the agent plays several formulations and the environment does not declare its own.
    """
    env = made(env)
    formulation = formulations[0] if len(formulations) == 1 else formulation_of(env)
    played = formulation if formulation in formulations else Formulation.ONE_SHOT  # which then refuses it
    kind: Any = _EVALUATORS.get(played, OneShotEvaluator)  # a plain "game" is a key, too
    evaluator: OneShotEvaluator | EpisodeEvaluator = kind(env, **options)
    return evaluator

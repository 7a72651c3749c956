"""One training run in one-shot environments: its state, and one round."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.cheap_plans import first_assignments, offer_cheap_plans
from memplace_agents.evaluator import OneShotEvaluator
from memplace_agents.learning.factored_learner import EntryDecisions, FactoredLearner, FactoredSettings
from memplace_agents.learning.flat_policy import FlatPolicy
from memplace_agents.learning.saved_tensors import below, numbers
from memplace_agents.learning.training import TrainingRun
from memplace_agents.ppo.start import check_numbers, started
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.envs.one_shot.observation import FEATURES, node_features
from memplace_env.program.program import Ints

INPUTS = len(FEATURES) + 2
"""Features of a decision: those of its op, and whether it is about weights or results."""
KEPT = 32
"""Number of best assignments that are imitated; our choice."""


class FactoredRun(TrainingRun[FlatPolicy]):
    """Rounds of sampled assignments and learning in turn, until budgets or time are spent: one policy for all programs.

    Args:
        settings: settings of the learner.
        evaluators: evaluators of the programs, on chips with equally many levels.
        policy: the policy to start from, or None for a fresh one.
        seed: seed of all randomness.

    Raises:
        AgentError: if the given policy computes no numbers.
    """

    def __init__(
        self,
        settings: FactoredSettings,
        evaluators: Sequence[OneShotEvaluator],
        policy: FlatPolicy | None,
        seed: int,
    ) -> None:
        super().__init__(seed)
        self._settings = settings.for_budget(min(evaluator.budget for evaluator in evaluators))
        self._programs = [_Program(evaluator) for evaluator in evaluators]
        shape = (INPUTS, settings.width, evaluators[0].env.accelerator.num_levels)
        self._fresh, network = policy is None, started(shape, policy, seed)
        self._learner = FactoredLearner(self._settings, network, [decisions_of(e.env.problem) for e in evaluators])
        for index, evaluator in enumerate(evaluators):
            check_numbers(self._learner.log_policy(index), policy, evaluator.env.program.name)

    @property
    def done(self) -> bool:
        """True if a budget is spent, or there is nothing to decide."""
        return any(some.evaluator.remaining <= 0 or not len(some.movable) for some in self._programs)

    @property
    def policy(self) -> FlatPolicy:
        """The policy learned so far."""
        return self._learner.policy

    def begin(self) -> None:
        """Evaluate the plans of the rules, and their levels as assignments; a fresh policy starts near the best."""
        for index, program in enumerate(self._programs):
            offer_cheap_plans(program.evaluator)
            first = first_assignments(program.evaluator.env.problem)[:, program.movable]
            program.evaluate(first)
            if self._fresh and len(program.best):
                self._learner.start_from(program.best[0], index)

    def step(self) -> None:
        """Sample a round of assignments for each program and learn from all."""
        began, sampled = time.process_time(), []
        left = min(program.evaluator.fraction_left for program in self._programs)
        for index, program in enumerate(self._programs):
            sampled.append(program.evaluate(self._learner.sample(self._settings.samples, self._rng, index)))
        if all(len(latencies) for _, latencies in sampled):
            self.scalars = self._learner.learn(sampled, [program.best for program in self._programs], left)
        decided = sum(levels.size for levels, _ in sampled)
        self.scalars["steps_per_second"] = decided / max(time.process_time() - began, 1e-9)
        for index, (program, (_, latencies)) in enumerate(zip(self._programs, sampled, strict=True)):
            if len(latencies):
                self.scalars[f"speedup/mean/{index}"] = program.evaluator.baseline_s / float(latencies.mean())
        self.round += 1

    def state_dict(self) -> dict[str, Any]:
        """Return all that decides how the run goes on, as tensors and plain values."""
        return super().state_dict() | {
            "learner": self._learner.state_dict(),
            "programs": [program.state_dict() for program in self._programs],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        super().load_state_dict(state)
        self._learner.load_state_dict(state["learner"])
        for program, saved in zip(self._programs, state["programs"], strict=True):
            program.load_state_dict(saved)


class _Program:
    """The search on one program.

    Attributes:
        evaluator: counts the assignments.
        movable: int64[M], the decisions with a choice.
        best: int64[K, M], the best levels so far, the fastest first.
    """

    def __init__(self, evaluator: OneShotEvaluator) -> None:
        self.evaluator, self.movable = evaluator, evaluator.env.problem.movable
        self.best: Ints = np.zeros((0, len(self.movable)), dtype=np.int64)
        self._latencies = np.zeros(0)

    def evaluate(self, levels: Ints) -> tuple[Ints, NDArray[np.float64]]:
        """Evaluate levels int64[N, M] while the budget lasts; return those evaluated, and their latencies."""
        problem = self.evaluator.env.problem
        assignments = np.full((len(levels), problem.num_decisions), problem.task.backing)
        assignments[:, self.movable] = levels
        latencies = self.evaluator(assignments).latency_s
        levels = levels[: len(latencies)]
        self._keep(levels, latencies)
        return levels, latencies

    def _keep(self, levels: Ints, latencies: NDArray[np.float64]) -> None:
        fastest = np.argsort(latencies, kind="stable")[:KEPT]
        levels = np.concatenate([self.best, levels[fastest]])
        latencies = np.concatenate([self._latencies, latencies[fastest]])
        _, first = np.unique(levels, axis=0, return_index=True)
        first = first[np.argsort(latencies[first], kind="stable")][:KEPT]
        self.best, self._latencies = levels[first], latencies[first]

    def state_dict(self) -> dict[str, Any]:
        """Return the best assignments and the evaluator's state."""
        kept = {"best": torch.from_numpy(self.best), "latencies": torch.from_numpy(self._latencies)}
        return kept | {"evaluator": self.evaluator.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        levels = self.evaluator.env.accelerator.num_levels
        self.best = below(numbers(state["best"], np.int64, (None, len(self.movable))), levels)
        self._latencies = numbers(state["latencies"], np.float64, (len(self.best),))
        self.evaluator.load_state_dict(state["evaluator"])


def decisions_of(problem: OneShotProblem) -> EntryDecisions:
    """Return the decisions of a problem that have a choice."""
    nodes = node_features(problem.program)
    kind = np.eye(2, dtype=np.float32)
    features = np.concatenate([np.repeat(nodes, 2, axis=0), np.tile(kind, (len(nodes), 1))], axis=1)
    movable = problem.movable
    return EntryDecisions(torch.from_numpy(features[movable]), torch.from_numpy(problem.mask[movable]))

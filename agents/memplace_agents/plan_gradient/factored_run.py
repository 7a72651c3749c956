"""One training run that takes all decisions of a program at once: its state, and one round."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.learning.factored_learner import EntryDecisions, FactoredLearner, FactoredSettings
from memplace_agents.learning.flat_policy import FlatPolicy, check_numbers, started
from memplace_agents.learning.saved_tensors import below, numbers
from memplace_agents.learning.training import TrainingRun
from memplace_agents.search.factored_programs import FactoredProgram


class FactoredRun(TrainingRun[FlatPolicy]):
    """Rounds of sampled choices and learning in turn, until budgets or time are spent: one policy for all programs.

    Args:
        settings: settings of the learner.
        programs: the programs, of one formulation, and assignments of chips with equally many levels.
        decisions: what the policy sees of each.
        policy: the policy to start from, or None for a fresh one.
        seed: seed of all randomness.

    Raises:
        AgentError: if the given policy computes no numbers.
    """

    def __init__(
        self,
        settings: FactoredSettings,
        programs: Sequence[FactoredProgram],
        decisions: Sequence[EntryDecisions],
        policy: FlatPolicy | None,
        seed: int,
    ) -> None:
        super().__init__(seed)
        self._settings, self._programs = settings, programs
        shape = decisions[0].inputs, settings.width, decisions[0].actions
        self._fresh, network = policy is None, started(shape, policy, seed)
        self._learner = FactoredLearner(settings, network, decisions)
        for index, program in enumerate(programs):
            check_numbers(self._learner.log_policy(index), policy, program.evaluator.env.program.name)

    @property
    def done(self) -> bool:
        """True if a budget is spent, or there is nothing to decide."""
        return any(program.done for program in self._programs)

    @property
    def policy(self) -> FlatPolicy:
        """The policy learned so far."""
        return self._learner.policy

    @torch.inference_mode()
    def probabilities(self, program: int) -> NDArray[np.float32]:
        """Return float32[M, L], the probabilities of the levels of a program's decisions."""
        return np.ascontiguousarray(self._learner.log_policy(program).exp().numpy())

    def begin(self) -> None:
        """Evaluate the plans of the rules, and choices that follow them; a fresh policy starts near the best."""
        for program in self._programs:
            program.begin()
        self._set_pace()
        for index, program in enumerate(self._programs):
            if self._fresh and len(program.best):
                self._learner.start_from(program.best[0], index)

    def step(self) -> None:
        """Sample a round of choices for each program and learn from all."""
        began, sampled = time.process_time(), []
        self._set_pace()
        samples = self._learner.settings.samples
        left = min(program.evaluator.fraction_left for program in self._programs)
        for index, program in enumerate(self._programs):
            sampled.append(program.evaluate(self._learner.sample(samples, self._rng, index, left)))
        if all(len(latencies) for _, latencies in sampled):
            self.scalars = self._learner.learn(sampled, [program.best for program in self._programs], left)
        decided = sum(choices.size for choices, _ in sampled)
        self.scalars["steps_per_second"] = decided / max(time.process_time() - began, 1e-9)
        for index, (program, (_, latencies)) in enumerate(zip(self._programs, sampled, strict=True)):
            if len(latencies):
                self.scalars[f"speedup/mean/{index}"] = program.evaluator.baseline_s / float(latencies.mean())
        self.round += 1

    def _set_pace(self) -> None:
        """Let the learner's settings be those for as many plans as budgets and time allow."""
        planned = min(program.evaluator.planned for program in self._programs)
        self._learner.settings = self._settings.for_budget(planned)

    def state_dict(self) -> dict[str, Any]:
        """Return all that decides how the run goes on, as tensors and plain values."""
        return super().state_dict() | {
            "learner": self._learner.state_dict(),
            "programs": [_state_of(program) for program in self._programs],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        super().load_state_dict(state)
        self._learner.load_state_dict(state["learner"])
        for program, saved in zip(self._programs, state["programs"], strict=True):
            _load_state(program, saved)


def _state_of(program: FactoredProgram) -> dict[str, Any]:
    """Return the best choices of a program and its evaluator's state."""
    kept = {"best": torch.from_numpy(program.best), "latencies": torch.from_numpy(program.times_s)}
    return kept | {"evaluator": program.evaluator.state_dict()}


def _load_state(program: FactoredProgram, state: dict[str, Any]) -> None:
    """Return to a state that `_state_of` gave."""
    count, actions = program.decisions.legal.shape
    program.best = below(numbers(state["best"], np.int64, (None, count)), actions)
    program.times_s = numbers(state["latencies"], np.float64, (len(program.best),))
    program.evaluator.load_state_dict(state["evaluator"])

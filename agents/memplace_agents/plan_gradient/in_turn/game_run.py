"""One training run in mallocGame: its state, and one round."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from memplace_agents.learning.flat_policy import FlatPolicy, check_numbers, started
from memplace_agents.learning.training import TrainingRun
from memplace_agents.plan_gradient.in_turn.drawn_games import DrawnGames
from memplace_agents.plan_gradient.in_turn.game_episodes import GameEpisodes
from memplace_agents.plan_gradient.in_turn.on_policy import OnPolicyLearner
from memplace_agents.plan_gradient.in_turn.on_policy_settings import OnPolicySettings
from memplace_agents.search.evaluator import GameEvaluator


class GameRun(TrainingRun[FlatPolicy]):
    """Rounds of play and learning in turn, until budgets or time are spent: one policy for all programs.

    Args:
        settings: settings of the learner.
        evaluators: evaluators of the programs.
        policy: the policy to start from, or None for a fresh one.
        seed: seed of all randomness.

    Raises:
        AgentError: if the given policy computes no numbers.
    """

    def __init__(
        self, settings: OnPolicySettings, evaluators: Sequence[GameEvaluator], policy: FlatPolicy | None, seed: int
    ) -> None:
        super().__init__(seed)
        self._evaluators = evaluators
        self._episodes = [
            GameEpisodes(evaluator, settings.envs)
            if evaluator.env.programs is None
            else DrawnGames(evaluator, settings.envs, seed)
            for evaluator in evaluators
        ]
        network = started((GameEpisodes.inputs, settings.width, GameEpisodes.actions), policy, seed)
        self._learner = OnPolicyLearner(settings, network, [some.entries for some in self._episodes], seed)
        for index, (episodes, evaluator) in enumerate(zip(self._episodes, evaluators, strict=True)):
            check_numbers(self._learner.log_policy(episodes.turn(), index), policy, evaluator.env.program.name)

    @property
    def done(self) -> bool:
        """True if a budget is spent, or there is nothing to decide."""
        return any(
            evaluator.remaining <= 0 or not episodes.length
            for evaluator, episodes in zip(self._evaluators, self._episodes, strict=True)
        )

    @property
    def policy(self) -> FlatPolicy:
        """The policy learned so far."""
        return self._learner.policy

    def begin(self) -> None:
        """Evaluate the plans of the rules, and imitate the best game among them where random play is far from it."""
        for episodes in self._episodes:
            episodes.begin()
        until = self._learner.settings.warm_up
        if until:
            self._learner.imitate([episodes.demonstration() for episodes in self._episodes], until)

    def step(self) -> None:
        """Play a round of each program and learn from all."""
        began, learner = time.process_time(), self._learner
        rollouts = [learner.play(episodes, self._rng, program) for program, episodes in enumerate(self._episodes)]
        left = min(evaluator.fraction_left for evaluator in self._evaluators)
        shown = [episodes.demonstration() for episodes in self._episodes] if learner.settings.imitation else []
        self.scalars = learner.learn(rollouts, self._rng, left, shown)
        steps = sum(rollout.action.size for rollout in rollouts)
        self.scalars["steps_per_second"] = steps / max(time.process_time() - began, 1e-9)
        for program, rollout in enumerate(rollouts):
            if rollout.ended.any():
                played = rollout.reward.sum() / rollout.reward.size * self._episodes[program].length
                self.scalars[f"return/{program}"] = float(played)
        self.round += 1

    def state_dict(self) -> dict[str, Any]:
        """Return all that decides how the run goes on, as tensors and plain values."""
        return super().state_dict() | {
            "learner": self._learner.state_dict(),
            "episodes": [episodes.state_dict() for episodes in self._episodes],
            "evaluators": [evaluator.state_dict() for evaluator in self._evaluators],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        super().load_state_dict(state)
        self._learner.load_state_dict(state["learner"])
        for part, saved in zip(self._episodes, state["episodes"], strict=True):
            part.load_state_dict(saved)
        for evaluator, saved in zip(self._evaluators, state["evaluators"], strict=True):
            evaluator.load_state_dict(saved)

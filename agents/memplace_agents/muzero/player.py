"""One program that MuZero plays: its games side by side, the best one, and its annealing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from memplace_agents.muzero.batched_search import search
from memplace_agents.muzero.free_game import FreeGame, GamesAside
from memplace_agents.muzero.guided_annealing import GuidedAnnealing, checked_preferences
from memplace_agents.muzero.gumbel import Gumbel
from memplace_agents.muzero.models import LearnedModel, RulesModel, predicted
from memplace_agents.muzero.muzero_config import MuZeroConfig
from memplace_agents.muzero.muzero_rollout import (
    MuZeroRollout,
    RolloutTargets,
    followed,
    improved_policies,
    mixed_advantages,
    search_advantages,
    spread,
)
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.muzero.search_types import Bools, Floats32
from memplace_agents.muzero.trainer import UNIT_RATE, BestGame
from memplace_agents.saved_values import number, optional, whole
from memplace_agents.search.annealing_kernels import nearest_legal
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.search.game_local_search import GAMES_PER_ROUND
from memplace_agents.search.preferences import Preferences, finished, first_preferences
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game.state import ACTIONS, ESTIMATE, MASK, USE
from memplace_env.program.program import Ints

IMPROVEMENT = 1.0
"""Logits rise by this for an advantage of one standard deviation (Muesli, arXiv 2104.06159: 1, and cut off at 1)."""
OUTCOME = 0.5
"""Weight of what followed in the game in the advantage of the action that was played; the rest is the search's."""
TRACE = 0.95
"""Lambda of the returns that values learn and `OUTCOME` is about (MuZero: ten steps for Atari)."""
DEVIATIONS = 0.5
"""Fraction of the games that begin at a random decision of the best game so far; our choice."""
SMALLEST_SPREAD = 1e-6
"""Least standard deviation of advantages, points; our choice."""


class MuZeroPlayer:
    """Plays a program with a network that it is given.

    Args:
        config: every constant.
        evaluator: evaluator of the program's game.

    Attributes:
        evaluator: as passed in.
        best: int8[U], actions of the best game so far.
    """

    def __init__(self, config: MuZeroConfig, evaluator: GameEvaluator) -> None:
        self._config, self.evaluator = config, evaluator
        self.game = FreeGame(evaluator.env.problem)
        problem = self.game.problem
        self.best: Preferences = np.zeros(problem.num_decisions, np.int8)
        self._best_ps: float = np.inf
        self._has_choice = not problem.done(self.game.first_state[None])[0]
        self._games = GamesAside(self.game, config.games)
        self._annealing = GuidedAnnealing(problem)
        self._spread: float | None = None
        self._demonstration: BestGame | None = None
        self._ended: list[float] = []

    @property
    def done(self) -> bool:
        """True if budget or time is spent, or there is nothing to decide."""
        return self.evaluator.remaining <= 0 or (not self._has_choice and self.evaluator.evaluations > 0)

    def computes(self, network: MuZeroNetwork) -> bool:
        """Return whether a network's outputs for the first decision are finite."""
        with torch.inference_mode():
            latents = network.representation(torch.from_numpy(self._games.observations[:1]))
            prediction = network.prediction(latents)
            outputs = [prediction.policy_logits, network.points(prediction.values)]
            outputs += network.dynamics(latents, torch.zeros(1, dtype=torch.int64))
        return all(bool(torch.isfinite(output).all()) for output in outputs)

    def begin(self) -> None:
        """Play the games of all rules."""
        offer_cheap_plans(self.evaluator)
        preferences = first_preferences(self.game.problem, self.evaluator.incumbent)[: max(self.evaluator.remaining, 1)]
        states = finished(self.game.problem, preferences)
        if self.evaluator.remaining > 0:
            self.evaluator.offer_states(states)
        self._keep(preferences, states)

    def play(self, network: MuZeroNetwork, rng: np.random.Generator) -> MuZeroRollout | None:
        """Play a round of decisions with search; None if budget or time ended it."""
        config, games, self._ended = self._config, self._games, []
        shape = (config.decisions, config.games)
        rollout = MuZeroRollout(
            np.empty((*shape, games.observations.shape[1]), np.float32),
            np.empty(shape, np.int64),
            np.empty(shape, np.float32),
            np.empty(shape, np.bool_),
            np.empty((*shape, len(ACTIONS)), np.float32),
            np.empty((*shape, len(ACTIONS)), np.float32),
            np.empty((shape[0] + 1, shape[1]), np.float32),
        )
        rules = RulesModel(network, games, config.simulations) if config.model == "rules" else None
        # The search weighs values as the targets do.
        c_scale = IMPROVEMENT / (Gumbel.c_visit * (self._spread or 1.0))
        settings = Gumbel(c_scale=c_scale, normalise=False)
        for decision in range(config.decisions):
            if self.evaluator.remaining <= 0:
                return None
            model = rules or LearnedModel(network, games.observations, config.simulations)
            root, legal = model.root(), games.batch.legal()
            result = search(model, root, legal, num_simulations=config.simulations, rng=rng, settings=settings)
            log_priors = _log_policy(root.prior_logits, legal)
            rollout.observations[decision], rollout.log_priors[decision] = games.observations, log_priors
            rollout.values[decision], rollout.actions[decision] = root.values, result.actions
            rollout.advantages[decision] = search_advantages(log_priors, result.qvalues, result.visit_counts)
            rollout.rewards[decision], rollout.ends[decision] = games.play(result.actions)
            self._finish(np.flatnonzero(rollout.ends[decision]), rng)
        rollout.values[-1] = predicted(network, games.observations).values
        return rollout

    def _finish(self, ended: Ints, rng: np.random.Generator) -> None:
        """Count games that ended, and begin others in their places."""
        if not len(ended):
            return
        counted = ended[: self.evaluator.remaining]
        states = self._games.batch.stacked(counted)
        self._ended += self.game.points(states).tolist()
        self.evaluator.offer_states(states)
        self._keep(self._games.preferences[counted], states)
        for index in ended:
            deviates = rng.random() < DEVIATIONS
            use = int(rng.integers(self.game.problem.num_decisions)) if deviates else 0
            state = self.game.state_after(self.best, use)
            self._games.restart(index, self.best, 0 if self.game.problem.done(state[None])[0] else use)

    def _keep(self, preferences: Preferences, states: Ints) -> None:
        """Keep the best of these finished games if it is faster than all before."""
        if len(states):
            latency = states[:, ESTIMATE]
            first = int(latency.argmin())
            if latency[first] < self._best_ps:
                self._best_ps, self.best = float(latency[first]), preferences[first].copy()
                self._demonstration = None

    @property
    def demonstration(self) -> BestGame | None:
        """The best game so far; None if nothing is to be learned from it."""
        if self._demonstration is None and self._has_choice:
            self._demonstration = demonstration_of(self.game, self.best)
        return self._demonstration

    def anneal(self, network: MuZeroNetwork, rng: np.random.Generator) -> None:
        """Anneal the best game for as many games as the configuration says, with the policy's proposals."""
        annealing, left = self._annealing, self._config.annealing
        while (num_games := min(left, annealing.games_left(), GAMES_PER_ROUND, self.evaluator.remaining)) > 0:
            start = annealing.start_of(self.best)
            guide = self._policy_along(network, start)
            best = annealing.run(num_games, self._best_ps, guide, int(rng.integers(2**32)))[None]
            states = finished(self.game.problem, best)
            self.evaluator.offer_states(states, games=num_games)
            self._keep(best, states)
            left -= num_games

    def _policy_along(self, network: MuZeroNetwork, preferences: Preferences) -> Floats32:
        """Return float32[U, 3], the policy's probabilities at each decision of a game; 0 where there is no choice."""
        guide = np.zeros((self.game.problem.num_decisions, len(ACTIONS)), np.float32)
        along = demonstration_of(self.game, preferences)
        logits = predicted(network, along.observations).prior_logits
        guide[along.uses] = np.exp(_log_policy(logits, along.legal))
        return guide

    def targets(self, rollout: MuZeroRollout) -> RolloutTargets:
        """Return what a rollout teaches; its advantages count in their own running standard deviation."""
        exceeds = followed(rollout, TRACE)
        advantages = mixed_advantages(rollout, exceeds, OUTCOME)
        now = spread(rollout, advantages)
        before = now if self._spread is None else self._spread
        self._spread = max(before + UNIT_RATE * (now - before), SMALLEST_SPREAD)
        rises = IMPROVEMENT * advantages / self._spread
        return RolloutTargets(improved_policies(rollout.log_priors, rises), rollout.values[:-1] + exceeds)

    def scalars(self) -> dict[str, float]:
        """Return the figures of the last round, by TensorBoard tag."""
        means = {"points/mean": float(np.mean(self._ended))} if self._ended else {}
        points = self.game.points(finished(self.game.problem, self.best[None])).item()
        return means | {"points/best": points, "latency/best": self._best_ps * PS, "seconds": self.evaluator.seconds}

    def state_dict(self) -> dict[str, Any]:
        """Return all that the player remembers, as plain values."""
        return {
            "best": self.best.tolist(),
            "best_ps": None if np.isinf(self._best_ps) else self._best_ps,
            "games": self._games.preferences.tolist(),
            "decided": self._games.batch.heads[:, USE].tolist(),
            "spread": self._spread,
            "annealing": self._annealing.state_dict(),
            "evaluator": self.evaluator.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave; states of games are played again."""
        count = self.game.problem.num_decisions
        self.best, best_ps = checked_preferences(state["best"], count), optional(state["best_ps"], 0.0)
        self._best_ps = np.inf if best_ps is None else best_ps
        for index, (preferences, use) in enumerate(zip(state["games"], state["decided"], strict=True)):
            played = checked_preferences(preferences, count)
            self._games.restart(index, played, whole(use, 0, count))
        self._spread = None if state["spread"] is None else number(state["spread"], SMALLEST_SPREAD)
        self._annealing.load_state_dict(state["annealing"])
        self.evaluator.load_state_dict(state["evaluator"])
        self._demonstration = None


def demonstration_of(game: FreeGame, preferences: Preferences) -> BestGame:
    """Return the decisions with a choice of the game along preferences int8[U], by which illegal ones are replaced."""
    one = GamesAside(game, 1)
    uses, observations, legal, actions, rewards = [], [], [], [], []
    while not one.batch.done()[0]:
        use = one.batch.heads[0, USE]
        action = nearest_legal(one.batch.heads[0, MASK], preferences[use])
        uses.append(use)
        observations.append(one.observations[0].copy())
        legal.append(one.batch.legal()[0])
        actions.append(action)
        rewards.append(one.play(np.array([action]))[0][0])
    returns = np.cumsum(np.array(rewards, np.float32)[::-1], dtype=np.float64)[::-1].astype(np.float32)
    return BestGame(np.array(uses), np.array(observations), np.array(legal), np.array(actions), returns)


def _log_policy(logits: Floats32, legal: Bools) -> Floats32:
    """Return float32[B, 3], log-probabilities; -inf for illegal actions."""
    masked = np.where(legal, logits, -np.inf)
    masked = masked - masked.max(axis=1, keepdims=True)
    return np.asarray(masked - np.log(np.exp(masked).sum(axis=1, keepdims=True)), dtype=np.float32)

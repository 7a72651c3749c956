"""One program that MuZero plays: its first games, those that are sampled, those of the tree, and annealing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from memplace_agents.learning.entry_features import entry_decisions
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
from memplace_agents.plan_gradient.factored_run import FactoredRun
from memplace_agents.plan_gradient.plan_gradient_config import PlanGradientConfig
from memplace_agents.saved_values import number, optional, whole
from memplace_agents.search.annealing_kernels import nearest_legal
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.search.factored_programs import Games
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
LEANS = (1.0, 0.0, 4.0, 2.0)
"""Logits of the best rule's actions over others in the first games, in turn; our choice, as the next two, from trials
on LeViT-128, DiT-S-2, Swin-tiny, SegFormer and PoolFormer on `edge-tpu`, strassen2 and two more games."""
FIRST_SCALE = 10.0
"""Multiple of `IMPROVEMENT` by which values count in the first games."""
NODE_WORK = 100
"""Sampled decisions that take as long as one evaluation of the tree, with training: 81 to 106 on three of these."""


class MuZeroPlayer:
    """Plays a program with a network that it is given.

    Args:
        config: every constant.
        evaluator: evaluator of the program's game.
        seed: seed of the sampler.

    Attributes:
        evaluator: as passed in.
        best: int8[U], actions of the best game so far.
    """

    def __init__(self, config: MuZeroConfig, evaluator: GameEvaluator, seed: int = 0) -> None:
        self._config, self.evaluator = config, evaluator
        self.game = FreeGame(evaluator.env.problem)
        problem = self.game.problem
        self.best: Preferences = np.zeros(problem.num_decisions, np.int8)
        self._best_ps: float = np.inf
        self._has_choice = not problem.done(self.game.first_state[None])[0]
        self._games = GamesAside(self.game, config.games)
        self._annealing = GuidedAnnealing(problem)
        self._program, self._sampler = Games(evaluator.part(1 - config.annealing)), None
        if config.sampling:
            settings, decisions = PlanGradientConfig().games, [entry_decisions(self._program)]
            self._sampler = FactoredRun(settings, [self._program], decisions, None, seed)
        self._searched = 0  # decisions of the tree, times the evaluations of each
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

    def begin(self, network: MuZeroNetwork | None) -> None:
        """Play the games of all rules, and the first that are searched: at most half of the budget, but one at least.

        Args:
            network: policy and values of half of these searches; None for none.
        """
        preferences = first_preferences(self.game.problem, self.evaluator.incumbent)
        self._keep(preferences, finished(self.game.problem, preferences))
        left = self.evaluator.remaining
        searched = min(self._config.first_games, max(left // 2, 1)) if self._has_choice else 0
        if left > searched:
            self._program.evaluator.budget = left - searched
            (self._sampler or self._program).begin()
        unaided = searched if network is None else searched // 2
        for count, known in ((searched - unaided, network), (unaided, None)):
            if count:
                self._search_first(known, count)

    def _search_first(self, network: MuZeroNetwork | None, count: int) -> None:
        """Play games by a search without noise that leans to the best rule's game by `LEANS`."""
        simulations, games = self._config.first_simulations, GamesAside(self.game, count)
        settings = Gumbel(c_scale=FIRST_SCALE * IMPROVEMENT / Gumbel.c_visit, normalise=False, noise_scale=0.0)
        model = RulesModel(network, games, simulations, (np.resize(LEANS, count), self.best))
        rng, playing = np.random.default_rng(0), np.ones(count, np.bool_)  # draws noise that counts for nothing
        while playing.any() and self.evaluator.remaining > 0:
            root, legal = model.root(), games.batch.legal()
            result = search(model, root, legal, num_simulations=simulations, rng=rng, settings=settings)
            ended = np.flatnonzero(games.play(result.actions)[1])
            first = ended[playing[ended]]
            states = games.batch.stacked(first)
            self.evaluator.offer_states(states)
            self._keep(games.preferences[first], states)
            playing[first] = False
            for index in ended.tolist():  # goes on beside the others
                games.restart(index, self.best, 0)

    @property
    def _sampled_until(self) -> int:
        """Number of games after which annealing begins."""
        return round((1 - self._config.annealing) * self.evaluator.budget)

    @property
    def _is_late(self) -> bool:
        """True once nothing is left but annealing."""
        late = self.evaluator.evaluations >= self._sampled_until or self.evaluator.remaining <= 0
        return late or self.evaluator.fraction_left <= self._config.annealing

    def advance(self, rng: np.random.Generator) -> bool:
        """Sample games until a round with search is due, and return True; towards the end anneal some instead."""
        self._ended = []
        config, part = self._config, self._program.evaluator
        searched = self._searched + config.games * config.decisions * (config.simulations + 1)
        work = self.game.problem.num_decisions * (1 - config.sampling if config.network else 0.0)
        while self._sampler is not None and not self._is_late:
            if part.evaluations * work >= NODE_WORK * searched * config.sampling:
                return True
            part.budget = part.evaluations + self._sampled_until - self.evaluator.evaluations
            self._sampler.step()
            best = self._program.best[:1].astype(np.int8)
            self._keep(best, finished(self.game.problem, best))
        if self._is_late and self.evaluator.remaining > 0:
            self._anneal(rng)
        return not self._is_late

    def play(self, network: MuZeroNetwork, rng: np.random.Generator) -> MuZeroRollout | None:
        """Play a round of decisions with search; None if budget or time ended it."""
        config, games = self._config, self._games
        shape = (config.decisions, config.games)
        rollout = MuZeroRollout(
            np.empty((*shape, games.observations.shape[1]), np.float32),
            np.empty(shape, np.int64),
            np.empty(shape, np.float32),
            np.empty(shape, np.bool_),
            np.empty((*shape, len(ACTIONS)), np.float32),
            np.zeros((*shape, len(ACTIONS)), np.float32),
            np.empty((shape[0] + 1, shape[1]), np.float32),
        )
        known = network if config.network else None
        rules = RulesModel(known, games, config.simulations) if config.model == "rules" else None
        # The search weighs values as the targets do.
        c_scale = IMPROVEMENT / (Gumbel.c_visit * (self._spread or 1.0))
        settings = Gumbel(c_scale=c_scale, normalise=False)
        for decision in range(config.decisions):
            if self._is_late:
                return None
            model = rules or LearnedModel(network, games.observations, config.simulations)
            root, legal = model.root(), games.batch.legal()
            log_priors = _log_policy(root.prior_logits, legal)
            if config.simulations:
                result = search(model, root, legal, num_simulations=config.simulations, rng=rng, settings=settings)
                actions = result.actions
                rollout.advantages[decision] = search_advantages(log_priors, result.qvalues, result.visit_counts)
            else:
                actions = (log_priors + rng.gumbel(size=log_priors.shape)).argmax(axis=1)
            rollout.observations[decision], rollout.log_priors[decision] = games.observations, log_priors
            rollout.values[decision], rollout.actions[decision] = root.values, actions
            rollout.rewards[decision], rollout.ends[decision] = games.play(actions)
            self._finish(np.flatnonzero(rollout.ends[decision]), rng)
        self._searched += rollout.actions.size * (config.simulations + 1)
        if config.network:
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

    def _anneal(self, rng: np.random.Generator) -> None:
        """Anneal the best game for a round, with proposals of what sampled the games."""
        remaining, guide = self.evaluator.remaining, None
        left = max(min(remaining, self.evaluator.planned - self.evaluator.evaluations), 1)
        self._annealing.start_from(self.best, left)
        num_games = min(self._annealing.games_left(), GAMES_PER_ROUND, remaining)
        if self._sampler is not None:
            guide = self._sampler.probabilities(0)
        best = self._annealing.run(num_games, self._best_ps, guide, int(rng.integers(2**32)))[None]
        states = finished(self.game.problem, best)
        self.evaluator.offer_states(states, games=num_games)
        self._keep(best, states)

    def targets(self, rollout: MuZeroRollout) -> RolloutTargets:
        """Return what a rollout teaches; its advantages count in their own running standard deviation."""
        exceeds = followed(rollout, TRACE)
        advantages = mixed_advantages(rollout, exceeds, OUTCOME if self._config.simulations else 1.0)
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
            "searched": self._searched,
            "sampler": self._sampler and self._sampler.state_dict(),
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
        self._searched = whole(state["searched"])
        if self._sampler is not None:
            self._sampler.load_state_dict(state["sampler"])
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

"""Games played by the search, many at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from agents.muzero.base import Bools, Floats, SearchResult
from agents.muzero.config import MuZeroConfig
from agents.muzero.episodes import Decision, Episode, returns_to_go, to_episodes
from agents.muzero.free_game import FreeGame, Observation
from agents.muzero.gumbel import Gumbel
from agents.muzero.models import LearnedModel, SimulatorModel
from agents.muzero.networks import MuZeroNetwork
from agents.muzero.search import search
from memplace_env.envs.malloc_game.state import ACTIONS, USE
from memplace_env.workload.program import Ints


class PlayedGames(NamedTuple):
    """`B` finished games.

    Attributes:
        states: int64[B, size].
        episodes: what was searched of each game; nothing if they had no choices or were stopped.
        num_followed: int64[B], with how many decisions of the best game so far each game began.
    """

    states: Ints
    episodes: list[Episode]
    num_followed: Ints


@dataclass(frozen=True)
class SpreadGumbel(Gumbel):
    """The search with more noise in some games than in others.

    Attributes:
        scales: float64[B], factors on top of `noise_scale`.
    """

    scales: Floats = field(default_factory=lambda: np.ones(1))

    def sample_noise(self, rng: np.random.Generator, batch_size: int, num_actions: int) -> Floats:
        """float64[B, A]."""
        return np.asarray(self.scales[:, None] * super().sample_noise(rng, batch_size, num_actions))


def play_games(
    game: FreeGame,
    network: MuZeroNetwork,
    config: MuZeroConfig,
    rng: np.random.Generator,
    num_games: int,
    best: Episode | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> PlayedGames:
    """Play games with a search before each decision.

    Args:
        game, network, config: what to play, and how.
        rng: of all randomness.
        num_games: side by side.
        best: the best game so far, from which `config.deviations` of the games deviate once.
        stop: asked before each decision; once it says so, the games are finished greedily.
    """
    states = game.new_states(num_games)
    noise_scales = np.linspace(0, config.noise, num_games) if num_games > 1 else np.zeros(1)
    num_followed, known_returns = np.full(num_games, -1), np.full(num_games, -np.inf)
    if best is not None:
        deviants = slice(1, 1 + round(config.deviations * (num_games - 1)))
        num_followed[deviants] = rng.integers(len(best.actions), size=len(num_followed[deviants]))
        known_returns[deviants] = _follow(game, states, best, num_followed)[deviants]
        noise_scales[1:] = rng.permutation(noise_scales[1:])
    decisions: list[Decision] = []
    while True:
        running = np.flatnonzero(~game.problem.done(states))
        if len(running) == 0:
            return PlayedGames(states, to_episodes(decisions, num_games), np.maximum(num_followed, 0))
        if stop():
            game.problem.finish_greedily(states)
            return PlayedGames(states, [], np.maximum(num_followed, 0))
        running_states = states[running]
        observation, legal = game.observe(running_states), game.problem.legal(running_states)
        result = _search(game, network, config, rng, running_states, observation, legal, noise_scales[running])
        actions = result.actions
        if not decisions and best is not None:
            deviations = _other_actions(rng, legal, best.actions[num_followed])
            actions = np.where(num_followed >= 0, deviations, actions)
        rewards = game.play(running_states, actions)
        states[running] = running_states
        targets = result.action_weights, result.values
        decisions.append(Decision(running, observation, actions, rewards, *targets, known_returns[running]))
        known_returns[:] = -np.inf


def _search(
    game: FreeGame,
    network: MuZeroNetwork,
    config: MuZeroConfig,
    rng: np.random.Generator,
    states: Ints,
    observation: Observation,
    legal: Bools,
    noise_scales: Floats,
) -> SearchResult:
    """Search from states int64[B, size], in the configured model."""
    method = SpreadGumbel(c_visit=config.c_visit, c_scale=config.c_scale, normalise="none", scales=noise_scales)
    model = (
        LearnedModel(network, observation, config.simulations)
        if config.model == "learned"
        else SimulatorModel(network, game, states, config.simulations)
    )
    return search(model, model.root, legal, num_simulations=config.simulations, rng=rng, method=method)


def _follow(game: FreeGame, states: Ints, best: Episode, num_followed: Ints) -> Floats:
    """Play the first decisions of the best game, `num_followed` int64[B] of them in each game.

    Returns:
        float64[B], what the best game earns after them, in points.
    """
    for decision in range(num_followed.max(initial=0)):
        following = np.flatnonzero(num_followed > decision)
        following_states = states[following]
        game.play(following_states, np.full(len(following), best.actions[decision]))
        states[following] = following_states
    return np.asarray(np.append(returns_to_go(best.rewards), 0.0)[num_followed])


def _other_actions(rng: np.random.Generator, legal: Bools, taken: NDArray[np.int8]) -> Ints:
    """int64[B], legal actions drawn at random, others than those taken."""
    scores = np.where(legal, rng.random(legal.shape), -1.0)
    scores[np.arange(len(legal)), taken] = -0.5
    return np.asarray(scores.argmax(axis=1))


def play_policy(game: FreeGame, network: MuZeroNetwork) -> Ints:
    """int64[1, size], a game that follows the policy's most likely legal action, without search."""
    states = game.new_states(1)
    while not game.problem.done(states)[0]:
        with torch.inference_mode():
            latents = network.representation(game.observe(states))
            logits = network.prediction(latents).policy_logits.numpy()
        game.play(states, np.where(game.problem.legal(states), logits, -np.inf).argmax(axis=1))
    return states


def play_greedily(game: FreeGame) -> PlayedGames:
    """The greedy player's game."""
    states, decisions = game.new_states(1), []
    index, no_policy, no_return = np.zeros(1, dtype=np.int64), np.zeros((1, len(ACTIONS)), np.float32), [-np.inf]
    while not game.problem.done(states)[0]:
        actions = game.greedy_actions[states[:, USE]].astype(np.int64)
        observation = game.observe(states)
        rewards = game.play(states, actions)
        decisions.append(Decision(index, observation, actions, rewards, no_policy, rewards, np.array(no_return)))
    return PlayedGames(states, to_episodes(decisions, 1), np.zeros(1, dtype=np.int64))

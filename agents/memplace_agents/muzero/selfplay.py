"""Games played by the search, many at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.muzero.batched_search import search
from memplace_agents.muzero.episodes import Decision, Episode, returns_to_go, to_episodes
from memplace_agents.muzero.free_game import FreeGame, Observation
from memplace_agents.muzero.gumbel import Gumbel
from memplace_agents.muzero.models import LearnedModel, SimulatorModel
from memplace_agents.muzero.muzero_config import MuZeroConfig
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.muzero.search_types import Bools, Floats, SearchResult
from memplace_env.envs.malloc_game.state import ACTIONS, USE
from memplace_env.program.program import Ints


class PlayedGames(NamedTuple):
    """`B` finished games.

    Attributes:
        states: int64[B, size].
        episodes: the searched decisions of each game; empty if there were no choices or the games were stopped.
        num_followed: int64[B], decisions of the best game so far that each game began with.
    """

    states: Ints
    episodes: list[Episode]
    num_followed: Ints


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
        game, network, config: the game, the network of the search and its settings.
        rng: generator of all randomness.
        num_games: games side by side.
        best: the best game so far, from which `config.deviations` of the games deviate once.
        stop: called before each decision; once it returns true, the games are finished greedily.
    """
    states = game.new_states(num_games)
    # Game 0 has no noise. `num_followed` is -1 for games that follow nothing, among them game 0.
    noise_scales = np.linspace(0, config.noise, num_games) if num_games > 1 else np.zeros(1)
    num_followed, known_returns = np.full(num_games, -1), np.full(num_games, -np.inf)
    if best is not None:
        deviants = slice(1, 1 + round(config.deviations * (num_games - 1)))
        num_followed[deviants] = rng.integers(len(best.actions), size=len(num_followed[deviants]))
        known_returns[deviants] = _follow(game, states, best, num_followed)[deviants]
        noise_scales[1:] = rng.permutation(noise_scales[1:])
    decisions: list[Decision] = []
    # Each pass plays one decision in every game that is not over.
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
        # The first decision of the loop is the one at which the games that followed the best one leave it.
        if not decisions and best is not None:
            deviations = _other_actions(rng, legal, best.actions[num_followed])
            actions = np.where(num_followed >= 0, deviations, actions)
        rewards = game.play(running_states, actions)
        states[running] = running_states
        targets = result.action_weights, result.values, known_returns[running]
        decisions.append((running, (*observation, actions, rewards, *targets)))
        known_returns[:] = -np.inf  # the best game's return is known only where it was left


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
    """Search from states int64[B, size], in the configured model, with noise scales float64[B]."""
    settings = Gumbel(c_visit=config.c_visit, c_scale=config.c_scale, normalise=False, noise_scale=noise_scales)
    model = (
        LearnedModel(network, observation, config.simulations)
        if config.model == "learned"
        else SimulatorModel(network, game, states, config.simulations)
    )
    return search(model, model.root, legal, num_simulations=config.simulations, rng=rng, settings=settings)


def _follow(game: FreeGame, states: Ints, best: Episode, num_followed: Ints) -> Floats:
    """Play the first decisions of the best game, `num_followed` int64[B] of them in each game.

    Returns:
        float64[B], the best game's return after them, in points.
    """
    for decision in range(num_followed.max(initial=0)):
        following = np.flatnonzero(num_followed > decision)
        following_states = states[following]
        game.play(following_states, np.full(len(following), best.actions[decision]))
        states[following] = following_states
    return np.asarray(np.append(returns_to_go(best.rewards), 0.0)[num_followed])


def _other_actions(rng: np.random.Generator, legal: Bools, taken: NDArray[np.int8]) -> Ints:
    """Draw legal actions int64[B] other than those taken; the one taken if no other is legal."""
    # Other legal actions score from 0 to 1, the one taken -0.5, illegal ones -1.
    scores = np.where(legal, rng.random(legal.shape), -1.0)
    scores[np.arange(len(legal)), taken] = -0.5
    return np.asarray(scores.argmax(axis=1))


def play_policy(game: FreeGame, network: MuZeroNetwork) -> Ints:
    """Return int64[1, size], a game of the policy's most likely legal actions, without search."""
    states = game.new_states(1)
    while not game.problem.done(states)[0]:
        with torch.inference_mode():
            latents = network.representation(game.observe(states))
            logits = network.prediction(latents).policy_logits.numpy()
        game.play(states, np.where(game.problem.legal(states), logits, -np.inf).argmax(axis=1))
    return states


def play_greedily(game: FreeGame) -> PlayedGames:
    """Play the greedy player's game, with policies of 0 and rewards for values."""
    states = game.new_states(1)
    decisions: list[Decision] = []
    games, no_policy, no_return = np.zeros(1, dtype=np.int64), np.zeros((1, len(ACTIONS))), np.array([-np.inf])
    while not game.problem.done(states)[0]:
        actions = game.greedy_actions[states[:, USE]].astype(np.int64)
        observation = game.observe(states)
        rewards = game.play(states, actions)
        decisions.append((games, (*observation, actions, rewards, no_policy, rewards, no_return)))
    return PlayedGames(states, to_episodes(decisions, 1), np.zeros(1, dtype=np.int64))

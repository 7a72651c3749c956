"""Models for the search: the true rules with the network's policies and values, or the learned model.

In shapes `B` denotes the games and `N` the nodes of a tree, one for the root and each simulation.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from memplace_agents.muzero.free_game import GamesAside
from memplace_agents.muzero.game_kernels import expand_nodes
from memplace_agents.muzero.networks import MuZeroNetwork, Prediction
from memplace_agents.muzero.search_types import ROOT_INDEX, Floats, Floats32, RecurrentOutput, RootOutput
from memplace_agents.search.preferences import Preferences
from memplace_env._lib.threads import in_chunks
from memplace_env.envs.malloc_game.flat import empty_flat
from memplace_env.envs.malloc_game.state import ACTIONS, USE
from memplace_env.program.program import Ints


class RulesModel:
    """The true rules, a `SearchModel`: keeps a state for each node; rewards, legal actions and ends are exact.

    One model serves all searches from these games, so that its memory is allocated once.

    Args:
        network: network of policies and values; None for a uniform policy and values of 0, as if the greedy player
            went on.
        games: the roots.
        num_simulations: N - 1.
        lean: what is added to the logits of a game's own actions int8[U]: float64[B], and these; None for nothing.
    """

    def __init__(
        self,
        network: MuZeroNetwork | None,
        games: GamesAside,
        num_simulations: int,
        lean: tuple[Floats, Preferences] | None = None,
    ) -> None:
        self._network, self._games = network, games
        batch, nodes = games.batch, (len(games.batch), num_simulations)
        self._index = np.arange(len(batch))
        self._states = np.empty((*nodes, games.game.problem.size), np.int64)
        self._profiles = np.empty((*nodes, *batch.profiles.shape[1:]), batch.profiles.dtype)
        self._points = np.empty((nodes[0], num_simulations + 1))
        self._observations = empty_flat(nodes[0] if network is not None else 0)
        self._lean = lean

    def root(self) -> RootOutput:
        """Return the network's output for the games as they are now."""
        self._points[:, ROOT_INDEX] = self._games.game.points(self._games.batch.heads)
        return self._predicted(self._games.observations, self._games.batch.heads)

    def _predicted(self, observations: Floats32, states: Ints) -> RootOutput:
        if self._network is None:
            output = RootOutput(np.zeros(len(states)), np.zeros((len(states), len(ACTIONS))))
        else:
            output = predicted(self._network, observations)
        if self._lean is None:
            return output
        weight, actions = self._lean
        preferred = actions[np.minimum(states[:, USE], len(actions) - 1)]
        return output._replace(prior_logits=output.prior_logits + weight[:, None] * np.eye(len(ACTIONS))[preferred])

    def evaluate(self, parents: Ints, actions: Ints, node: int) -> RecurrentOutput:
        """Play actions int64[B] in the states of the nodes `parents` int64[B]; see `SearchModel`."""
        game, batch = self._games.game, self._games.batch
        nodes = self._states, self._profiles
        move = parents, actions, node, self._observations
        in_chunks(partial(expand_nodes, *batch.parts, batch.profiles, nodes, *move), len(parents))
        states = self._states[:, node - 1]
        self._points[:, node] = game.points(states)
        rewards = self._points[:, node] - self._points[self._index, parents]
        return RecurrentOutput(rewards, *self._predicted(self._observations, states), game.problem.legal(states))


class LearnedModel:
    """MuZero's model, a `SearchModel`: keeps latent states float32[B, N, latent]; knows no legal actions.

    Args:
        network: network of dynamics, policies and values.
        observations: float32[B, 546], of the roots.
        num_simulations: N - 1.
    """

    def __init__(self, network: MuZeroNetwork, observations: Floats32, num_simulations: int) -> None:
        self._network = network
        self._index = torch.arange(len(observations))
        with torch.inference_mode():
            latents = network.representation(torch.from_numpy(observations))
            self._latents = torch.empty((len(latents), num_simulations + 1, latents.shape[1]))
            self._latents[:, ROOT_INDEX] = latents

    def root(self) -> RootOutput:
        """Return the network's output for the roots."""
        with torch.inference_mode():
            return _root_output(self._network, self._network.prediction(self._latents[:, ROOT_INDEX]))

    def evaluate(self, parents: Ints, actions: Ints, node: int) -> RecurrentOutput:
        """Play actions int64[B] in the latent states of the nodes `parents` int64[B]; see `SearchModel`."""
        network = self._network
        with torch.inference_mode():
            latents = self._latents[self._index, torch.from_numpy(parents)]
            latents, rewards = network.dynamics(latents, torch.from_numpy(actions))
            self._latents[:, node] = latents
            output = _root_output(network, network.prediction(latents))
            return RecurrentOutput((rewards * network.scale).numpy(), *output)


def predicted(network: MuZeroNetwork, observations: Floats32) -> RootOutput:
    """Return the network's output for observations float32[B, 546], values in points."""
    with torch.inference_mode():
        return _root_output(network, network.prediction(network.representation(torch.from_numpy(observations))))


def _root_output(network: MuZeroNetwork, prediction: Prediction) -> RootOutput:
    return RootOutput(network.points(prediction.values).numpy(), prediction.policy_logits.numpy())

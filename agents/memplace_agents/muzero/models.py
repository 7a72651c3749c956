"""Models for the search: the learned model, or the true rules with the network's policies and values.

In shapes `B` denotes the games and `N` the nodes of a tree, one for the root and each simulation.
"""

from __future__ import annotations

import numpy as np
import torch

from memplace_agents.muzero.free_game import FreeGame, Observation
from memplace_agents.muzero.networks import MuZeroNetwork, Prediction
from memplace_agents.muzero.search_types import ROOT_INDEX, RecurrentOutput, RootOutput
from memplace_env.program.program import Ints


class LearnedModel:
    """MuZero's model, a `SearchModel`: keeps latent states float32[B, N, latent]; knows no legal actions.

    Args:
        network: network of dynamics, policies and values.
        observation: observations of the roots.
        num_simulations: N - 1.

    Attributes:
        root: the network's output for the roots.
    """

    def __init__(self, network: MuZeroNetwork, observation: Observation, num_simulations: int) -> None:
        self._network = network
        self._games = torch.arange(len(observation.features))
        with torch.inference_mode():
            latents = network.representation(observation)
            self._latents = torch.empty((len(latents), num_simulations + 1, latents.shape[1]))
            self._latents[:, ROOT_INDEX] = latents
            self.root = _root_output(network, network.prediction(latents))

    def evaluate(self, parents: Ints, actions: Ints, node: int) -> RecurrentOutput:
        """Play actions int64[B] in the latent states of the nodes `parents` int64[B]; see `SearchModel`."""
        network = self._network
        with torch.inference_mode():
            latents = self._latents[self._games, torch.from_numpy(parents)]
            latents, reward_logits = network.dynamics(latents, torch.from_numpy(actions))
            self._latents[:, node] = latents
            prediction = network.prediction(latents)
            # Rewards and values are decoded together, float32[2, B, bins] -> float32[2, B].
            rewards, values = network.support.decode(torch.stack([reward_logits, prediction.value_logits])).numpy()
            return RecurrentOutput(rewards, values, prediction.policy_logits.numpy())


class SimulatorModel:
    """The true rules, a `SearchModel`: keeps states int64[B, N, size]; rewards, legal actions and ends are exact.

    Args:
        network: network of policies and values.
        game: the rules.
        states: int64[B, size], the roots.
        num_simulations: N - 1.

    Attributes:
        root: the network's output for the roots.
    """

    def __init__(self, network: MuZeroNetwork, game: FreeGame, states: Ints, num_simulations: int) -> None:
        self._network, self._game = network, game
        self._games = np.arange(len(states))
        self._states = np.empty((len(states), num_simulations + 1, states.shape[1]), dtype=np.int64)
        self._states[:, ROOT_INDEX] = states
        self.root = self._predict(states)

    def evaluate(self, parents: Ints, actions: Ints, node: int) -> RecurrentOutput:
        """Play actions int64[B] in the states of the nodes `parents` int64[B]; see `SearchModel`."""
        states = self._states[self._games, parents]
        rewards = self._game.play(states, actions)
        self._states[:, node] = states
        return RecurrentOutput(rewards, *self._predict(states), self._game.problem.legal(states))

    def _predict(self, states: Ints) -> RootOutput:
        with torch.inference_mode():
            latents = self._network.representation(self._game.observe(states))
            return _root_output(self._network, self._network.prediction(latents))


def _root_output(network: MuZeroNetwork, prediction: Prediction) -> RootOutput:
    return RootOutput(network.support.decode(prediction.value_logits).numpy(), prediction.policy_logits.numpy())

"""What the search can play in: the learned model, or the true rules with the network's opinion of them."""

from __future__ import annotations

import numpy as np
import torch

from agents.muzero.free_game import FreeGame, Seen
from agents.muzero.networks import MuZeroNetwork, Said
from agents.muzero.search import Root, Step
from memplace_env.workload.program import Ints


class LearnedModel:
    """Latent states float32[B, simulations + 1, latent], moved by the dynamics network; knows no legal actions.

    Args:
        network: of all answers.
        seen: observations of the roots.
        simulations: slots beside the roots'.
    """

    def __init__(self, network: MuZeroNetwork, seen: Seen, simulations: int) -> None:
        self._network = network
        self._games = torch.arange(len(seen.flat))
        with torch.inference_mode():
            roots = network.look(seen)
            self._latents = torch.empty((len(roots), simulations + 1, roots.shape[1]))
            self._latents[:, 0] = roots
            self.root = root_of(network, network.predict(roots))

    def step(self, parents: Ints, actions: Ints, slot: int) -> Step:
        """See `search.Model`."""
        network = self._network
        with torch.inference_mode():
            before = self._latents[self._games, torch.from_numpy(parents)]
            latent, reward = network.advance(before, torch.from_numpy(actions))
            self._latents[:, slot] = latent
            said = network.predict(latent)
            numbers = network.support.decode(torch.stack([reward, said.value])).numpy()
            return Step(numbers[0], numbers[1], said.policy.numpy())


class SimulatorModel:
    """The game's own rows int64[B, simulations + 1, size]; rewards, legal actions and ends are exact.

    Args:
        network: of policies and values.
        game: the rules.
        rows: int64[B, size], the roots.
        simulations: slots beside the roots'.
    """

    def __init__(self, network: MuZeroNetwork, game: FreeGame, rows: Ints, simulations: int) -> None:
        self._network, self._game = network, game
        self._games = np.arange(len(rows))
        self._rows = np.empty((len(rows), simulations + 1, rows.shape[1]), dtype=np.int64)
        self._rows[:, 0] = rows
        self.root = self._opinion(rows)

    def step(self, parents: Ints, actions: Ints, slot: int) -> Step:
        """See `search.Model`."""
        rows = self._rows[self._games, parents]
        reward = self._game.play(rows, actions)
        self._rows[:, slot] = rows
        return Step(reward, *self._opinion(rows), self._game.problem.legal(rows))

    def _opinion(self, rows: Ints) -> Root:
        with torch.inference_mode():
            return root_of(self._network, self._network.predict(self._network.look(self._game.observe(rows))))


def root_of(network: MuZeroNetwork, said: Said) -> Root:
    """A prediction as arrays."""
    return Root(network.support.decode(said.value).numpy(), said.policy.numpy())

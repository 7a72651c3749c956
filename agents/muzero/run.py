"""One run of MuZero: its state, and what one round does to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from agents.evaluator import GameEvaluator
from agents.learning.policy_file import no_numbers
from agents.muzero.config import MuZeroConfig
from agents.muzero.networks import MuZeroNetwork
from agents.muzero.player import Player
from agents.muzero.trainer import Losses, Trainer
from agents.saved import load_random, random_state, whole


class Run:
    """Self-play and training in turn, until budgets or time are spent: one network for all programs.

    Args:
        config: every constant.
        evaluators: of the programs' games.
        policy: where to start from, or None for a fresh network.
        seed: of all randomness.

    Raises:
        AgentError: if the policy computes no numbers.

    Attributes:
        players: one for each program.
        round: rounds done.
        scalars: of the last round, by TensorBoard tag; tags of a program's scalars end in its index.
    """

    def __init__(
        self, config: MuZeroConfig, evaluators: Sequence[GameEvaluator], policy: MuZeroNetwork | None, seed: int
    ) -> None:
        self._config = config
        self._rng = np.random.default_rng(seed)
        self.players = [Player(config, evaluator) for evaluator in evaluators]
        with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
            torch.manual_seed(seed)
            network = new_network(config) if policy is None else MuZeroNetwork(**policy.options)
        if policy is not None:
            network.load_state_dict(policy.state_dict())
            for player in self.players:
                if not player.computes(network):
                    raise no_numbers(player.evaluator.env.program.name)
        self._trainer = Trainer(config, network)
        self.round = 0
        self.scalars: dict[str, float] = {}

    @property
    def done(self) -> bool:
        """Whether there is nothing left to play."""
        return all(player.done for player in self.players)

    @property
    def policy(self) -> MuZeroNetwork:
        """The network, as it is now."""
        return self._trainer.network

    def begin(self) -> None:
        """Play what is known without search."""
        for player in self.players:
            player.begin()

    def step(self) -> None:
        """One round of self-play in each program, training on it, and now and then a game of the bare policy."""
        config, gradient_steps = self._config, [0] * len(self.players)
        self.scalars = {}
        for index, player in enumerate(self.players):
            if not player.done:
                decisions, scalars = player.play(self.policy, self._rng)
                self.scalars |= {f"{tag}/{index}": float(value) for tag, value in scalars.items()}
                wanted = round(config.reuse * decisions / config.batch)
                gradient_steps[index] = min(max(wanted, 1), config.most_steps) if player.replay.size else 0
        losses = self._learn(gradient_steps)
        if losses:
            for name, values in zip(Losses._fields, zip(*losses, strict=True), strict=True):
                self.scalars[f"loss/{name}" if name != "entropy" else name] = float(np.mean(values))
        for index, player in enumerate(self.players):
            if self.round % config.greedy_every == 0 and not player.done:
                self.scalars[f"points/policy/{index}"] = player.play_policy(self.policy)
        self.round += 1

    def _learn(self, gradient_steps: Sequence[int]) -> list[Losses]:
        """Train on each player's games for so many steps, one player after the other in turn."""
        losses = []
        for step in range(max(gradient_steps)):
            for player, num_steps in zip(self.players, gradient_steps, strict=True):
                if step < num_steps and not player.done:
                    losses.append(self._trainer.step(self._rng, player.replay, player.best))
        return losses

    def state_dict(self) -> dict[str, Any]:
        """All that decides how the run goes on, as tensors and plain values."""
        return {
            "round": self.round,
            "random": random_state(self._rng),
            "trainer": self._trainer.state_dict(),
            "players": [player.state_dict() for player in self.players],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self.round = whole(state["round"])
        load_random(self._rng, state["random"])
        self._trainer.load_state_dict(state["trainer"])
        for player, saved in zip(self.players, state["players"], strict=True):
            player.load_state_dict(saved)


def new_network(config: MuZeroConfig) -> MuZeroNetwork:
    """A fresh network of the configured shape."""
    return MuZeroNetwork(config.latent, config.hidden, config.bins, config.reach, config.lookahead)

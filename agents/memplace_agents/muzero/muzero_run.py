"""One training run of MuZero: its state, and one round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from memplace_agents.evaluator import GameEvaluator
from memplace_agents.learning.policy_file import no_numbers
from memplace_agents.learning.training import TrainingRun
from memplace_agents.muzero.muzero_config import MuZeroConfig
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.muzero.player import MuZeroPlayer
from memplace_agents.muzero.trainer import MuZeroLosses, Trainer


class MuZeroRun(TrainingRun[MuZeroNetwork]):
    """Self-play and training in turn, until budgets or time are spent: one network for all programs.

    Tags of a program's scalars end in its index.

    Args:
        config: every constant.
        evaluators: evaluators of the programs' games.
        policy: the network to start from, or None for a fresh one.
        seed: seed of all randomness.

    Raises:
        AgentError: if the policy computes no numbers.

    Attributes:
        players: one for each program.
    """

    def __init__(
        self, config: MuZeroConfig, evaluators: Sequence[GameEvaluator], policy: MuZeroNetwork | None, seed: int
    ) -> None:
        super().__init__(seed)
        self._config = config
        self.players = [MuZeroPlayer(config, evaluator) for evaluator in evaluators]
        with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
            torch.manual_seed(seed)
            network = new_network(config) if policy is None else MuZeroNetwork(**policy.options)
        if policy is not None:
            network.load_state_dict(policy.state_dict())
            for player in self.players:
                if not player.computes(network):
                    raise no_numbers(player.evaluator.env.program.name)
        self._trainer = Trainer(config, network)

    @property
    def done(self) -> bool:
        """True if all players are done."""
        return all(player.done for player in self.players)

    @property
    def policy(self) -> MuZeroNetwork:
        """The network, as it is now."""
        return self._trainer.network

    def begin(self) -> None:
        """Play the games that are known without search."""
        for player in self.players:
            player.begin()

    def step(self) -> None:
        """Do a round of self-play in each program, train on it, and now and then play the bare policy."""
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
            for name, values in zip(MuZeroLosses._fields, zip(*losses, strict=True), strict=True):
                self.scalars[f"loss/{name}" if name != "entropy" else name] = float(np.mean(values))
        for index, player in enumerate(self.players):
            if self.round % config.greedy_every == 0 and not player.done:
                self.scalars[f"points/policy/{index}"] = player.play_policy(self.policy)
        self.round += 1

    def _learn(self, gradient_steps: Sequence[int]) -> list[MuZeroLosses]:
        """Train on each player's games for so many steps, the players in turn; return the losses of each step."""
        losses = []
        for step in range(max(gradient_steps)):
            for player, num_steps in zip(self.players, gradient_steps, strict=True):
                if step < num_steps and not player.done:
                    losses.append(self._trainer.step(self._rng, player.replay, player.best))
        return losses

    def state_dict(self) -> dict[str, Any]:
        """Return all that decides how the run goes on, as tensors and plain values."""
        return super().state_dict() | {
            "trainer": self._trainer.state_dict(),
            "players": [player.state_dict() for player in self.players],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        super().load_state_dict(state)
        self._trainer.load_state_dict(state["trainer"])
        for player, saved in zip(self.players, state["players"], strict=True):
            player.load_state_dict(saved)


def new_network(config: MuZeroConfig) -> MuZeroNetwork:
    """Return a fresh network of the configured shape."""
    return MuZeroNetwork(config.latent, config.hidden, config.bins, config.reach, config.lookahead)

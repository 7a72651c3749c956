"""One training run of MuZero: its state, and one round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from memplace_agents.learning.policy_file import no_numbers
from memplace_agents.learning.training import TrainingRun
from memplace_agents.muzero.drawn_player import DrawnPlayer
from memplace_agents.muzero.muzero_config import MuZeroConfig
from memplace_agents.muzero.muzero_rollout import MuZeroRollout
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.muzero.player import MuZeroPlayer
from memplace_agents.muzero.trainer import MuZeroLosses, Trainer
from memplace_agents.search.evaluator import GameEvaluator

EPOCHS = 4
"""Times that each decision of a round is trained on; our choice."""
IMITATION_STEPS = 50
"""Gradient steps of a fresh network on the best game of all rules, before the first round; our choice."""


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
        players: one for each environment.
    """

    def __init__(
        self, config: MuZeroConfig, evaluators: Sequence[GameEvaluator], policy: MuZeroNetwork | None, seed: int
    ) -> None:
        super().__init__(seed)
        if len(evaluators) > 1:
            config = replace(config, sampling=0.0)
        self._config, self._fresh = config, policy is None
        self.players = [_player(config, evaluator, seed) for evaluator in evaluators]
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
        """Play the games of the rules, and the first that are searched; a fresh network has no say in these."""
        for player in self.players:
            player.begin(None if self._fresh else self.policy)

    def step(self) -> None:
        """Sample games, play a round with search in each program and train on them; towards the end anneal instead."""
        playing = [(index, player) for index, player in enumerate(self.players) if not player.done]
        playing = [(index, player) for index, player in playing if player.advance(self._rng)]
        for _, player in playing if self._fresh and self._config.network and self._trainer.rounds == 0 else ():
            if player.demonstration is not None:
                self._trainer.imitate(self._rng, player.demonstration, IMITATION_STEPS)
        rounds = [(index, player, player.play(self.policy, self._rng)) for index, player in playing]
        complete = [(index, player, rollout) for index, player, rollout in rounds if rollout is not None]
        self.scalars = {}
        learns = complete and self._config.network
        losses = self._learn([(player, rollout) for _, player, rollout in complete]) if learns else []
        if losses:
            for name, values in zip(MuZeroLosses._fields, zip(*losses, strict=True), strict=True):
                self.scalars[f"loss/{name}" if name != "entropy" else name] = float(np.mean(values))
        for index, player in enumerate(self.players):
            self.scalars |= {f"{tag}/{index}": value for tag, value in player.scalars().items()}
        self.round += 1

    def _learn(self, played: Sequence[tuple[MuZeroPlayer | DrawnPlayer, MuZeroRollout]]) -> list[MuZeroLosses]:
        """Train on each player's rollout, the players in turn; return the losses of each step."""
        targets = [player.targets(rollout) for player, rollout in played]
        self._trainer.renormalise(targets)
        return [
            loss
            for _ in range(EPOCHS)
            for (player, rollout), target in zip(played, targets, strict=True)
            for loss in self._trainer.epoch(self._rng, rollout, target, player.demonstration)
        ]

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


def _player(config: MuZeroConfig, evaluator: GameEvaluator, seed: int) -> MuZeroPlayer | DrawnPlayer:
    """Return a player of an environment, by whether it draws its programs."""
    return (MuZeroPlayer if evaluator.env.programs is None else DrawnPlayer)(config, evaluator, seed)


def new_network(config: MuZeroConfig) -> MuZeroNetwork:
    """Return a fresh network of the configured shape."""
    return MuZeroNetwork(config.hidden)

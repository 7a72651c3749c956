"""One run of MuZero: its state, and what one round does to it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from agents.evaluator import GameEvaluator
from agents.muzero.config import MuZeroConfig
from agents.muzero.free_game import FreeGame
from agents.muzero.networks import MuZeroNetwork
from agents.muzero.replay import Replay
from agents.muzero.selfplay import Played, demonstrate, play_games, play_policy
from agents.muzero.trainer import Losses, Trainer


class Run:
    """Self-play and training in turn, until the evaluator's budget or time is spent.

    Args:
        config: every constant.
        evaluator: of the game.
        policy: where to start from, or None for a fresh network.
        seed: of all randomness.

    Attributes:
        round: rounds done.
        scalars: figures of the last round, by TensorBoard tag.
    """

    def __init__(self, config: MuZeroConfig, evaluator: GameEvaluator, policy: MuZeroNetwork | None, seed: int) -> None:
        self._config, self._evaluator = config, evaluator
        self._rng = np.random.default_rng(seed)
        self._game = FreeGame(evaluator.env.problem)
        with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
            torch.manual_seed(seed)
            network = new_network(config) if policy is None else MuZeroNetwork(**policy.options)
        if policy is not None:
            network.load_state_dict(policy.state_dict())
        self._trainer = Trainer(config, network)
        self._replay, self._best = Replay(config.replay), Replay(1)
        self._best_points = -np.inf
        self._dull = bool(self._game.problem.done(self._game.new_rows(1))[0])
        self.round = 0
        self.scalars: dict[str, float] = {}

    @property
    def done(self) -> bool:
        """Whether budget or time is spent, or there is nothing to choose."""
        return self._evaluator.remaining <= 0 or (self._dull and self._evaluator.evaluations > 0)

    @property
    def policy(self) -> MuZeroNetwork:
        """The network, as it is now."""
        return self._trainer.network

    def begin(self) -> None:
        """Play what is known without search."""
        if self._dull or self._config.demonstrations:
            self._offer(demonstrate(self._game))

    def step(self) -> None:
        """One round of self-play, training on it, and now and then a game of the bare policy."""
        config, evaluator = self._config, self._evaluator
        count = min(config.games, evaluator.remaining)
        played = play_games(
            *(self._game, self.policy, config, self._rng, count),
            best=self._best.episode() if self._best.size else None,
            stop=lambda: evaluator.remaining <= 0,
        )
        self._offer(played)
        points = self._game.standing(played.rows)
        scalars = {"points/best": points.max(), "points/mean": points.mean(), "points/without_noise": points[0]}
        latency = self._game.problem.latency_s(played.rows)
        scalars |= {"latency/best": latency.min(), "latency/mean": latency.mean()}
        decisions = 0
        for episode in played.episodes:
            self._replay.add(episode)
            decisions += len(episode.action)
        losses = self._learn(decisions)
        if losses:
            for name, values in zip(Losses._fields, zip(*losses, strict=True), strict=True):
                scalars[f"loss/{name}" if name != "entropy" else name] = float(np.mean(values))
        if self.round % config.greedy_every == 0 and not self.done:
            rows = play_policy(self._game, self.policy)
            evaluator.offer_rows(rows)
            scalars["points/policy"] = self._game.standing(rows)[0]
        self.scalars = {tag: float(value) for tag, value in scalars.items()}
        self.round += 1

    def _offer(self, played: Played) -> None:
        """Count finished games, and keep the best one for training."""
        self._evaluator.offer_rows(played.rows)
        points = self._game.standing(played.rows)
        best = int(points.argmax())
        if self._config.demonstrations and played.episodes and points[best] > self._best_points:
            self._best_points = points[best].item()
            episode, followed = played.episodes[best], int(played.followed[best])
            if followed:
                episode = episode.after(self._best.episode(), followed)
            self._best = Replay(len(episode.action))
            self._best.add(episode.demonstration)

    def _learn(self, decisions: int) -> list[Losses]:
        """Gradient steps for so many new decisions."""
        config = self._config
        if not self._replay.size or self.done:
            return []
        steps = min(max(round(config.reuse * decisions / config.batch), 1), config.most_steps)
        losses = []
        for _ in range(steps):
            if self.done:
                break
            losses.append(self._trainer.step(self._rng, self._replay, self._best))
        return losses

    def state_dict(self) -> dict[str, Any]:
        """All that decides how the run goes on, as tensors and plain values."""
        return {
            "round": self.round,
            "random": json.dumps(self._rng.bit_generator.state),
            "trainer": self._trainer.state_dict(),
            "replay": self._replay.state_dict(),
            "best": self._best.state_dict(),
            "best_points": self._best_points,
            "evaluator": self._evaluator.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self.round = state["round"]
        self._rng.bit_generator.state = json.loads(state["random"])
        self._trainer.load_state_dict(state["trainer"])
        self._replay.load_state_dict(state["replay"])
        self._best = Replay(max(int(state["best"]["added"]), 1))
        self._best.load_state_dict(state["best"])
        self._best_points = state["best_points"]
        self._evaluator.load_state_dict(state["evaluator"])


def new_network(config: MuZeroConfig) -> MuZeroNetwork:
    """A fresh network of the configured shape."""
    return MuZeroNetwork(config.latent, config.hidden, config.bins, config.reach, config.lookahead)

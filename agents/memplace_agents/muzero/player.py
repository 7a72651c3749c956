"""One program that MuZero plays: its games, their replay, and the best one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from memplace_agents.evaluator import GameEvaluator
from memplace_agents.muzero.free_game import FreeGame
from memplace_agents.muzero.muzero_config import MuZeroConfig
from memplace_agents.muzero.muzero_replay import MuZeroReplay
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.muzero.selfplay import PlayedGames, play_games, play_greedily, play_policy
from memplace_agents.saved_values import optional, whole


class MuZeroPlayer:
    """Plays a program with a network that it is given.

    Args:
        config: every constant.
        evaluator: evaluator of the program's game.

    Attributes:
        evaluator: as passed in.
        replay: the decisions that are trained on.
        best: those of the best game so far, if that is trained on.
        decisions: number of decisions searched.
    """

    def __init__(self, config: MuZeroConfig, evaluator: GameEvaluator) -> None:
        self._config, self.evaluator = config, evaluator
        self._game = FreeGame(evaluator.env.problem)
        self.replay, self.best = MuZeroReplay(config.replay), MuZeroReplay(1)
        self._best_points = -np.inf
        self._has_choice = not self._game.problem.done(self._game.new_states(1))[0]
        self.decisions = 0

    @property
    def done(self) -> bool:
        """True if budget or time is spent, or there is nothing to decide."""
        return self.evaluator.remaining <= 0 or (not self._has_choice and self.evaluator.evaluations > 0)

    def computes(self, network: MuZeroNetwork) -> bool:
        """Return whether a network's outputs for the first decision are finite."""
        if not self._has_choice:
            return True
        with torch.inference_mode():
            latents = network.representation(self._game.observe(self._game.new_states(1)))
            outputs = [*network.prediction(latents), *network.dynamics(latents, torch.zeros(1, dtype=torch.int64))]
        return all(bool(torch.isfinite(output).all()) for output in outputs)

    def begin(self) -> None:
        """Play the greedy player's game if it is a demonstration, or the only one there is."""
        if not self._has_choice or self._config.demonstrations:
            self._offer(play_greedily(self._game))

    def play(self, network: MuZeroNetwork, rng: np.random.Generator) -> tuple[int, dict[str, float]]:
        """Play a round of games with search.

        Returns:
            the number of new decisions to train on, and the round's scalars by TensorBoard tag.
        """
        best = self.best.episode() if self.best.size else None
        num_games = min(self._config.games, self.evaluator.remaining)
        played = play_games(
            *(self._game, network, self._config, rng, num_games), best=best, stop=lambda: self.evaluator.remaining <= 0
        )
        self._offer(played)
        for episode in played.episodes:
            self.replay.add(episode)
        new = sum(len(episode.actions) for episode in played.episodes)
        self.decisions += new
        points, latency_s = self._game.points(played.states), self._game.problem.latency_s(played.states)
        return new, {
            "points/best": points.max(),
            "points/mean": points.mean(),
            "points/without_noise": points[0],
            "latency/best": latency_s.min(),
            "latency/mean": latency_s.mean(),
            "decisions": self.decisions,
            "seconds": self.evaluator.seconds,
        }

    def play_policy(self, network: MuZeroNetwork) -> float:
        """Play and count a game of the bare policy; return its points."""
        states = play_policy(self._game, network)
        self.evaluator.offer_states(states)
        return float(self._game.points(states)[0])

    def _offer(self, played: PlayedGames) -> None:
        """Count finished games, and keep the best one for training."""
        self.evaluator.offer_states(played.states)
        points = self._game.points(played.states)
        best = int(points.argmax())
        if self._config.demonstrations and played.episodes and points[best] > self._best_points:
            self._best_points = points[best].item()
            episode, num_followed = played.episodes[best], int(played.num_followed[best])
            if num_followed:  # the episode begins after the decisions that were followed
                episode = episode.after(self.best.episode(), num_followed)
            self.best = MuZeroReplay(len(episode.actions))
            self.best.add(episode.demonstration)

    def _check_best(self) -> None:
        """Replay the actions of the best game.

        Raises:
            ValueError: if they are not those of one whole game.
        """
        states, actions = self._game.new_states(1), self.best.episode().actions
        for action in actions:
            if self._game.problem.done(states)[0]:
                raise ValueError("the best game is too long")
            self._game.play(states, np.array([action]))
        if len(actions) and not self._game.problem.done(states)[0]:
            raise ValueError("the best game has no end")

    def state_dict(self) -> dict[str, Any]:
        """Return all that the player remembers, as tensors and plain values."""
        return {
            "replay": self.replay.state_dict(),
            "best": self.best.state_dict(),
            "best_points": None if np.isinf(self._best_points) else self._best_points,
            "decisions": self.decisions,
            "evaluator": self.evaluator.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self.replay.load_state_dict(state["replay"])
        self.best = MuZeroReplay(max(whole(state["best"]["added"], 0, self._game.problem.num_decisions), 1))
        self.best.load_state_dict(state["best"])
        self._check_best()
        points = optional(state["best_points"])
        self._best_points = -np.inf if points is None else points
        self.decisions = whole(state["decisions"])
        self.evaluator.load_state_dict(state["evaluator"])

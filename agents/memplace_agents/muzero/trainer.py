"""Gradient steps of MuZero on rollouts, and the units of values and advantages.

In shapes `B` denotes the decisions of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from memplace_agents.learning.policy_file import fitting
from memplace_agents.learning.saved_tensors import load_optimiser, optimiser_state
from memplace_agents.muzero.muzero_config import MuZeroConfig
from memplace_agents.muzero.muzero_rollout import MuZeroRollout, RolloutTargets
from memplace_agents.muzero.networks import MuZeroNetwork, Prediction
from memplace_agents.muzero.search_types import Bools, Floats32
from memplace_agents.saved_values import whole
from memplace_env.program.program import Ints

UNROLL = 5
"""Steps that the learned model is unrolled for in training (MuZero: 5)."""
VALUE_WEIGHT = 0.5
"""Weight of the value's loss, and of the learned rewards'; our choice, as all that follow."""
DEMONSTRATED = 0.1
"""Weight of the loss that imitates the best game so far."""
MAX_GRADIENT_NORM = 0.5
"""Longer gradients are cut to this; our choice, as in PPO's usual settings."""
UNIT_RATE = 0.1
"""Weight of a round in the running mean and variance of values; our choice."""
SHOWN = 0.25
"""Decisions of the best game beside each decision of a batch; our choice."""
SMALLEST_SCALE = 1e-3
"""Least standard deviation of values, points; our choice."""


class MuZeroLosses(NamedTuple):
    """Means over one gradient step.

    Attributes:
        policy: cross-entropy in nats.
        value, reward: squared errors of normalised values and rewards; the reward's is 0 without a learned model.
        entropy: entropy of the policy, nats.
    """

    policy: float
    value: float
    reward: float
    entropy: float


class BestGame(NamedTuple):
    """The `n` decisions with a choice of the best game so far.

    Attributes:
        uses: int64[n], numbers of the decisions among all.
        observations: float32[n, 546].
        legal: bool[n, 3].
        actions: int64[n].
        returns: float32[n], return of the rest of the game, points.
    """

    uses: Ints
    observations: Floats32
    legal: Bools
    actions: Ints
    returns: Floats32


class Trainer:
    """A network and its optimiser.

    Args:
        config: rates, weights and steps.
        network: changed in place.

    Attributes:
        network: as given.
        rounds: rounds learned from.
    """

    def __init__(self, config: MuZeroConfig, network: MuZeroNetwork) -> None:
        self._config, self.network = config, network
        self._unroll = UNROLL if config.model == "learned" else 0
        self._optimiser = torch.optim.Adam(network.parameters(), lr=config.learning_rate, eps=1e-5)
        self.rounds = 0

    def renormalise(self, targets: Sequence[RolloutTargets]) -> None:
        """Take the values of a round into the running unit of values."""
        values = np.concatenate([target.values.ravel() for target in targets])
        mean, variance = float(values.mean()), float(values.var())
        if self.rounds:
            old_mean, old_variance = float(self.network.mean), float(self.network.scale) ** 2
            mean = old_mean + UNIT_RATE * (mean - old_mean)
            variance = old_variance + UNIT_RATE * (variance - old_variance)
        self.network.renormalise(mean, max(variance**0.5, SMALLEST_SCALE))
        self.rounds += 1

    def epoch(
        self, rng: np.random.Generator, rollout: MuZeroRollout, targets: RolloutTargets, best: BestGame | None
    ) -> list[MuZeroLosses]:
        """Train once on each decision of a rollout, and beside them on decisions of the best game."""
        order = rng.permutation(targets.values.size)
        return [
            self._step(rng, rollout, targets, order[first : first + self._config.batch], best)
            for first in range(0, len(order), self._config.batch)
        ]

    def _step(
        self,
        rng: np.random.Generator,
        rollout: MuZeroRollout,
        targets: RolloutTargets,
        which: Ints,
        best: BestGame | None,
    ) -> MuZeroLosses:
        """Do one gradient step on decisions int64[B], numbers of those of the rollout in a row."""
        network = self.network
        decisions, games = np.divmod(which, targets.values.shape[1])
        latents = network.representation(_tensor(rollout.observations[decisions, games]))
        root = network.prediction(latents)
        policy_loss, value_loss, entropy = self._losses(root, targets, rollout, decisions, games)
        reward_loss = torch.zeros(())
        alive = np.ones(len(which), dtype=bool)
        for _ in range(self._unroll):
            # One step further, as far as games and rollout go on; half of the gradient passes each step (MuZero,
            # appendix G), and unrolled losses count 1 / unroll each.
            latents, rewards = network.dynamics(latents, _tensor(rollout.actions[decisions, games]))
            errors = (rewards - _tensor(rollout.rewards[decisions, games]) / network.scale).square()
            reward_loss = reward_loss + (errors * _tensor(alive)).mean() / self._unroll
            alive = alive & ~rollout.ends[decisions, games] & (decisions + 1 < len(rollout.rewards))
            decisions = np.where(alive, decisions + 1, decisions)
            kept = np.flatnonzero(alive)
            if not len(kept):
                break
            further = _rows(network.prediction(latents), kept)
            policy, value, _ = self._losses(further, targets, rollout, decisions[kept], games[kept])
            share = len(kept) / len(which) / self._unroll
            policy_loss, value_loss = policy_loss + share * policy, value_loss + share * value
            latents = 0.5 * latents + 0.5 * latents.detach()
        loss = policy_loss + VALUE_WEIGHT * (value_loss + reward_loss)
        if best is not None:
            shown = rng.integers(len(best.uses), size=round(SHOWN * len(which)) + 1)
            loss = loss + DEMONSTRATED * self._imitation(best, shown)
        self._follow_gradient(loss)
        return MuZeroLosses(policy_loss.item(), value_loss.item(), reward_loss.item(), entropy.item())

    def _losses(
        self, output: Prediction, targets: RolloutTargets, rollout: MuZeroRollout, decisions: Ints, games: Ints
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the losses of policy and value, and the policy's entropy."""
        legal = _tensor(rollout.log_priors[decisions, games] > -np.inf)
        log_policy = log_policy_of(output.policy_logits, legal)
        policy_loss = -(_tensor(targets.policies[decisions, games]) * log_policy).sum(dim=1).mean()
        wanted = self.network.normalised(_tensor(targets.values[decisions, games]))
        entropy = -(log_policy.exp() * log_policy).sum(dim=1).mean().detach()
        return policy_loss, (output.values - wanted).square().mean(), entropy

    def _imitation(self, best: BestGame, which: Ints) -> Tensor:
        """Return the loss of decisions of the best game: its actions are the policy's, its returns the values."""
        output = self.network.prediction(self.network.representation(_tensor(best.observations[which])))
        log_policy = log_policy_of(output.policy_logits, _tensor(best.legal[which]))
        policy_loss = -log_policy.gather(1, _tensor(best.actions[which])[:, None]).mean()
        wanted = self.network.normalised(_tensor(best.returns[which]))
        return policy_loss + VALUE_WEIGHT * (output.values - wanted).square().mean()

    def imitate(self, rng: np.random.Generator, best: BestGame, num_steps: int) -> None:
        """Do gradient steps on decisions of the best game alone."""
        for _ in range(num_steps):
            self._follow_gradient(self._imitation(best, rng.integers(len(best.uses), size=self._config.batch)))

    def _follow_gradient(self, loss: Tensor) -> None:
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), MAX_GRADIENT_NORM)
        self._optimiser.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the weights, the optimiser's memory and the number of rounds."""
        return {
            "network": self.network.state_dict(),
            "optimiser": optimiser_state(self._optimiser),
            "rounds": self.rounds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self.network.load_state_dict(fitting(state["network"], self.network.state_dict()))
        load_optimiser(self._optimiser, state["optimiser"])
        self.rounds = whole(state["rounds"])


def log_policy_of(logits: Tensor, legal: Tensor) -> Tensor:
    """Return log-probabilities float32[B, 3], those of illegal actions far below all others but finite."""
    return logits.masked_fill(~legal, -50.0 + float(logits.detach().min())).log_softmax(dim=1)


def _rows(output: Prediction, rows: Ints) -> Prediction:
    return Prediction(*(part[torch.from_numpy(rows)] for part in output))


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))

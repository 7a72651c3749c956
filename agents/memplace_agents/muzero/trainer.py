"""Gradient steps of MuZero on windows of the replay.

In shapes `B` denotes the windows of a batch and `K` the decisions that each is unrolled for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from memplace_agents.learning.policy_file import fitting
from memplace_agents.learning.saved_tensors import load_optimiser, optimiser_state
from memplace_agents.muzero.batched_search import search
from memplace_agents.muzero.gumbel import Gumbel
from memplace_agents.muzero.models import LearnedModel
from memplace_agents.muzero.muzero_config import MuZeroConfig
from memplace_agents.muzero.muzero_replay import MuZeroReplay, ReplayWindows, concatenate
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.muzero.search_types import Floats
from memplace_env.program.program import Ints

MAX_GRADIENT_NORM = 5.0
"""Longer gradients are cut to this; our choice."""


class MuZeroLosses(NamedTuple):
    """Means over one gradient step: cross-entropies in nats, of the root and all unrolled steps.

    Attributes:
        policy, value, reward: losses.
        entropy: entropy of the policy at the roots, nats.
    """

    policy: float
    value: float
    reward: float
    entropy: float


class Trainer:
    """A network and its optimiser.

    Args:
        config: rates, weights and steps.
        network: changed in place.
    """

    def __init__(self, config: MuZeroConfig, network: MuZeroNetwork) -> None:
        self._config, self.network = config, network
        self._unroll = config.unroll if config.model == "learned" else 0
        self._optimiser = torch.optim.AdamW(
            network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )

    def step(self, rng: np.random.Generator, replay: MuZeroReplay, best: MuZeroReplay) -> MuZeroLosses:
        """Do one gradient step on windows of the replay, and of the best game if there is one."""
        config = self._config
        num_from_best = round(config.demonstrated * config.batch) if best.size else 0
        sampled: list[tuple[MuZeroReplay, ReplayWindows]] = []
        for source, count in ((replay, config.batch - num_from_best), (best, num_from_best)):
            if count and source.size:
                positions, weights = source.sample(rng, count, config.priority, config.correction)
                if source is replay and config.reanalyse:
                    self._reanalyse(rng, replay, positions[: round(config.reanalyse * count)])
                windows = source.windows(rng, positions, weights, self._unroll, config.td_steps)
                sampled.append((source, windows))
        first, *others = (windows for _, windows in sampled)
        losses, errors = self._gradient_step(concatenate(first, *others) if others else first)
        # The errors are those of the sources' windows one after the other.
        start = 0
        for source, windows in sampled:
            end = start + len(windows.positions)
            source.update_priorities(windows.positions, errors[start:end])
            start = end
        return losses

    def _gradient_step(self, windows: ReplayWindows) -> tuple[MuZeroLosses, Floats]:
        """Do one gradient step; return the losses, and the errors of the values at the roots, float64[B] in points."""
        config, network = self._config, self.network
        actions, weights = torch.from_numpy(windows.actions), torch.from_numpy(windows.weights)
        policy_targets = torch.from_numpy(windows.policies)
        value_targets = network.support.encode(torch.from_numpy(windows.values))  # [B, K + 1, bins]
        reward_targets = network.support.encode(torch.from_numpy(windows.rewards))  # [B, K, bins]
        latents = network.representation(windows.observation)  # [B, latent]
        root = network.prediction(latents)
        policy_loss = cross_entropy(root.policy_logits, policy_targets[:, 0])
        value_loss = cross_entropy(root.value_logits, value_targets[:, 0])
        reward_loss = torch.zeros_like(value_loss)
        for k in range(self._unroll):
            # Losses float32[B]; unrolled ones count 1 / K each, and half of the gradient passes each step (MuZero,
            # appendix G).
            latents, reward_logits = network.dynamics(latents, actions[:, k])
            policy_logits, value_logits = network.prediction(latents)
            policy_loss = policy_loss + cross_entropy(policy_logits, policy_targets[:, k + 1]) / self._unroll
            value_loss = value_loss + cross_entropy(value_logits, value_targets[:, k + 1]) / self._unroll
            reward_loss = reward_loss + cross_entropy(reward_logits, reward_targets[:, k]) / self._unroll
            latents = 0.5 * latents + 0.5 * latents.detach()
        loss = (weights * (policy_loss + config.value_weight * value_loss + reward_loss)).mean()
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), MAX_GRADIENT_NORM)
        self._optimiser.step()
        with torch.no_grad():
            errors = network.support.decode(root.value_logits).numpy() - windows.values[:, 0]
            log_policy = root.policy_logits.log_softmax(-1)
            entropy = -(root.policy_logits.softmax(-1) * log_policy).sum(-1).mean().item()
        losses = MuZeroLosses(policy_loss.mean().item(), value_loss.mean().item(), reward_loss.mean().item(), entropy)
        return losses, errors.astype(np.float64)

    def _reanalyse(self, rng: np.random.Generator, replay: MuZeroReplay, positions: Ints) -> None:
        """Search again from positions int64[B], with the current network and without noise."""
        if not len(positions):
            return
        config = self._config
        observation = replay.observation(positions)
        model = LearnedModel(self.network, observation, config.simulations)
        settings = Gumbel(c_visit=config.c_visit, c_scale=config.c_scale, normalise=False, noise_scale=0.0)
        result = search(
            model, model.root, observation.legal, num_simulations=config.simulations, rng=rng, settings=settings
        )
        replay.update_targets(positions, result.action_weights, result.values)

    def state_dict(self) -> dict[str, Any]:
        """Return the weights and the optimiser's memory."""
        return {"network": self.network.state_dict(), "optimiser": optimiser_state(self._optimiser)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self.network.load_state_dict(fitting(state["network"], self.network.state_dict()))
        load_optimiser(self._optimiser, state["optimiser"])


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return cross-entropies float32[B] in nats of distributions float32[B, bins]; 0 where the target is all 0."""
    return -(targets * logits.log_softmax(-1)).sum(-1)

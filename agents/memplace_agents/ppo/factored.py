"""Hundreds of independent decisions as one distribution, and a rollout buffer that keeps them apart.

In shapes `B` denotes the batch dimension, `N` the decisions of an action and `L` the options of each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer
from sb3_contrib.common.maskable.distributions import MaskableDistribution
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor, nn


class FactoredCategorical(MaskableDistribution):
    """N independent categorical decisions among L options as one tensor of log-probabilities.

    Stable-Baselines3's own distribution for such actions makes N objects, which for the N = 744 of BERT takes ten
    times as long. Logits of masked options are the lowest finite number; every decision needs an option that is not.

    Log-probabilities and entropies are those of the single decisions, float32[B, N]; their sums over the decisions are
    those of the whole action.
    """

    def proba_distribution_net(self, latent_dim: int) -> nn.Module:
        """Return no layer: the network's heads give the logits."""
        return nn.Identity()

    def proba_distribution(self, action_logits: Tensor) -> FactoredCategorical:
        """Set the logits, float32[B, N, L]; a row that is repeated by `expand` costs no memory."""
        self._logits = action_logits
        self.log_probs = torch.log_softmax(action_logits, dim=-1)
        return self

    def apply_masking(self, masks: Tensor | NDArray[Any] | None) -> None:
        """Forbid options, on top of those that the logits forbid; `masks` is bool[B, N * L], true where allowed."""
        if masks is not None:
            allowed = torch.as_tensor(masks, dtype=torch.bool, device=self._logits.device).reshape(self._logits.shape)
            self.proba_distribution(self._logits.masked_fill(~allowed, torch.finfo(self._logits.dtype).min))

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return log-probabilities float32[B, N] of actions [B, N]."""
        chosen: Tensor = self.log_probs.gather(-1, actions.long()[..., None])[..., 0]
        return chosen

    def entropy(self) -> Tensor:
        """Return entropies float32[B, N] in nats."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def sample(self) -> Tensor:
        """Draw actions int64[B, N]."""
        batch, decisions, options = self.log_probs.shape
        drawn = torch.multinomial(self.log_probs.exp().reshape(batch * decisions, options), 1)
        return drawn.reshape(batch, decisions)

    def mode(self) -> Tensor:
        """Return the likeliest options, int64[B, N]."""
        return self.log_probs.argmax(-1)

    def actions_from_params(self, action_logits: Tensor, deterministic: bool = False) -> Tensor:
        """Return actions int64[B, N] of the distribution with these logits."""
        actions: Tensor = self.proba_distribution(action_logits).get_actions(deterministic)
        return actions

    def log_prob_from_params(self, action_logits: Tensor) -> tuple[Tensor, Tensor]:
        """Draw actions from the distribution with these logits; return them and their log-probabilities."""
        actions = self.actions_from_params(action_logits)
        return actions, self.log_prob(actions)


class FactoredRolloutBuffer(MaskableDictRolloutBuffer):
    """Rollout buffer with the log-probability of each of the N decisions of an action.

    The algorithms see each decision as a sample of its own with the advantage of its action. PPO then clips the
    probability ratio of each decision. That of whole actions is the product of N ratios, which after a few gradient
    steps is 0 or infinite for all of them.
    """

    def reset(self) -> None:
        """Empty the buffer; log-probabilities are float32[steps, environments, N]."""
        super().reset()
        self.log_probs: NDArray[np.float32] = np.zeros((self.buffer_size, self.n_envs, self.action_dim), np.float32)

    def _get_samples(self, batch_inds: NDArray[np.int64], env: VecNormalize | None = None) -> Any:
        samples = super()._get_samples(batch_inds, env)
        # Each advantage N times, as `evaluate_actions` flattens log-probabilities [B, N] to [B * N].
        return samples._replace(advantages=samples.advantages.repeat_interleave(self.action_dim))

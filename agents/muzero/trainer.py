"""Gradient steps of MuZero on windows of the replay."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from agents.muzero.config import MuZeroConfig
from agents.muzero.free_game import Seen
from agents.muzero.gumbel import Gumbel
from agents.muzero.models import LearnedModel
from agents.muzero.networks import MuZeroNetwork
from agents.muzero.replay import Replay, Windows, join
from agents.muzero.search import search
from agents.muzero.tree import Floats
from memplace_env.envs.malloc_game.observation import BINS, TENSOR

_MASK = slice(BINS + len(TENSOR) + 3, BINS + len(TENSOR) + 6)
"""Columns of `Seen.flat` with the legal actions."""


class Losses(NamedTuple):
    """Means over one gradient step: cross-entropies in nats, of the root and all unrolled steps.

    Attributes:
        policy, value, reward: losses.
        entropy: of the policy at the roots, nats.
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

    def step(self, rng: np.random.Generator, replay: Replay, best: Replay) -> Losses:
        """One gradient step on windows of the replay, and of the best game if there is one."""
        config = self._config
        from_best = round(config.demonstrated * config.batch) if best.size else 0
        parts = []
        for source, count in ((replay, config.batch - from_best), (best, from_best)):
            if count and source.size:
                at, weight = source.draw(rng, count, config.priority, config.correction)
                if source is replay and config.reanalyse:
                    self._reanalyse(rng, replay, at[: round(config.reanalyse * count)])
                parts.append((source, source.windows(rng, at, weight, self._unroll, config.td_steps)))
        windows = parts[0][1] if len(parts) == 1 else join(parts[0][1], parts[1][1])
        losses, error = self._descend(windows)
        first = 0
        for source, part in parts:
            source.judge(part.at, error[first : first + len(part.at)])
            first += len(part.at)
        return losses

    def _descend(self, windows: Windows) -> tuple[Losses, Floats]:
        """One step; also the error of the value at each root, in points."""
        config, network = self._config, self.network
        weight = torch.from_numpy(windows.weight)
        policy_target = torch.from_numpy(windows.policy)
        value_target = network.support.encode(torch.from_numpy(windows.value))
        reward_target = network.support.encode(torch.from_numpy(windows.reward))
        latent = network.look(windows.seen)
        said = root = network.predict(latent)
        policy_loss = cross_entropy(root.policy, policy_target[:, 0])
        value_loss = cross_entropy(root.value, value_target[:, 0])
        reward_loss = torch.zeros_like(value_loss)
        for step in range(self._unroll):
            # Unrolled losses count 1 / K each, and half of the gradient passes each step (MuZero, appendix G).
            latent, reward = network.advance(latent, torch.from_numpy(windows.action[:, step]))
            said = network.predict(latent)
            policy_loss = policy_loss + cross_entropy(said.policy, policy_target[:, step + 1]) / self._unroll
            value_loss = value_loss + cross_entropy(said.value, value_target[:, step + 1]) / self._unroll
            reward_loss = reward_loss + cross_entropy(reward, reward_target[:, step]) / self._unroll
            latent = 0.5 * latent + 0.5 * latent.detach()
        loss = (weight * (policy_loss + config.value_weight * value_loss + reward_loss)).mean()
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        self._optimiser.step()
        with torch.no_grad():
            error = network.support.decode(root.value).numpy() - windows.value[:, 0]
            entropy = -(root.policy.softmax(-1) * root.policy.log_softmax(-1)).sum(-1).mean().item()
        losses = Losses(policy_loss.mean().item(), value_loss.mean().item(), reward_loss.mean().item(), entropy)
        return losses, error.astype(np.float64)

    def _reanalyse(self, rng: np.random.Generator, replay: Replay, at: Any) -> None:
        """Search again from some positions, with the present network and as much noise as none."""
        if not len(at):
            return
        config = self._config
        seen = replay.seen(at)
        model = LearnedModel(self.network, seen, config.simulations)
        method = Gumbel(c_visit=config.c_visit, c_scale=config.c_scale, normalise="none", noise_scale=0.0)
        found = search(model, model.root, legal_of(seen), simulations=config.simulations, rng=rng, method=method)
        replay.refresh(at, found.policy, found.value)

    def state_dict(self) -> dict[str, Any]:
        """Weights and the optimiser's memory."""
        return {"network": self.network.state_dict(), "optimiser": self._optimiser.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self.network.load_state_dict(state["network"])
        self._optimiser.load_state_dict(state["optimiser"])


def legal_of(seen: Seen) -> np.ndarray:
    """bool[B, 3], the legal actions that an observation shows."""
    return np.asarray(seen.flat[:, _MASK] > 0)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """float32[B], nats; 0 where the target is all 0."""
    return -(target * logits.log_softmax(-1)).sum(-1)

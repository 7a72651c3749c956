"""The actor and critic of the one-shot environments: a graph network with a head for each decision.

In shapes `B` denotes the batch dimension, `T` the ops and `L` the levels.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import Tensor, nn

from memplace_agents.learning.graph_policy import Graph, GraphPolicy
from memplace_agents.ppo.factored import FactoredCategorical

Masks = Tensor | NDArray[Any] | None


class GraphActorCritic(MaskableActorCriticPolicy):
    """Policy for one-shot environments; works with PPO, A2C and MaskablePPO alike.

    The actor is `GraphPolicy`; the critic is linear in the mean of its node embeddings, and does not train them: in an
    environment with a single observation it is no more than a running mean. Levels that the observation's `action_mask`
    leaves out are never played, whether the algorithm has masks or not. Nothing depends on the size of the graph, so a
    trained policy plays other workloads on machines with as many levels.

    Log-probabilities and entropies are those of single decisions, see `FactoredRolloutBuffer`.

    Args:
        use_sde: an argument that Stable-Baselines3 passes to every policy; ignored.
        hidden, depth, attention_heads, lean: see `GraphPolicy`.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.MultiDiscrete,
        lr_schedule: Schedule,
        use_sde: bool = False,
        *,
        hidden: int = 128,
        depth: int = 4,
        attention_heads: int = 4,
        lean: float = 3.0,
    ) -> None:
        self._sizes: dict[str, Any] = {"hidden": hidden, "depth": depth, "attention_heads": attention_heads}
        self._lean = lean
        super().__init__(observation_space, action_space, lr_schedule)

    def _build(self, lr_schedule: Schedule) -> None:
        assert isinstance(self.action_space, spaces.MultiDiscrete)
        self.actor = GraphPolicy(int(self.action_space.nvec[0]), lean=self._lean, **self._sizes)
        self.critic = nn.Linear(self._sizes["hidden"], 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=lr_schedule(1), eps=1e-5)  # as Stable-Baselines3 does

    def forward(
        self, obs: PyTorchObs, deterministic: bool = False, action_masks: Masks = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions int64[B, 2T], values float32[B, 1] and log-probabilities float32[B, 2T]."""
        distribution, values = self._read(obs, action_masks)
        actions = distribution.get_actions(deterministic)
        return actions, values, distribution.log_prob(actions)

    def evaluate_actions(
        self, obs: PyTorchObs, actions: Tensor, action_masks: Masks = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return values float32[B, 1], log-probabilities float32[B * 2T] and entropies float32[B, 2T]."""
        distribution, values = self._read(obs, action_masks)
        return values, distribution.log_prob(actions).flatten(), distribution.entropy()

    def get_distribution(self, obs: PyTorchObs, action_masks: Masks = None) -> FactoredCategorical:
        """Return the distribution of actions."""
        return self._read(obs, action_masks)[0]

    def predict_values(self, obs: PyTorchObs) -> Tensor:
        """Return values float32[B, 1]."""
        return self._read(obs, None)[1]

    def _read(self, obs: PyTorchObs, action_masks: Masks) -> tuple[FactoredCategorical, Tensor]:
        """Return the distribution of actions, and values float32[B, 1]."""
        assert isinstance(obs, dict)
        nodes, edges, mask = obs["nodes"], obs["edge_index"], obs["action_mask"]
        rows = len(nodes)
        # In one environment all rows are equal, and the network needs to run on one of them only.
        same = all(bool((part == part[:1]).all()) for part in (nodes, edges, mask))
        outputs = [self._embed(nodes[row], edges[row], mask[row]) for row in range(1 if same else rows)]
        logits = torch.stack([logits for logits, _ in outputs]).expand(rows, -1, -1)  # [B, 2T, L]
        pooled = torch.stack([hidden.mean(0) for _, hidden in outputs]).expand(rows, -1)  # [B, hidden]
        distribution = FactoredCategorical().proba_distribution(logits)  # type: ignore[no-untyped-call]
        distribution.apply_masking(action_masks)
        return distribution, self.critic(pooled.detach())

    def _embed(self, nodes: Tensor, edges: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits float32[2T, L] and node embeddings float32[T, hidden] of one observation."""
        graph = Graph.read(nodes, edges, mask)
        embedding = self.actor.embed(graph)
        return self.actor.decide(embedding, graph).flatten(0, 1), embedding

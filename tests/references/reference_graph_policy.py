"""EGRL's policy by torch-geometric's layers, one member and one op graph at a time."""

import warnings

import torch

from memplace_agents.learning.graph_policy import Graph, GraphPolicy
from memplace_env.envs.one_shot.observation import FEATURES

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # torch-geometric uses what torch has deprecated
    from torch_geometric.nn import GATConv, GraphUNet


class ReferencePolicy(torch.nn.Module):
    """Graph U-Net and attention heads, with first weights of their own or those of a policy."""

    def __init__(
        self, levels: int, hidden: int = 128, depth: int = 4, attention_heads: int = 4, skip: bool = False
    ) -> None:
        super().__init__()
        self.skip, seen = skip, hidden + skip * len(FEATURES)
        self.body = GraphUNet(len(FEATURES), hidden, hidden, depth, pool_ratios=0.5)
        self.heads = torch.nn.ModuleList(GATConv(seen, levels, attention_heads, concat=False) for _ in range(2))

    @classmethod
    def of(cls, policy: GraphPolicy) -> "ReferencePolicy":
        """The reference with a policy's weights; both have them in one order."""
        reference = cls(**policy.options)
        torch.nn.utils.vector_to_parameters(
            torch.nn.utils.parameters_to_vector(policy.parameters()), reference.parameters()
        )
        return reference

    def forward(self, graph: Graph) -> torch.Tensor:
        """Logits float32[T, 2, L]."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse", UserWarning)  # raised by torch for torch-geometric's calls
            nodes = graph.nodes
            if self.skip:
                nodes = (nodes - nodes.mean(0)) / nodes.std(0, correction=0).clamp_min(1e-3)
            hidden = torch.relu(self.body(nodes, graph.edges))
            hidden = torch.cat([hidden, nodes], dim=-1) if self.skip else hidden
        logits = torch.stack([head(hidden, graph.edges) for head in self.heads], dim=1)
        return logits.masked_fill(~graph.mask, torch.finfo(logits.dtype).min)

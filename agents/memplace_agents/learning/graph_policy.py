"""EGRL's policy network: from the op graph to logits of the levels of every op's weights and results.

In shapes `T` denotes the ops, `E` the edges, `L` the levels and `H` the width of the hidden layers.
"""

from __future__ import annotations

import warnings
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from memplace_agents.learning.policy_file import PolicyNetwork
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.envs.one_shot.observation import FEATURES, node_features

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # torch-geometric uses what torch has deprecated
    from torch_geometric.nn import GATConv, GraphUNet
    from torch_geometric.utils import to_undirected

SUB_ACTIONS = 2
"""Decisions of each op: the level of its weights, the level of its results."""


class Graph(NamedTuple):
    """Input of the networks for one workload.

    Attributes:
        nodes: float32[T, 19], see `node_features`.
        edges: int64[2, 2E], both directions of each edge, as EGRL passes messages both ways.
        adjacency: sparse float32[T, T], 1 for each of the edges.
        mask: bool[T, 2, L], levels worth asking for.
    """

    nodes: Tensor
    edges: Tensor
    adjacency: Tensor
    mask: Tensor

    @classmethod
    def of(cls, problem: OneShotProblem) -> Graph:
        """Return the graph of a one-shot problem."""
        program = problem.program
        return cls.read(
            torch.from_numpy(node_features(program)), torch.tensor(program.edges), torch.from_numpy(problem.mask)
        )

    @classmethod
    def read(cls, nodes: Tensor, edge_index: Tensor, mask: Tensor) -> Graph:
        """Return the graph of an observation: nodes float32[T, 19], edge_index [2, E], action_mask of any shape."""
        ops = len(nodes)
        edges = to_undirected(edge_index.long(), num_nodes=ops)
        adjacency = torch.sparse_coo_tensor(
            edges, torch.ones(edges.shape[1]), (ops, ops), check_invariants=True
        ).coalesce()
        return cls(nodes, edges, adjacency, mask.reshape(ops, SUB_ACTIONS, -1).bool())


class GraphPolicy(PolicyNetwork):
    """Graph U-Net with an attention head for each sub-action, for any workload on machines with `levels` levels.

    Depth, width and the number of attention heads are those remembered of EGRL; the wiring is not published. Ours: Gao
    and Ji's Graph U-Net (2019), then for each sub-action one graph attention layer whose `attention_heads` heads are
    averaged into the logits of the levels.

    Args:
        levels: L.
        hidden: width.
        depth: poolings of the U-Net; each keeps half of the nodes.
        attention_heads: heads of each attention layer.
        lean: added to the initial logits of the backing memory, so that the first assignments mostly fit. EGRL starts
            from assignments with everything there; the paper does not say how.
    """

    KIND = "graph-policy/2"
    OPTIONS: ClassVar = {"levels": int, "hidden": int, "depth": int, "attention_heads": int}

    def __init__(
        self, levels: int, hidden: int = 128, depth: int = 4, attention_heads: int = 4, lean: float = 0.0
    ) -> None:
        super().__init__()
        self.options = {"levels": levels, "hidden": hidden, "depth": depth, "attention_heads": attention_heads}
        self.body = GraphUNet(len(FEATURES), hidden, hidden, depth, pool_ratios=0.5)
        heads = [GATConv(hidden, levels, heads=attention_heads, concat=False) for _ in range(SUB_ACTIONS)]
        self.heads = nn.ModuleList(heads)
        with torch.no_grad():
            for head in heads:
                head.bias[-1] += lean

    @property
    def levels(self) -> int:
        """L, the number of levels."""
        levels: int = self.options["levels"]
        return levels

    def forward(self, graph: Graph) -> Tensor:
        """Return logits float32[T, 2, L]; levels that are not worth asking for get the lowest finite number."""
        return self.decide(self.embed(graph), graph)

    def embed(self, graph: Graph) -> Tensor:
        """Return node embeddings float32[T, H]."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse", UserWarning)  # raised by torch for torch-geometric's calls
            return torch.relu(self.body(graph.nodes, graph.edges))

    def decide(self, embedding: Tensor, graph: Graph) -> Tensor:
        """Return logits float32[T, 2, L] of node embeddings float32[T, H], as `forward` does."""
        logits = torch.stack([head(embedding, graph.edges) for head in self.heads], dim=1)
        return logits.masked_fill(~graph.mask, torch.finfo(logits.dtype).min)

"""Networks over graphs of nodes and edges; an edge goes from its sender to its receiver.

What a node sends to itself is where the sum of what it receives starts, so that no tensor of zeros is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace

import torch
from torch import nn


class GCN(nn.Module):
    """Graph convolution of arXiv:1609.02907; the scales of edges and nodes normalise, and depend on the graph only."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(
        self,
        features: torch.Tensor,
        senders: torch.Tensor,
        receivers: torch.Tensor,
        edge_scales: torch.Tensor,
        node_scales: torch.Tensor,
    ) -> SimpleNamespace:
        for index, layer in enumerate(self.layers):
            values = nn.functional.linear(features, layer.weight)
            sent = values.index_select(0, senders) * edge_scales
            features = (values * node_scales).index_add(0, receivers, sent) + layer.bias
            if index < len(self.layers) - 1:
                features = torch.relu(features)
        return SimpleNamespace(logits=features)


class Attending(nn.Module):
    """A layer of arXiv:1710.10903: each node weighs the messages of its neighbours and of itself."""

    def __init__(self, before: int, heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.values = nn.Linear(before, heads * width, bias=False)
        self.sender = nn.Parameter(torch.empty(heads, width))
        self.receiver = nn.Parameter(torch.empty(heads, width))
        self.bias = nn.Parameter(torch.empty(heads * width))

    def forward(self, features: torch.Tensor, senders: torch.Tensor, receivers: torch.Tensor) -> torch.Tensor:
        values = self.values(features).reshape(-1, self.heads, self.width)
        sent, received = ((values * vector).sum(-1, keepdim=True) for vector in (self.sender, self.receiver))
        of_edges = self.weights(sent.index_select(0, senders) + received.index_select(0, receivers))
        of_nodes = self.weights(sent + received)
        sums = (values * of_nodes).index_add(0, receivers, values.index_select(0, senders) * of_edges)
        return (sums / of_nodes.index_add(0, receivers, of_edges)).flatten(1) + self.bias

    def weights(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the numerators of the softmax over a node's neighbours."""
        return torch.exp(nn.functional.leaky_relu(scores, 0.2))


class GAT(nn.Module):
    """Attention network of arXiv:1710.10903 with its sizes for Cora: eight heads of 8, then one."""

    def __init__(self, features: int = 1433, heads: int = 8, width: int = 8, classes: int = 7) -> None:
        super().__init__()
        self.first = Attending(features, heads, width)
        self.second = Attending(heads * width, 1, classes)

    def forward(self, features: torch.Tensor, senders: torch.Tensor, receivers: torch.Tensor) -> SimpleNamespace:
        hidden = nn.functional.elu(self.first(features, senders, receivers))
        return SimpleNamespace(logits=self.second(hidden, senders, receivers))


class GraphSAGE(nn.Module):
    """GraphSAGE (arXiv:1706.02216) over sampled neighbourhoods, with means; `rings` are node ids from inside out."""

    def __init__(
        self, nodes: int = 2_449_029, features: int = 100, width: int = 256, classes: int = 47, layers: int = 3
    ) -> None:
        super().__init__()
        self.features = nn.Parameter(torch.empty(nodes, features))
        widths = [features] + [width] * (layers - 1) + [classes]
        pairs = list(pairwise(widths))
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.neighbours = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs)

    def forward(self, **rings: torch.Tensor) -> SimpleNamespace:
        states = [nn.functional.embedding(nodes, self.features) for nodes in rings.values()]
        for index, (own, neighbours) in enumerate(zip(self.own, self.neighbours, strict=True)):
            pairs = pairwise(states)
            states = [own(inner) + neighbours(outer.mean(dim=-2)) for inner, outer in pairs]
            if index < len(self.own) - 1:
                states = [torch.relu(state) for state in states]
        return SimpleNamespace(logits=states[0])

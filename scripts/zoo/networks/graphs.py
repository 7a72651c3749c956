"""Networks over graphs of nodes and edges; an edge list is [2, edges], from the first row to the second."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import nn


def gathered(values: torch.Tensor, receivers: torch.Tensor, nodes: int) -> torch.Tensor:
    """The sum of the edges' values at each receiving node."""
    return values.new_zeros(nodes, *values.shape[1:]).index_add(0, receivers, values)


class GCN(nn.Module):
    """arXiv:1609.02907; `scales` [edges] is the normalisation, which only depends on the graph."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:], strict=False))

    def forward(self, features: torch.Tensor, edges: torch.Tensor, scales: torch.Tensor) -> SimpleNamespace:
        senders, receivers = edges
        for index, layer in enumerate(self.layers):
            if index:
                features = torch.relu(features)
            sent = nn.functional.linear(features, layer.weight)[senders] * scales[:, None]
            features = gathered(sent, receivers, len(features)) + layer.bias
        return SimpleNamespace(logits=features)


class Attending(nn.Module):
    """A layer of arXiv:1710.10903: each node weighs what its neighbours send."""

    def __init__(self, before: int, heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.values = nn.Linear(before, heads * width, bias=False)
        self.sender = nn.Parameter(torch.empty(heads, width))
        self.receiver = nn.Parameter(torch.empty(heads, width))
        self.bias = nn.Parameter(torch.empty(heads * width))

    def forward(self, features: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        senders, receivers = edges
        values = self.values(features).reshape(-1, self.heads, self.width)
        to_send, to_receive = ((values * vector).sum(-1) for vector in (self.sender, self.receiver))
        scores = torch.exp(nn.functional.leaky_relu(to_send[senders] + to_receive[receivers], 0.2))
        shares = scores / gathered(scores, receivers, len(features))[receivers]
        sums = gathered(values[senders] * shares[:, :, None], receivers, len(features))
        return sums.flatten(1) + self.bias


class GAT(nn.Module):
    """arXiv:1710.10903 with its sizes for Cora: eight heads of 8, then one."""

    def __init__(self, features: int = 1433, heads: int = 8, width: int = 8, classes: int = 7) -> None:
        super().__init__()
        self.first = Attending(features, heads, width)
        self.second = Attending(heads * width, 1, classes)

    def forward(self, features: torch.Tensor, edges: torch.Tensor) -> SimpleNamespace:
        hidden = nn.functional.elu(self.first(features, edges))
        return SimpleNamespace(logits=self.second(hidden, edges))


class GraphSAGE(nn.Module):
    """arXiv:1706.02216 over sampled neighbourhoods: means of 10, 10 and 15 neighbours, the outermost first."""

    def __init__(
        self, nodes: int = 2_449_029, features: int = 100, width: int = 256, classes: int = 47, layers: int = 3
    ) -> None:
        super().__init__()
        self.features = nn.Parameter(torch.empty(nodes, features))
        widths = [features] + [width] * (layers - 1) + [classes]
        pairs = list(zip(widths, widths[1:], strict=False))
        self.own = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.neighbours = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs)

    def forward(self, *ids: torch.Tensor, **named: torch.Tensor) -> SimpleNamespace:
        rings = [nn.functional.embedding(nodes, self.features) for nodes in named.values()]
        for index, (own, neighbours) in enumerate(zip(self.own, self.neighbours, strict=True)):
            pairs = zip(rings, rings[1:], strict=False)
            rings = [own(inner) + neighbours(outer.mean(dim=-2)) for inner, outer in pairs]
            if index < len(self.own) - 1:
                rings = [torch.relu(ring) for ring in rings]
        return SimpleNamespace(logits=rings[0])

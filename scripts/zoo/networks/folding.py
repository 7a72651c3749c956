"""The work on pairs of residues in protein structure prediction."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn


class TriangleProduct(nn.Module):
    """Triangular multiplicative update: algorithms 11 (outgoing) and 12 (incoming edges)."""

    def __init__(self, width: int, inner: int, outgoing: bool) -> None:
        super().__init__()
        self.outgoing = outgoing
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(inner)
        self.left, self.left_gate = nn.Linear(width, inner), nn.Linear(width, inner)
        self.right, self.right_gate = nn.Linear(width, inner), nn.Linear(width, inner)
        self.result, self.gate = nn.Linear(inner, width), nn.Linear(width, width)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        x = self.before(pairs)
        left = (torch.sigmoid(self.left_gate(x)) * self.left(x)).permute(0, 3, 1, 2)
        right = (torch.sigmoid(self.right_gate(x)) * self.right(x)).permute(0, 3, 1, 2)
        products = left @ right.transpose(-1, -2) if self.outgoing else left.transpose(-1, -2) @ right
        return pairs + torch.sigmoid(self.gate(x)) * self.result(self.after(products.permute(0, 2, 3, 1)))


class TriangleAttention(nn.Module):
    """Triangular self-attention: algorithms 13 (around the starting node) and 14 (around the ending node)."""

    def __init__(self, width: int, heads: int, size: int, starting: bool) -> None:
        super().__init__()
        self.heads, self.size, self.starting = heads, size, starting
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, heads * size, bias=False) for _ in range(3))
        self.bias = nn.Linear(width, heads, bias=False)
        self.gate, self.result = nn.Linear(width, heads * size), nn.Linear(heads * size, width)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        x = self.norm(pairs if self.starting else pairs.transpose(1, 2))

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.unflatten(-1, (self.heads, self.size)).transpose(2, 3)

        query, key, value = split(self.query(x) * self.size**-0.5), split(self.key(x)), split(self.value(x))
        scores = query @ key.transpose(-1, -2) + self.bias(x).permute(0, 3, 1, 2)[:, None]
        result = (torch.softmax(scores, dim=-1) @ value).transpose(2, 3).flatten(-2)
        update = self.result(torch.sigmoid(self.gate(x)) * result)
        return pairs + (update if self.starting else update.transpose(1, 2))


class PairBlock(nn.Module):
    """The pair half of an Evoformer block (AlphaFold 2, doi:10.1038/s41586-021-03819-2, supplement 1.6)."""

    def __init__(self, width: int = 128, heads: int = 4, size: int = 32) -> None:
        super().__init__()
        self.updates = nn.Sequential(
            TriangleProduct(width, width, outgoing=True),
            TriangleProduct(width, width, outgoing=False),
            TriangleAttention(width, heads, size, starting=True),
            TriangleAttention(width, heads, size, starting=False),
        )
        self.transition = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )

    def forward(self, pairs: torch.Tensor) -> SimpleNamespace:
        pairs = self.updates(pairs)
        return SimpleNamespace(updated=pairs + self.transition(pairs))

"""Networks for ranking: multi-layer perceptrons over tables of embeddings, one row of each for a request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from types import SimpleNamespace

import torch
from torch import nn

# Rows of the 26 categorical features of the Criteo display advertising data set of 2014.
CRITEO = (
    *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194),
    *(27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572),
)
CRITEO_NUMBERS = 13


def perceptron(widths: Sequence[int], last: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return linear layers with ReLU between them and `last` after them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1], last())


class Tables(nn.Module):
    """Return a row of each table, for ids [batch] of each."""

    def __init__(self, rows: Sequence[int], width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(number, width) for number in rows)

    def forward(self, ids: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        return [table(rows) for table, rows in zip(self.tables, ids, strict=True)]


class DLRM(nn.Module):
    """DLRM (arXiv:1906.00091) with the sizes that it is benchmarked with on Criteo's data: rows of 16."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.tables = Tables(CRITEO, width)
        self.bottom = perceptron((CRITEO_NUMBERS, 512, 256, 64, width))
        vectors = len(CRITEO) + 1
        pairs = [row * vectors + column for row in range(vectors) for column in range(row)]
        self.register_buffer("pairs", torch.tensor(pairs))
        self.top = perceptron((width + len(pairs), 512, 256, 1), nn.Sigmoid)

    def forward(self, numbers: torch.Tensor, **categories: torch.Tensor) -> SimpleNamespace:
        dense = self.bottom(numbers)
        vectors = torch.stack([dense, *self.tables(categories.values())], dim=1)
        products = (vectors @ vectors.transpose(1, 2)).flatten(1)
        pairs = products.index_select(1, self.pairs)
        return SimpleNamespace(probability=self.top(torch.cat([dense, pairs], dim=1)))


class DCN(nn.Module):
    """DCN-V2 (arXiv:2008.13535), parallel: cross layers of full rank beside a perceptron, on Criteo's data."""

    def __init__(self, width: int = 16, crosses: int = 3) -> None:
        super().__init__()
        self.tables = Tables(CRITEO, width)
        features = CRITEO_NUMBERS + width * len(CRITEO)
        self.crosses = nn.ModuleList(nn.Linear(features, features) for _ in range(crosses))
        self.deep = perceptron((features, 1024, 1024, 512))
        self.top = nn.Linear(features + 512, 1)

    def forward(self, numbers: torch.Tensor, **categories: torch.Tensor) -> SimpleNamespace:
        first = torch.cat([numbers, *self.tables(categories.values())], dim=1)
        crossed = first
        for layer in self.crosses:
            crossed = first * layer(crossed) + crossed
        both = torch.cat([crossed, self.deep(first)], dim=1)
        return SimpleNamespace(probability=torch.sigmoid(self.top(both)))


class TwoTowers(nn.Module):
    """Retrieval by two towers (doi:10.1145/3298689.3346996): a user with a history against a corpus of items."""

    def __init__(self, users: int = 1_000_000, items: int = 100_000, width: int = 64) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(users, width), nn.Embedding(items, width)
        self.user_tower = perceptron((2 * width, 512, 256, 128), nn.Identity)
        self.item_tower = perceptron((width, 512, 256, 128), nn.Identity)

    def forward(self, user: torch.Tensor, history: torch.Tensor, candidates: torch.Tensor) -> SimpleNamespace:
        seen = self.items(history).mean(dim=1)
        query = self.user_tower(torch.cat([self.users(user), seen], dim=1))
        keys = self.item_tower(self.items(candidates))
        scores, places = torch.topk((keys @ query[:, :, None])[:, :, 0], 100)
        return SimpleNamespace(scores=scores, places=places)

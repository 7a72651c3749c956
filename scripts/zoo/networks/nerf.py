"""The radiance field of arXiv:2003.08934."""

from __future__ import annotations

import torch
from torch import nn

# Sines and cosines of 10 and of 4 octaves of three coordinates, beside the coordinates themselves.
POSITION, DIRECTION = 63, 27
DEPTH, WIDTH, SKIP = 8, 256, 5


class NeRF(nn.Module):
    """Eight layers, the position again before the sixth; the direction of view joins after them."""

    def __init__(self) -> None:
        super().__init__()
        inputs = (POSITION, *(WIDTH + POSITION * (layer == SKIP) for layer in range(1, DEPTH)))
        self.layers = nn.ModuleList(nn.Linear(size, WIDTH) for size in inputs)
        self.density, self.feature = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH)
        self.view, self.colour = nn.Linear(WIDTH + DIRECTION, WIDTH // 2), nn.Linear(WIDTH // 2, 3)

    def forward(self, positions: torch.Tensor, directions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map encoded points [..., POSITION] and views [..., DIRECTION] to colour [..., 3] and density [..., 1]."""
        x = positions
        for layer, linear in enumerate(self.layers):
            x = linear(torch.cat((positions, x), -1) if layer == SKIP else x).relu()
        seen = self.view(torch.cat((self.feature(x), directions), -1)).relu()
        return self.colour(seen).sigmoid(), self.density(x).relu()

"""The super-resolution network of arXiv:1707.02921."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Sequential):
    """Two convolutions with a residual connection and no normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + super().forward(x)


class EDSR(nn.Module):
    """The paper's baseline: all work at the low resolution, then pixels out of channels."""

    def __init__(self, width: int = 64, depth: int = 16, scale: int = 2) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        last = nn.Conv2d(width, width, 3, padding=1)
        self.body = nn.Sequential(*(Block(width) for _ in range(depth)), last)
        self.enlarge = nn.Sequential(nn.Conv2d(width, width * scale**2, 3, padding=1), nn.PixelShuffle(scale))
        self.tail = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Map images [batch, 3, side, side] to images [batch, 3, scale * side, scale * side]."""
        x = self.head(pixel_values)
        return self.tail(self.enlarge(x + self.body(x)))

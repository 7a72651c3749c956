"""The generator of sound of arXiv:1609.03499, over all samples at once as in training."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

LEVELS = 256
DILATIONS = tuple(1 << power for power in range(10)) * 3


class Layer(nn.Module):
    """A gated causal convolution with a residual connection."""

    def __init__(self, width: int, skip: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.gated = nn.Conv1d(width, 2 * width, 2, dilation=dilation)
        self.around, self.skip = nn.Conv1d(width, width, 1), nn.Conv1d(width, skip, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value, gate = self.gated(functional.pad(x, (self.dilation, 0))).chunk(2, 1)
        y = value.tanh() * gate.sigmoid()
        return x + self.around(y), self.skip(y)


class WaveNet(nn.Module):
    """Thirty layers in three cycles of dilations from 1 to 512."""

    def __init__(self, width: int = 64, skip: int = 256) -> None:
        super().__init__()
        # A one-hot sample times a matrix is a row of the matrix.
        self.embedding = nn.Embedding(LEVELS, width)
        self.layers = nn.ModuleList(Layer(width, skip, dilation) for dilation in DILATIONS)
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, LEVELS, 1))

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        """Map quantised samples [batch, time] to logits of the next one [batch, LEVELS, time]."""
        x = self.embedding(samples).transpose(1, 2)
        skips = None
        for layer in self.layers:
            x, skip = layer(x)
            skips = skip if skips is None else skips + skip
        return self.head(skips)

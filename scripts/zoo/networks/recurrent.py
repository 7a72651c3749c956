"""Recurrent and temporal networks."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn


class LanguageLSTM(nn.Module):
    """Two layers of LSTM over words: arXiv:1409.2329, 650 (medium) or 1,500 (large) wide."""

    def __init__(self, width: int, words: int = 10_000) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, input_ids: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.head(self.layers(self.embedding(input_ids))[0]))


class DeepSpeech2(nn.Module):
    """DeepSpeech 2 (arXiv:1512.02595): two convolutions over a spectrogram, bidirectional GRUs, characters."""

    def __init__(self, width: int = 800, layers: int = 5, bins: int = 161, characters: int = 29) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), stride=(2, 2), padding=(20, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
            nn.Conv2d(32, 32, (21, 11), stride=(2, 1), padding=(10, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20),
        )
        features = 32 * ((bins + 3) // 4)
        widths = [features] + [width] * (layers - 1)
        self.layers = nn.ModuleList(nn.GRU(wide, width, bidirectional=True, batch_first=True) for wide in widths)
        self.head = nn.Linear(width, characters)

    def forward(self, spectrogram: torch.Tensor) -> SimpleNamespace:
        frames = self.convolutions(spectrogram).flatten(1, 2).transpose(1, 2)
        for layer in self.layers:
            forwards, backwards = layer(frames)[0].chunk(2, dim=-1)
            frames = forwards + backwards
        return SimpleNamespace(logits=self.head(frames))


class Residual(nn.Module):
    """Two dilated causal convolutions with a residual connection."""

    def __init__(self, before: int, after: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.reach = (kernel - 1) * dilation
        self.first = nn.Conv1d(before, after, kernel, dilation=dilation)
        self.second = nn.Conv1d(after, after, kernel, dilation=dilation)
        self.around = nn.Conv1d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = x
        for layer in (self.first, self.second):
            inner = torch.relu(layer(nn.functional.pad(inner, (self.reach, 0))))
        return torch.relu(inner + self.around(x))


class TCN(nn.Module):
    """A temporal convolutional network over words: arXiv:1803.01271, four levels of 600 channels."""

    def __init__(self, words: int = 10_000, width: int = 600, levels: int = 4, kernel: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.levels = nn.Sequential(*(Residual(width, width, kernel, 2**level) for level in range(levels)))
        self.head = nn.Linear(width, words)

    def forward(self, input_ids: torch.Tensor) -> SimpleNamespace:
        hidden = self.levels(self.embedding(input_ids).transpose(1, 2))
        return SimpleNamespace(logits=self.head(hidden.transpose(1, 2)))

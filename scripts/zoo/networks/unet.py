"""The segmentation network of arXiv:1505.04597."""

from __future__ import annotations

import torch
from torch import nn

WIDTHS = (64, 128, 256, 512, 1024)


def double_convolution(channels: int, width: int) -> nn.Sequential:
    first, second = nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())


class UNet(nn.Module):
    """Five resolutions with padded convolutions, so that the mask has the image's size (the paper crops)."""

    def __init__(self, channels: int = 1, classes: int = 2) -> None:
        super().__init__()
        self.down = nn.ModuleList(map(double_convolution, (channels, *WIDTHS), WIDTHS))
        upwards = WIDTHS[-2::-1]
        self.enlarge = nn.ModuleList(nn.ConvTranspose2d(2 * width, width, 2, stride=2) for width in upwards)
        self.up = nn.ModuleList(double_convolution(2 * width, width) for width in upwards)
        self.shrink = nn.MaxPool2d(2)
        self.head = nn.Conv2d(WIDTHS[0], classes, 1)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Map images [batch, channels, side, side] to logits [batch, classes, side, side]."""
        x, skipped = self.down[0](pixel_values), []
        for stage in self.down[1:]:
            skipped.append(x)
            x = stage(self.shrink(x))
        for enlarge, stage in zip(self.enlarge, self.up, strict=True):
            x = stage(torch.cat((skipped.pop(), enlarge(x)), 1))
        return self.head(x)

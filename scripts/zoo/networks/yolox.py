"""The one-stage detector of arXiv:2107.08430: a CSP backbone, a path-aggregation pyramid, decoupled heads."""

from __future__ import annotations

import torch
from torch import nn

CLASSES = 80
POOLINGS = (5, 9, 13)


class Unit(nn.Sequential):
    """Convolution, normalisation, SiLU."""

    def __init__(self, channels: int, width: int, kernel: int = 1, stride: int = 1) -> None:
        convolution = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(width), nn.SiLU())


class Bottleneck(nn.Sequential):
    def __init__(self, width: int, residual: bool) -> None:
        super().__init__(Unit(width, width), Unit(width, width, 3))
        self.residual = residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + super().forward(x) if self.residual else super().forward(x)


class PartialStage(nn.Module):
    """Cross-stage partial block: half of the channels go through the bottlenecks, half around them."""

    def __init__(self, channels: int, width: int, depth: int, residual: bool = False) -> None:
        super().__init__()
        self.through, self.around = Unit(channels, width // 2), Unit(channels, width // 2)
        self.blocks = nn.Sequential(*(Bottleneck(width // 2, residual) for _ in range(depth)))
        self.merge = Unit(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.merge(torch.cat((self.blocks(self.through(x)), self.around(x)), 1))


class PyramidPooling(nn.Module):
    """Spatial pyramid pooling: maxima over windows of several sizes, side by side."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = Unit(width, width // 2), Unit(width // 2 * (1 + len(POOLINGS)), width)
        self.pools = nn.ModuleList(nn.MaxPool2d(size, 1, size // 2) for size in POOLINGS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.before(x)
        return self.after(torch.cat((x, *(pool(x) for pool in self.pools)), 1))


class Head(nn.Module):
    """Classes by one branch, box and objectness by another."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.stem = Unit(channels, width)
        self.of_class = nn.Sequential(Unit(width, width, 3), Unit(width, width, 3), nn.Conv2d(width, CLASSES, 1))
        self.of_box = nn.Sequential(Unit(width, width, 3), Unit(width, width, 3))
        self.box, self.objectness = nn.Conv2d(width, 4, 1), nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one vector of 5 + CLASSES numbers for each pixel: [batch, 5 + CLASSES, pixels]."""
        x = self.stem(x)
        box = self.of_box(x)
        scores = torch.cat((self.objectness(box), self.of_class(x)), 1).sigmoid()
        return torch.cat((self.box(box), scores), 1).flatten(2)


class YOLOX(nn.Module):
    """YOLOX; `width` is that of the first stage, `depth` that of the shallow ones: (64, 1) is YOLOX-s."""

    def __init__(self, width: int = 64, depth: int = 1) -> None:
        super().__init__()
        a, b, c, d = (width << stage for stage in range(4))
        self.stem = Unit(12, a // 2, 3)
        self.shallow = nn.Sequential(Unit(a // 2, a, 3, 2), PartialStage(a, a, depth, True))
        self.stage3 = nn.Sequential(Unit(a, b, 3, 2), PartialStage(b, b, 3 * depth, True))
        self.stage4 = nn.Sequential(Unit(b, c, 3, 2), PartialStage(c, c, 3 * depth, True))
        self.stage5 = nn.Sequential(Unit(c, d, 3, 2), PyramidPooling(d), PartialStage(d, d, depth))
        self.lateral5, self.merge4 = Unit(d, c), PartialStage(2 * c, c, depth)
        self.lateral4, self.merge3 = Unit(c, b), PartialStage(2 * b, b, depth)
        self.down3, self.out4 = Unit(b, b, 3, 2), PartialStage(2 * b, c, depth)
        self.down4, self.out5 = Unit(c, c, 3, 2), PartialStage(2 * c, d, depth)
        self.heads = nn.ModuleList(Head(channels, 2 * a) for channels in (b, c, d))
        self.enlarge = nn.Upsample(scale_factor=2)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Map images [batch, 3, side, side] to predictions [batch, pixels of strides 8, 16 and 32, 5 + CLASSES]."""
        corners = [pixel_values[..., row::2, column::2] for column in (0, 1) for row in (0, 1)]
        x3 = self.stage3(self.shallow(self.stem(torch.cat(corners, 1))))
        x4 = self.stage4(x3)
        lateral5 = self.lateral5(self.stage5(x4))
        lateral4 = self.lateral4(self.merge4(torch.cat((self.enlarge(lateral5), x4), 1)))
        y3 = self.merge3(torch.cat((self.enlarge(lateral4), x3), 1))
        y4 = self.out4(torch.cat((self.down3(y3), lateral4), 1))
        y5 = self.out5(torch.cat((self.down4(y4), lateral5), 1))
        predictions = [head(y) for head, y in zip(self.heads, (y3, y4, y5), strict=True)]
        return torch.cat(predictions, 2).transpose(1, 2)

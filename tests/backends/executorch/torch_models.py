"""Networks in plain torch, and how ExecuTorch makes programs of them."""

import warnings
from functools import partial

import torch
from torch import nn


class Residual(nn.Module):
    """Two convolutions beside a way around them, which has one if the shape changes."""

    def __init__(self, before, after, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            *convolution(before, after, 3, stride), nn.ReLU(), *convolution(after, after, 3), nn.Identity()
        )
        same = before == after and stride == 1
        self.around = nn.Identity() if same else nn.Sequential(*convolution(before, after, 1, stride))

    def forward(self, x):
        return torch.relu(self.body(x) + self.around(x))


class Inverted(nn.Module):
    """MobileNetV2's block: wider, by channel, narrower, and a way around if the shape stays."""

    def __init__(self, before, after, stride, widening):
        super().__init__()
        wide = before * widening
        parts = [*convolution(before, wide, 1), nn.ReLU6()] if widening > 1 else []
        parts += [*convolution(wide, wide, 3, stride, wide), nn.ReLU6(), *convolution(wide, after, 1)]
        self.body, self.same = nn.Sequential(*parts), before == after and stride == 1

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


class Attention(nn.Module):
    """A layer of a transformer, its heads as batches."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.inner(self.first(x)).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        scores = (query @ key.transpose(-1, -2) / key.shape[-1] ** 0.5).softmax(-1)
        x = x + self.outer((scores @ value).transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.second(x))


class Counter(nn.Module):
    """Adds its input to a buffer that stays from run to run, and returns an input as it came."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(64))

    def forward(self, x):
        self.total.add_(x)
        return torch.relu(self.total) * 2, x


class Branches(nn.Module):
    """A branch that depends on data."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


def convolution(before, after, size, stride=1, groups=1):
    """A convolution that keeps the image's size but for the stride, and a normalisation."""
    layer = nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False)
    return layer, nn.BatchNorm2d(after)


def head(channels, classes=10):
    """The mean of the image and its classes."""
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)


def small():
    """Three convolutions."""
    parts = [*convolution(3, 8, 3), nn.ReLU(), *convolution(8, 16, 3, 2), nn.ReLU(), *convolution(16, 8, 3, 2)]
    return nn.Sequential(*parts, nn.ReLU(), *head(8)), torch.randn(1, 3, 32, 32)


def residual(widths=(16, 32), depth=1, size=32, classes=10):
    """Residual blocks; each width halves the image."""
    parts, before = [*convolution(3, widths[0], 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], widths[0]
    for index, width in enumerate(widths):
        for layer in range(depth):
            parts.append(Residual(before, width, 2 if index and not layer else 1))
            before = width
    return nn.Sequential(*parts, *head(before, classes)), torch.randn(1, 3, size, size)


def transformer(layers=1, width=32, tokens=16):
    """Layers of four heads."""
    return nn.Sequential(*[Attention(width, 4) for _ in range(layers)]), torch.randn(1, tokens, width)


def mobilenet(size=96):
    """MobileNetV2."""
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    parts, before = [*convolution(3, 32, 3, 2), nn.ReLU6()], 32
    for widening, width, depth, stride in rows:
        for layer in range(depth):
            parts.append(Inverted(before, width, stride if layer == 0 else 1, widening))
            before = width
    parts += [*convolution(before, 1280, 1), nn.ReLU6(), *head(1280, 1000)]
    return nn.Sequential(*parts), torch.randn(1, 3, size, size)


SMALL = {"cnn": small, "residual": residual, "transformer": transformer}
LARGE = {
    "ResNet-18": partial(residual, (64, 128, 256, 512), 2, 96, 1000),
    "transformer, 4 layers of 128": partial(transformer, 4, 128, 128),
    "MobileNetV2": mobilenet,
}


def built(make):
    """A network with weights that are always the same, and its input."""
    torch.manual_seed(0)
    made, x = make()
    return made.eval(), (x,)


def exported(network, inputs, planner=None, **options):
    """ExecuTorch's program of a network with a planner, or with its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from executorch.exir import ExecutorchBackendConfig, to_edge
        from executorch.exir.passes import MemoryPlanningPass

        planning = MemoryPlanningPass(memory_planning_algo=planner, **options)
        edge = to_edge(torch.export.export(network, inputs))
        return edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))

"""Networks for images."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn

from scripts.zoo.entry import Entry, hf


class AlexNet(nn.Sequential):
    """The single-tower network of arXiv:1404.5997."""

    def __init__(self) -> None:
        layers: list[nn.Module] = []
        convolutions = ((3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1))
        for index, numbers in enumerate((*convolutions, (384, 256, 3, 1, 1), (256, 256, 3, 1, 1))):
            layers += [nn.Conv2d(*numbers), nn.ReLU()]
            if index in (0, 1, 4):
                layers.append(nn.MaxPool2d(3, stride=2))
        layers += [nn.Flatten(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU()]
        super().__init__(*layers, nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))

    def forward(self, pixel_values: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=super().forward(pixel_values))


class Mean(nn.Module):
    """Global pooling that exports as one operator; AdaptiveAvgPool1d adds a gather."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(-1, keepdim=True)


def swin() -> nn.Module:
    model = hf("SwinForImageClassification", num_labels=1000)()
    model.swin.pooler = Mean()
    return model


MODELS = {
    "ResNet50": Entry(
        hf("ResNetForImageClassification", depths=[3, 4, 6, 3], num_labels=1000),
        outputs=("probabilities",),
    ),
    "ResNet101": Entry(
        hf("ResNetForImageClassification", depths=[3, 4, 23, 3], num_labels=1000),
        outputs=("probabilities",),
    ),
    "MobileNetV2": Entry(
        hf("MobileNetV2ForImageClassification", num_labels=1001),
    ),
    "ViT": Entry(
        hf("ViTForImageClassification", num_labels=1000),
    ),
    "ConvNeXt-tiny": Entry(
        hf("ConvNextForImageClassification", num_labels=1000),
    ),
    "Swin-tiny": Entry(
        swin,
    ),
    "AlexNet": Entry(AlexNet),
}

"""Networks that classify images."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from scripts.zoo.entry import Entry, hf, image


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


def swin(**numbers: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        model = hf("SwinForImageClassification", num_labels=1000, **numbers)()
        model.swin.pooler = Mean()
        return model

    return build


SMALL = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
LARGE = {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096, "num_hidden_layers": 24}

MODELS = {
    "ResNet18": Entry(
        hf(
            "ResNetForImageClassification",
            layer_type="basic",
            hidden_sizes=[64, 128, 256, 512],
            depths=[2, 2, 2, 2],
            num_labels=1000,
        ),
        outputs=("probabilities",),
    ),
    "ResNet50": Entry(
        hf("ResNetForImageClassification", depths=[3, 4, 6, 3], num_labels=1000),
        outputs=("probabilities",),
    ),
    "ResNet101": Entry(
        hf("ResNetForImageClassification", depths=[3, 4, 23, 3], num_labels=1000),
        outputs=("probabilities",),
    ),
    "MobileNetV1": Entry(
        hf("MobileNetV1ForImageClassification", num_labels=1001),
    ),
    "MobileNetV2": Entry(
        hf("MobileNetV2ForImageClassification", num_labels=1001),
    ),
    "ViT": Entry(
        hf("ViTForImageClassification", num_labels=1000),
    ),
    "ViT-large": Entry(
        hf("ViTForImageClassification", **LARGE, num_labels=1000),
    ),
    "DeiT-small": Entry(
        hf("DeiTForImageClassificationWithTeacher", **SMALL, num_labels=1000),
    ),
    "DINOv2-small": Entry(
        hf("Dinov2ForImageClassification", hidden_size=384, num_attention_heads=6, num_labels=1000),
    ),
    "ConvNeXt-tiny": Entry(
        hf("ConvNextForImageClassification", num_labels=1000),
    ),
    "ConvNeXt-base": Entry(
        hf(
            "ConvNextForImageClassification",
            depths=[3, 3, 27, 3],
            hidden_sizes=[128, 256, 512, 1024],
            num_labels=1000,
        ),
    ),
    "Swin-tiny": Entry(
        swin(),
    ),
    "Swin-base": Entry(
        swin(embed_dim=128, depths=[2, 2, 18, 2], num_heads=[4, 8, 16, 32]),
    ),
    "MobileViT-small": Entry(
        hf("MobileViTForImageClassification", num_labels=1000),
        (image(256),),
    ),
    "PoolFormer-S12": Entry(
        hf("PoolFormerForImageClassification", num_labels=1000),
    ),
    "LeViT-128": Entry(
        hf("LevitForImageClassification", num_labels=1000),
    ),
    "AlexNet": Entry(AlexNet),
}

"""Networks for images and videos from torchvision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torchvision
from torch import nn

from scripts.zoo.entry import IMAGE, Entry, Input, image

VIDEO = Input("pixel_values", ("batch", 3, 16, 112, 112), torch.float32)


class Detector(nn.Module):
    """A detector up to the raw predictions of its heads: no anchors, no suppression of overlaps."""

    def __init__(self, whole: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = whole.backbone, whole.head

    def forward(self, pixel_values: torch.Tensor) -> dict[str, torch.Tensor]:
        return self.head(list(self.backbone(pixel_values).values()))


def builder(name: str, **settings: Any) -> Callable[[], nn.Module]:
    return lambda: torchvision.models.get_model(name, weights=None, **settings)


def regnet() -> nn.Module:
    """Return the network with widths as numbers; its own code computes them by tensors, which need data."""
    with torch.device("cpu"):
        model = builder("regnet_y_1_6gf")()
    return model.to("meta")


def network(name: str, taken: Input = IMAGE, **settings: Any) -> Entry:
    return Entry(builder(name, **settings), (taken,), by_name=False)


def detector(name: str, side: int) -> Entry:
    build = builder(name, weights_backbone=None)
    return Entry(lambda: Detector(build()), (image(side),), ("cls_logits", "bbox_regression"))


MODELS = {
    "MobileNetV3": network("mobilenet_v3_large"),
    "EfficientNet-B0": network("efficientnet_b0"),
    "RegNetY-1.6GF": Entry(regnet, by_name=False),
    "DenseNet121": network("densenet121"),
    "InceptionV3": network("inception_v3", image(299), aux_logits=False, init_weights=False),
    "SqueezeNet": network("squeezenet1_1"),
    "ShuffleNetV2": network("shufflenet_v2_x1_0"),
    "VGG16": network("vgg16"),
    "R3D-18": network("r3d_18", VIDEO),
    "DeepLabV3": Entry(
        builder("deeplabv3_resnet50", weights_backbone=None),
        (image(520),),
        ("out",),
        by_name=False,
    ),
    "SSDLite": detector("ssdlite320_mobilenet_v3_large", 320),
    "RetinaNet": detector("retinanet_resnet50_fpn", 640),
}

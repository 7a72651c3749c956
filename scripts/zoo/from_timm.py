"""Networks for images from timm."""

from __future__ import annotations

from typing import Any

import timm

from scripts.zoo.entry import IMAGE, Entry, Input, image

# Attention as the products and the softmax that it is.
timm.layers.set_fused_attn(False)


def network(name: str, taken: Input = IMAGE, **settings: Any) -> Entry:
    return Entry(lambda: timm.create_model(name, pretrained=False, **settings), (taken,), by_name=False)


MODELS = {
    "Mixer-B16": network("mixer_b16_224"),
    "EfficientFormer-L1": network("efficientformer_l1"),
    "HRNet-W18": network("hrnet_w18"),
    "PNASNet-5": network("pnasnet5large", image(331)),
    # The usual pooling adds a gather behind a transposition.
    "CoAtNet-0": network("coatnet_0_rw_224", global_pool="fast"),
    "GhostNet": network("ghostnet_100"),
}

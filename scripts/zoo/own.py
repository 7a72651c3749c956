"""Entries of our own networks, see `networks`."""

from __future__ import annotations

import torch

from scripts.zoo.entry import Entry, Input, image
from scripts.zoo.networks.edsr import EDSR
from scripts.zoo.networks.nerf import DIRECTION, POSITION, NeRF
from scripts.zoo.networks.unet import UNet
from scripts.zoo.networks.wavenet import WaveNet
from scripts.zoo.networks.yolox import YOLOX

# 64 samples on each of 64 rays; a second of sound at 16 kHz.
POINTS, SAMPLES = 64 * 64, 16_000

MODELS = {
    "UNet-medical": Entry(UNet, (image(512, channels=1),)),
    "YOLOX-s": Entry(YOLOX, (image(640),), ("predictions",)),
    "EDSR": Entry(EDSR, (image(256),), ("pixels",)),
    "NeRF": Entry(
        NeRF,
        (
            Input("positions", ("batch", POINTS, POSITION), torch.float32),
            Input("directions", ("batch", POINTS, DIRECTION), torch.float32),
        ),
        ("colour", "density"),
    ),
    "WaveNet": Entry(WaveNet, (Input("samples", ("batch", SAMPLES)),)),
}

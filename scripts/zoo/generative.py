"""Networks that make pictures and sound."""

from __future__ import annotations

from types import SimpleNamespace

import torch
import transformers
from diffusers import AutoencoderKL, DiTTransformer2DModel, UNet2DConditionModel
from torch import nn

from scripts.zoo.entry import Entry, Input

STEP = Input("timestep", ("batch",))
CHANNELS = (128, 256, 512, 512)


class Decoder(nn.Module):
    """The half of an autoencoder that makes a picture of a latent one."""

    def __init__(self) -> None:
        super().__init__()
        whole = AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=CHANNELS,
            layers_per_block=2,
        )
        self.mix, self.decoder = whole.post_quant_conv, whole.decoder

    def forward(self, latents: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(sample=self.decoder(self.mix(latents)))


class Vocoder(nn.Module):
    """HiFi-GAN, from a spectrogram to a wave."""

    def __init__(self) -> None:
        super().__init__()
        self.model = transformers.SpeechT5HifiGan(transformers.SpeechT5HifiGanConfig())

    def forward(self, spectrogram: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(waveform=self.model(spectrogram))


def unet() -> nn.Module:
    return UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)


def dit(depth: int, heads: int) -> nn.Module:
    return DiTTransformer2DModel(
        num_layers=depth,
        num_attention_heads=heads,
        attention_head_dim=64,
        in_channels=4,
        out_channels=8,
        sample_size=32,
    )


LATENTS = Input("hidden_states", ("batch", 4, 32, 32), torch.float32)
CLASSES = Input("class_labels", ("batch",))

MODELS = {
    "SD1.5-UNet": Entry(
        unet,
        (
            Input("sample", ("batch", 4, 64, 64), torch.float32),
            STEP,
            Input("encoder_hidden_states", ("batch", 77, 768), torch.float32),
        ),
        ("sample",),
    ),
    "SD1.5-VAE-decoder": Entry(
        Decoder,
        (Input("latents", ("batch", 4, 64, 64), torch.float32),),
        ("sample",),
    ),
    "DiT-S-2": Entry(lambda: dit(12, 6), (LATENTS, STEP, CLASSES), ("sample",)),
    "DiT-XL-2": Entry(lambda: dit(28, 16), (LATENTS, STEP, CLASSES), ("sample",)),
    "HiFi-GAN": Entry(
        Vocoder,
        (Input("spectrogram", ("batch", "sequence", 80), torch.float32),),
        ("waveform",),
    ),
}

"""Networks that generate pictures and sound."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from diffusers import AutoencoderKL, DiTTransformer2DModel, UNet2DConditionModel
from diffusers.models.attention_processor import Attention
from torch import nn

from scripts.zoo.entry import Entry, Input

STEP = Input("timestep", ("batch",))
# From opset 21 on GroupNormalization is one operator.
NORMALISED = 21
CHANNELS = (128, 256, 512, 512)


class Attend:
    """An attention layer of diffusers with one transposition of the keys; the fused operator exports as two."""

    def __call__(
        self, layer: nn.Module, hidden_states: torch.Tensor, encoder_hidden_states: torch.Tensor | None = None, **_: Any
    ) -> torch.Tensor:
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        inputs = ((layer.to_q, hidden_states), (layer.to_k, source), (layer.to_v, source))
        query, key, value = (linear(x).unflatten(-1, (layer.heads, -1)).transpose(1, 2) for linear, x in inputs)
        shares = torch.softmax((query * layer.scale) @ key.transpose(-1, -2), dim=-1)
        return layer.to_out[0]((shares @ value).transpose(1, 2).flatten(2))


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


def attending(model: nn.Module) -> nn.Module:
    for layer in model.modules():
        if isinstance(layer, Attention):
            layer.set_processor(Attend())
    return model


def unet() -> nn.Module:
    return attending(UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8))


def dit(depth: int, heads: int, size: int) -> nn.Module:
    sizes = {"num_layers": depth, "num_attention_heads": heads, "attention_head_dim": size}
    return attending(DiTTransformer2DModel(**sizes, in_channels=4, out_channels=8, sample_size=32))


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
        opset=NORMALISED,
    ),
    "SD1.5-VAE-decoder": Entry(
        Decoder,
        (Input("latents", ("batch", 4, 64, 64), torch.float32),),
        ("sample",),
        opset=NORMALISED,
    ),
    "DiT-S-2": Entry(partial(dit, 12, 6, 64), (LATENTS, STEP, CLASSES), ("sample",)),
    "DiT-XL-2": Entry(partial(dit, 28, 16, 72), (LATENTS, STEP, CLASSES), ("sample",)),
    "HiFi-GAN": Entry(
        Vocoder,
        (Input("spectrogram", ("batch", "sequence", 80), torch.float32),),
        ("waveform",),
    ),
}

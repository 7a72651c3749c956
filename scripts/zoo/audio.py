"""Networks for sound."""

from __future__ import annotations

import torch

from scripts.zoo.entry import Entry, Input, hf

# One second at 16 kHz; the stack of convolutions makes 49 frames of it.
WAVE = Input("input_values", ("batch", 16000), torch.float32)

MODELS = {
    "Wav2Vec2": Entry(
        hf("Wav2Vec2ForCTC"),
        (WAVE,),
    ),
    "Conformer": Entry(
        hf(
            "Wav2Vec2ConformerForCTC",
            vocab_size=32,
            hidden_size=768,
            num_hidden_layers=12,
            position_embeddings_type="rotary",
        ),
        (WAVE,),
    ),
}

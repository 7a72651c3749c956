"""The ids and costs of the recorded results, from before the chips' default became the tiled model.

Tables that were not measured anew since then are those of roofline costs, with the memory of tpu-v4i at three quarters
of its published bandwidth. Their scripts make their tasks by `as_measured`, so that what they print can be replayed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memplace_env.registration import Formulation

PROGRAMS = (
    "AlexNet", "BERT", "BERT-Large", "ConvNeXt-tiny", "GPT2", "MobileNetV2", "ResNet101", "ResNet50", "Swin-tiny",
    "T5-small", "ViT", "Whisper-tiny",
)  # fmt: skip
"""The zoo as it was then."""

FIRST: dict[str, dict[str, dict[str, Any]]] = json.loads(
    Path(__file__).with_name("data").joinpath("first-ids.json").read_text("utf-8")
)
"""Settings of the ids that there were then, by formulation and name."""

ONE_SHOT, GAME = FIRST[Formulation.ONE_SHOT], FIRST[Formulation.GAME]

_CHIPS = {"tpu-v4i": str(Path(__file__).with_name("data") / "tpu-v4i-derated.toml")}


def as_measured(settings: Mapping[str, Any], formulation: Formulation) -> dict[str, Any]:
    """An environment's arguments, completed by the costs and the chip that its recorded results are of."""
    chip = settings.get("accelerator", formulation.traits.accelerator)
    return {**settings, "accelerator": _CHIPS.get(chip, chip), "costs": "roofline"}

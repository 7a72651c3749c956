"""Ids of the environments: settings in a table, nothing built until `gym.make`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

ONE_SHOT: dict[str, dict[str, Any]] = {
    "ResNet50": {"batch": 2, "dtype": "float16"},
    "ResNet101": {"batch": 2, "dtype": "int8"},
    "BERT": {"batch": 6, "dims": {"sequence": 384}, "dtype": "int8"},
    "BERT-Large": {"batch": 16, "dims": {"sequence": 128}, "dtype": "float16"},
    "MobileNetV2": {"batch": 1, "dtype": "int8"},
    "GPT2": {"batch": 8, "dims": {"sequence": 128}, "dtype": "float16"},
    "ViT": {"batch": 10, "dtype": "float16"},
    "T5-small": {"batch": 8, "dims": {"sequence": 384, "decoder_sequence": 128}, "dtype": "int8"},
    "Whisper-tiny": {"batch": 10, "dims": {"decoder_sequence": 128}, "dtype": "int8"},
    "ConvNeXt-tiny": {"batch": 10, "dtype": "float16"},
    "Swin-tiny": {"batch": 10, "dtype": "int8"},
    "AlexNet": {"batch": 32, "dtype": "int8"},
}
"""Settings of `MemPlace-<workload>-v0` on nnp-i, chosen for their measured headroom (docs/headroom.md)."""


GAME: dict[str, dict[str, Any]] = {
    "ResNet50": {"batch": 64, "dtype": "bfloat16"},
    "ResNet101": {"batch": 64, "dtype": "bfloat16"},
    "BERT": {"batch": 64, "dims": {"sequence": 384}, "dtype": "bfloat16"},
    "BERT-Large": {"batch": 64, "dims": {"sequence": 384}, "dtype": "bfloat16"},
    "MobileNetV2": {"batch": 128, "dtype": "bfloat16"},
    "GPT2": {"batch": 64, "dims": {"sequence": 384}, "dtype": "bfloat16"},
    "ViT": {"batch": 64, "dtype": "bfloat16"},
    "T5-small": {"batch": 64, "dims": {"sequence": 384, "decoder_sequence": 128}, "dtype": "bfloat16"},
    "Whisper-tiny": {"batch": 64, "dims": {"decoder_sequence": 32}, "dtype": "bfloat16"},
    "ConvNeXt-tiny": {"batch": 128, "dtype": "bfloat16"},
    "Swin-tiny": {"batch": 64, "dtype": "bfloat16"},
    "AlexNet": {"batch": 4, "dtype": "bfloat16"},
    "MobileNetV2-edge-tpu": {"workload": "MobileNetV2", "accelerator": "edge-tpu", "batch": 4, "dtype": "int8"},
    "MobileNetV2-ethos-u65": {"workload": "MobileNetV2", "accelerator": "ethos-u65", "batch": 1, "dtype": "int8"},
    "MatMul-standard": {"workload": "synthetic:matmul?factorisation=standard&size=8192&dtype=bfloat16"},
    "MatMul-strassen2": {"workload": "synthetic:matmul?factorisation=strassen-squared&size=8192&dtype=bfloat16"},
    "MatMul-rank47": {"workload": "synthetic:matmul?factorisation=rank-47&size=12288&dtype=int8"},
}
"""Settings of `MallocGame-<name>-v0`, of the workload with that name on tpu-v4i unless they say otherwise; chosen for
their measured headroom over XLA's solver (docs/game.md)."""


def one_shot_id(workload: str) -> str:
    """Id of a workload's one-shot environment."""
    return f"MemPlace-{workload}-v0"


def game_id(workload: str) -> str:
    """Id of a workload's sequential environment."""
    return f"MallocGame-{workload}-v0"


def register_envs() -> None:
    """Register every environment with Gymnasium; calling it again changes nothing."""
    _register("MemPlace-v0", "one_shot", "OneShot", {})
    for workload, settings in ONE_SHOT.items():
        _register(one_shot_id(workload), "one_shot", "OneShot", {"workload": workload, **settings})
    _register("MallocGame-v0", "malloc_game", "MallocGame", {})
    for workload, settings in GAME.items():
        _register(game_id(workload), "malloc_game", "MallocGame", {"workload": workload, **settings})


def _register(env_id: str, package: str, name: str, kwargs: dict[str, Any]) -> None:
    if env_id not in gym.registry:
        home = f"memplace_env.envs.{package}"
        gym.register(
            env_id, f"{home}.env:{name}Env", vector_entry_point=f"{home}.vector:{name}VectorEnv", kwargs=kwargs
        )

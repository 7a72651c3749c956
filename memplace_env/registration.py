"""Ids of the environments: settings in a table, nothing built until `gym.make`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import gymnasium as gym

ONE_SHOT: dict[str, dict[str, Any]] = {
    "ResNet50": {"batch": 2, "dtype": "float16"},
    "ResNet101": {"batch": 2, "dtype": "float16"},
    "BERT": {"batch": 16, "dims": {"sequence": 128}, "dtype": "float16"},
    "BERT-Large": {"batch": 4, "dims": {"sequence": 384}, "dtype": "float16"},
    "MobileNetV2": {"batch": 2, "dtype": "int8"},
    "GPT2": {"batch": 16, "dims": {"sequence": 128}, "dtype": "float16"},
    "ViT": {"batch": 8, "dtype": "int8"},
    "T5-small": {"batch": 16, "dims": {"sequence": 384, "decoder_sequence": 128}, "dtype": "int8"},
    "Whisper-tiny": {"batch": 8, "dims": {"decoder_sequence": 128}, "dtype": "float16"},
    "ConvNeXt-tiny": {"batch": 1, "dtype": "float16"},
    "Swin-tiny": {"batch": 32, "dtype": "float16"},
    "AlexNet": {"batch": 32, "dtype": "int8"},
    "BERT-edge-tpu": {
        "workload": "BERT",
        "accelerator": "edge-tpu",
        "batch": 4,
        "dims": {"sequence": 384},
        "dtype": "int8",
    },
    "BERT-Large-edge-tpu": {
        "workload": "BERT-Large",
        "accelerator": "edge-tpu",
        "batch": 16,
        "dims": {"sequence": 384},
        "dtype": "int8",
    },
    "GPT2-edge-tpu": {
        "workload": "GPT2",
        "accelerator": "edge-tpu",
        "batch": 4,
        "dims": {"sequence": 384},
        "dtype": "int8",
    },
    "T5-small-ethos-u65": {
        "workload": "T5-small",
        "accelerator": "ethos-u65",
        "batch": 2,
        "dims": {"sequence": 384, "decoder_sequence": 128},
        "dtype": "int8",
    },
}
"""Settings of `MemPlace-<name>-v0`, of the workload with that name on nnp-i unless they say otherwise; chosen by the
rule of `benchmarks/headroom.py`: where most is to be gained over what costs no search (docs/headroom.md)."""


GAME: dict[str, dict[str, Any]] = {
    "BERT": {"batch": 128, "dims": {"sequence": 384}, "dtype": "bfloat16"},
    "BERT-Large": {"batch": 128, "dims": {"sequence": 384}, "dtype": "bfloat16"},
    "GPT2": {"batch": 128, "dims": {"sequence": 128}, "dtype": "bfloat16"},
    "ViT": {"batch": 256, "dtype": "bfloat16"},
    "T5-small": {"batch": 256, "dims": {"sequence": 128, "decoder_sequence": 32}, "dtype": "bfloat16"},
    "Whisper-tiny": {"batch": 128, "dims": {"decoder_sequence": 32}, "dtype": "int8"},
    "Swin-tiny": {"batch": 256, "dtype": "int8"},
    "ResNet101-edge-tpu": {"workload": "ResNet101", "accelerator": "edge-tpu", "batch": 8, "dtype": "int8"},
    "BERT-Large-edge-tpu": {
        "workload": "BERT-Large",
        "accelerator": "edge-tpu",
        "batch": 4,
        "dims": {"sequence": 128},
        "dtype": "int8",
    },
    "GPT2-edge-tpu": {
        "workload": "GPT2",
        "accelerator": "edge-tpu",
        "batch": 1,
        "dims": {"sequence": 384},
        "dtype": "int8",
    },
    "ResNet101-ethos-u65": {"workload": "ResNet101", "accelerator": "ethos-u65", "batch": 2, "dtype": "int8"},
    "BERT-ethos-u65": {
        "workload": "BERT",
        "accelerator": "ethos-u65",
        "batch": 1,
        "dims": {"sequence": 128},
        "dtype": "int8",
    },
    "ViT-ethos-u65": {"workload": "ViT", "accelerator": "ethos-u65", "batch": 1, "dtype": "int8"},
    "ResNet50-intel-npu-4000": {
        "workload": "ResNet50",
        "accelerator": "intel-npu-4000",
        "batch": 8,
        "dtype": "int8",
    },
    "MatMul-strassen2": {"workload": "synthetic:matmul?factorisation=strassen-squared&size=8192&dtype=bfloat16"},
    "MatMul-rank47": {"workload": "synthetic:matmul?factorisation=rank-47&size=12288&dtype=int8"},
}
"""Settings of `MallocGame-<name>-v0`, of the workload with that name on tpu-v4i unless they say otherwise; chosen by
the rule of `benchmarks/game_grid.py`: where the optimum is 3 % or more below what costs no search (docs/game.md)."""


class Formulation(StrEnum):
    """How placing is posed as a problem; the value is how the command line and the agents call it.

    The dynamic one asks for the fastest plan of any kind where the one-shot one asks for a level for each tensor: its
    environments are the same.
    """

    ONE_SHOT = "one-shot"
    GAME = "game"
    DYNAMIC = "dynamic"

    @property
    def traits(self) -> Traits:
        """What belongs to it."""
        return _TRAITS[self]


class Traits(NamedTuple):
    """What belongs to a formulation.

    Attributes:
        prefix: of its ids; `<prefix>-v0` is the generic environment.
        home: module of its environment, and the name that its classes begin with.
        settings: of the registered workloads, by the name in their ids.
        accelerator: the chip unless another is asked for, and that of those workloads unless they say otherwise.
        baseline: what speed-ups are against.
    """

    prefix: str
    home: tuple[str, str]
    settings: Mapping[str, Mapping[str, Any]]
    accelerator: str
    baseline: str

    def env_id(self, workload: str | None = None) -> str:
        """Id of a registered workload's environment, or of the generic one."""
        return f"{self.prefix}-{workload}-v0" if workload else f"{self.prefix}-v0"


_TRAITS = {
    Formulation.ONE_SHOT: Traits("MemPlace", ("one_shot", "OneShot"), ONE_SHOT, "nnp-i", "native"),
    Formulation.GAME: Traits("MallocGame", ("malloc_game", "MallocGame"), GAME, "tpu-v4i", "all in backing memory"),
}
_TRAITS[Formulation.DYNAMIC] = _TRAITS[Formulation.ONE_SHOT]


def one_shot_id(workload: str) -> str:
    """Id of a registered workload's one-shot environment."""
    return Formulation.ONE_SHOT.traits.env_id(workload)


def game_id(workload: str) -> str:
    """Id of a registered workload's sequential environment."""
    return Formulation.GAME.traits.env_id(workload)


def register_envs() -> None:
    """Register every environment with Gymnasium; calling it again changes nothing."""
    for traits in _TRAITS.values():
        _register(traits, None, {})
        for workload, settings in traits.settings.items():
            _register(traits, workload, {"workload": workload, **settings})


def _register(traits: Traits, workload: str | None, kwargs: dict[str, Any]) -> None:
    env_id, (package, name) = traits.env_id(workload), traits.home
    if env_id not in gym.registry:
        home = f"memplace_env.envs.{package}"
        gym.register(
            env_id, f"{home}.env:{name}Env", vector_entry_point=f"{home}.vector:{name}VectorEnv", kwargs=kwargs
        )

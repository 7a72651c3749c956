"""Train, validation and test splits of the registered environments, by a rule that uses names only.

By family: a group of families with one backbone, blocks or tables goes where the SHA-256 of its name says, so that
nothing in test shares them with train, and a group that is added later moves no other. By chip: a product line of chips
stays together, as its members share their design; the chips with most environments are for training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from memplace_env._lib.plugins import SUITES, installed
from memplace_env.envs.registration import Formulation
from memplace_env.program.zoo import catalogue


class Split(StrEnum):
    """A part of the programs or the chips."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


SPLITS: Final = tuple(Split)
SYNTHETIC_FAMILY: Final = "AlphaTensor"
"""Family of the matrix products by factorisation, the only registered programs that are no networks."""
FORMULATIONS: Final = (Formulation.ONE_SHOT, Formulation.GAME)

_CHIP_LINES: Final = {"ethos": Split.TEST, "intel-npu": Split.VALIDATION}


def group_split(group: str) -> Split:
    """Return the split of a group of families: two of ten are for test, two for validation."""
    digit = int(hashlib.sha256(group.encode()).hexdigest(), 16) % 10
    return Split.TEST if digit < 2 else Split.VALIDATION if digit < 4 else Split.TRAIN


def chip_split(accelerator: str) -> Split:
    """Return the split of a shipped chip: Ethos-U is for test, Intel's NPU for validation, the others for training."""
    return next((split for line, split in _CHIP_LINES.items() if accelerator.startswith(line)), Split.TRAIN)


def split_suites() -> Mapping[str, tuple[str, ...]]:
    """Return the environment ids by split, each in the order of registration.

    `one-shot-train`, `one-shot-validation`, `one-shot-test` and the same of `game` are split by family;
    `one-shot-train-chips` and so on are the same environments split by chip. Use one kind of split at a time.
    """
    table: dict[str, list[str]] = {
        f"{formulation}-{split}{kind}": []
        for formulation in FORMULATIONS
        for kind in ("", "-chips")
        for split in SPLITS
    }
    for formulation in FORMULATIONS:
        traits = formulation.traits
        for name, settings in traits.settings.items():
            chip = settings.get("accelerator", traits.accelerator)
            table[f"{formulation}-{group_split(group_of(name, settings))}"].append(traits.env_id(name))
            table[f"{formulation}-{chip_split(chip)}-chips"].append(traits.env_id(name))
    return {suite: tuple(ids) for suite, ids in table.items()}


def suites() -> Mapping[str, tuple[str, ...]]:
    """Return the environment ids by the name of their suite: those of `split_suites`, and of installed plug-ins."""
    return {
        **split_suites(),
        **{name: ids for point in installed(SUITES).values() for name, ids in point.load()().items()},
    }


def family_of(name: str, settings: Mapping[str, Any]) -> str:
    """Return the family of a registered workload's program."""
    listing = catalogue().get(settings.get("workload", name))
    return listing.family if listing else SYNTHETIC_FAMILY


def group_of(name: str, settings: Mapping[str, Any]) -> str:
    """Return the group of a registered workload's program."""
    listing = catalogue().get(settings.get("workload", name))
    return listing.group if listing else SYNTHETIC_FAMILY

"""Ids of the environments: settings in a table, nothing built until `gym.make`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files
from typing import Any, NamedTuple

import gymnasium as gym

_IDS: dict[str, dict[str, dict[str, Any]]] = json.loads(files("memplace_env").joinpath("ids.json").read_text("utf-8"))

ONE_SHOT = _IDS["one-shot"]
"""Settings of `MemPlace-<name>-v0`, of the workload with that name on nnp-i unless they say otherwise; chosen by the
rule of `benchmarks/suite.py`: where there is something to gain over what costs no search (docs/programs.md)."""

GAME = _IDS["game"]
"""Settings of `MallocGame-<name>-v0`, of the workload with that name on tpu-v4i unless they say otherwise; chosen by
the same rule."""


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

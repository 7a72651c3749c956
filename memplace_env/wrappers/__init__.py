"""Wrappers and adapters: the environments in the shapes that other libraries want."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memplace_env.wrappers.graph_observation import GraphObservation
    from memplace_env.wrappers.measurement_noise import MeasurementNoise
    from memplace_env.wrappers.sb3 import SB3VecEnv
    from memplace_env.wrappers.skip_forced import SkipForced

__all__ = ["GraphObservation", "MeasurementNoise", "SB3VecEnv", "SkipForced"]

_HOME = {
    "GraphObservation": "graph_observation",
    "MeasurementNoise": "measurement_noise",
    "SB3VecEnv": "sb3",
    "SkipForced": "skip_forced",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

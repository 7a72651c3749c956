"""Wrappers, and adapters to other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplace_env._lib.lazy import export_lazily

if TYPE_CHECKING:
    from memplace_env.envs.wrappers.measurement_noise import MeasurementNoise as MeasurementNoise
    from memplace_env.envs.wrappers.sb3 import SB3VecEnv as SB3VecEnv

export_lazily(__name__, {"measurement_noise": "MeasurementNoise", "sb3": "SB3VecEnv"})

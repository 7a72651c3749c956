"""Accelerators: chips described in TOML."""

from memplace_env.accelerator.accelerator import Accelerator, MemoryLevel, Systolic

__all__ = ["Accelerator", "MemoryLevel", "Systolic"]

"""Accelerators: chips described in TOML."""

from memplace_env.accelerator.accelerator import Accelerator, MemoryLevel, Systolic
from memplace_env.accelerator.load import accelerator_names, load_accelerator

__all__ = ["Accelerator", "MemoryLevel", "Systolic", "accelerator_names", "load_accelerator"]

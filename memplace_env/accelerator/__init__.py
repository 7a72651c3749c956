"""Accelerators: chips described in TOML."""

from memplace_env.accelerator.accelerator import STREAMED, Accelerator, MemoryLevel, Systolic
from memplace_env.accelerator.load import accelerator_names, load_accelerator

__all__ = ["STREAMED", "Accelerator", "MemoryLevel", "Systolic", "accelerator_names", "load_accelerator"]

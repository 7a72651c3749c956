"""Accelerators: chips described in TOML."""

from memplace_env.machine.accelerator.accelerator import STREAMED, Accelerator, MeasuredTimes, MemoryLevel, Systolic
from memplace_env.machine.accelerator.load import accelerator_names, is_shipped, load_accelerator

__all__ = [
    "STREAMED",
    "Accelerator",
    "MeasuredTimes",
    "MemoryLevel",
    "Systolic",
    "accelerator_names",
    "is_shipped",
    "load_accelerator",
]

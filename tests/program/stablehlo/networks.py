"""Small instances of the training steps of the zoo, and what XLA counts of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from memplace_env.program.program import Program
from scripts.export_training import counted_by_us, counted_by_xla
from scripts.zoo.training import language, vision
from scripts.zoo.training.common import Step

SMALL: dict[str, Callable[[], Step]] = {
    "resnet": lambda: vision.resnet(batch=4, pixels=64, stages=((64, 1), (128, 2))),
    "vit": lambda: vision.vit(batch=4, layers=2, width=128, heads=4, pixels=64),
    "mixer": lambda: vision.mixer(batch=4, layers=2, width=128, pixels=64),
    "unet": lambda: vision.unet(batch=2, pixels=64, widths=(32, 64, 128)),
    "gpt2": lambda: language.gpt2(batch=4, length=64, layers=2, width=256, heads=4, vocabulary=512),
    "llama": lambda: language.llama(batch=2, length=64, layers=2, width=256, heads=8, key_heads=2, hidden=512),
    "dlrm": lambda: language.dlrm(batch=64),
}

__all__ = ["SMALL", "counted_by_us", "counted_by_xla", "flops", "shaped", "work"]


def shaped(*dims: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


def flops(function: Callable[..., Any], *arguments: Any) -> float:
    """Floating-point operations as XLA counts them before it optimises."""
    counts = jax.jit(function).lower(*arguments).cost_analysis()
    return float(counts["flops"] + counts.get("transcendentals", 0.0))


def work(program: Program) -> tuple[int, int]:
    """MACs and element operations."""
    return int(program.macs.sum()), int(program.vector_ops.sum())

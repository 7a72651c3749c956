"""Results that need parts on both sides of a cut, found by changing one side after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memplace_env.program.program import Program
from tests.program.models import tensor

Array = NDArray[Any]


def rows(program: Program, name: str) -> tuple[int, int]:
    """Blocks and rows of a tensor."""
    blocks, count = program.tensor_rows[tensor(program, name)].tolist()
    return blocks, count


def torn(function: Callable[[Array], Array], shape: tuple[int, ...], rows: tuple[int, int]) -> int:
    """Count results that need elements of both sides, over all cuts of an operand of small integers."""
    rng = np.random.default_rng(0)
    blocks, count = rows
    total = 0
    for cut in range(1, count):
        needed = []
        for side in (slice(None, cut), slice(cut, None)):
            changes = []
            for _ in range(8):
                value = rng.integers(-3, 4, shape).astype(float)
                other = value.reshape(blocks, count, -1).copy()
                other[:, side] = rng.integers(-3, 4, other[:, side].shape)
                changes.append(function(other.reshape(shape)) != function(value))
            needed.append(np.any(changes, axis=0))
        total += int((needed[0] & needed[1]).sum())
    return total


def windows(image: Array, size: int) -> Array:
    """Sums over the windows of that size of images [height, width], side by side; what is left over is left out."""
    height, width = (length // size for length in image.shape)
    kept: Array = image[: height * size, : width * size].reshape(height, size, width, size)
    return np.asarray(kept.sum((1, 3)))

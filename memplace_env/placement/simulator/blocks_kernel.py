"""The bytes in blocks by op and level."""

from __future__ import annotations

from memplace_env._lib.kernel import kernel


@kernel
def add_blocks(change, allocations, tensor_bytes):
    """Add a plan's blocks to int64[T + 2, L], by how much the bytes in blocks change at each op and level."""
    for row in range(len(allocations)):
        size, level = tensor_bytes[allocations[row, 0]], allocations[row, 1]
        change[allocations[row, 3], level] += size
        change[allocations[row, 4] + 1, level] -= size

"""Steps that several placing kernels share: an op's time, levels asked for, and the best-fit rule for gaps."""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.machine.costs.op_time_kernels import op_time


@kernel(forceinline=True, borrows=True)
def time_op(schedule, op, level, used_ps):
    """Return picoseconds of the op and of its backing port, and picojoules of its traffic, by `level` int[K].

    `used_ps` int64[L] is scratch, zeros before and after.
    """
    picojoules = 0
    # used_ps[l] sums up the time of the op's uses that level l serves.
    for use in range(schedule.use_ptr[op], schedule.use_ptr[op + 1]):
        served_by = np.uint8(level[schedule.use_tensor[use]])
        used_ps[served_by] += schedule.costs.use_ps[use, served_by]
        picojoules += schedule.costs.use_pj[use, served_by]
    whole, busy = op_time(schedule.costs, op, used_ps)
    for fast in range(len(used_ps)):
        used_ps[fast] = 0
    return whole, busy, picojoules


@kernel(forceinline=True, borrows=True)
def requested_level(assignment, decision_of, tensor, backing):
    """Return the level that an assignment requests for a tensor; the backing memory if none of its decisions does."""
    return np.int64(assignment[decision_of[tensor]]) if decision_of[tensor] >= 0 else np.int64(backing)


@kernel(forceinline=True, borrows=True)
def reassigned_bytes(schedule, assignment, decision_of, level):
    """Return the bytes of the tensors that did not get the level they asked for."""
    backing, moved = len(schedule.capacity) - 1, np.int64(0)
    # Only items can leave the backing memory; graph inputs and outputs lie there whatever is wanted.
    for tensor in schedule.item_tensor:
        if level[tensor] != requested_level(assignment, decision_of, tensor, backing):
            moved += schedule.tensor_bytes[tensor]
    return moved


@kernel(borrows=True)
def most_reserved(reserved_bytes, level, first, last):
    """Return the most bytes of a level that any of the ops first..last keeps for itself."""
    most = np.int64(0)
    for op in range(first, last + 1):
        most = max(most, reserved_bytes[op, level])
    return most


ENDLESS = np.int64(2**62)
"""Larger than any gap."""


@kernel
def narrower_gap(best, best_size, begin, gap_size, size):
    """Return (begin, size) of the better of two gaps for a block of `size` bytes: the smaller one that fits.

    Gaps are offered by rising address, so that of equal ones the lowest stays. `best` is -1 before any has fitted, with
    `best_size` ENDLESS.
    """
    # Strictly smaller, so that the earlier of two equal gaps stays.
    if size <= gap_size < best_size:
        return begin, gap_size
    return best, best_size

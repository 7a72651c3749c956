"""What the placing kernels of both kinds of machines have in common."""

from __future__ import annotations

import numpy as np

from memplace_env.costs.kernels import op_time
from memplace_env.kernel import kernel


@kernel(forceinline=True)
def time_op(schedule, op, level, used_ps):
    """(Picoseconds of the op, of its backing port, picojoules of its traffic) where tensors are in `level` int[K].

    `used_ps` int64[L] is scratch, zeros before and after.
    """
    picojoules = 0
    for use in range(schedule.use_ptr[op], schedule.use_ptr[op + 1]):
        served_by = level[schedule.use_tensor[use]]
        used_ps[served_by] += schedule.use_ps[use, served_by]
        picojoules += schedule.use_pj[use, served_by]
    whole, busy = op_time(schedule, op, used_ps)
    for each in range(len(used_ps)):
        used_ps[each] = 0
    return whole, busy, picojoules


@kernel(forceinline=True)
def wanted_level(choice, slot, tensor, backing):
    """The level that a mapping asks for: `choice[slot[tensor]]`, the backing memory where there is no slot."""
    return np.int64(choice[slot[tensor]]) if slot[tensor] >= 0 else np.int64(backing)


@kernel(forceinline=True)
def reassigned_bytes(schedule, choice, slot, level):
    """Bytes of the tensors that did not get the level they asked for."""
    backing, moved = len(schedule.capacity) - 1, np.int64(0)
    for tensor in schedule.item_tensor:
        if level[tensor] != wanted_level(choice, slot, tensor, backing):
            moved += schedule.tensor_bytes[tensor]
    return moved


@kernel
def most_reserved(reserved_bytes, level, first, last):
    """The most bytes of a level that any of the ops first..last keeps for itself."""
    most = np.int64(0)
    for op in range(first, last + 1):
        most = max(most, reserved_bytes[op, level])
    return most

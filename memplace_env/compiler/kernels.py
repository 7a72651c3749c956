"""What the placing kernels of both kinds of machines have in common."""

from __future__ import annotations

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

"""The op-time rule for compiled loops."""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel


@kernel(forceinline=True, borrows=True)
def op_time(costs, op, used_ps):
    """Return picoseconds of the whole op and of its backing port, by the rule of `cost_arrays.op_times`.

    Args:
        costs: the Costs.
        op: which op.
        used_ps: L integers, an array or a tuple, sum of `use_ps` over the op's uses that each level serves.
    """
    slowest, total, busy = np.int64(0), np.int64(0), np.int64(0)
    # The backing memory is the last level, so that `busy` ends as the time of its port. `min` is no branch, which would
    # be guessed wrongly again and again where levels are random.
    for level in range(len(used_ps)):
        busy = used_ps[level] + costs.latency_ps[level] * min(used_ps[level], 1)
        slowest = max(slowest, busy)
        total += busy
    return max(costs.compute_ps[op], total if costs.serial else slowest) + costs.overhead_ps[op], busy


@kernel
def used_by_level(use_ptr, use_level, use_ps):
    """Return int64[T, L], the sum of use_ps[u, l] over the uses u of each op that level l serves."""
    used = np.zeros((len(use_ptr) - 1, use_ps.shape[1]), dtype=np.int64)
    # The uses of op t are use_ptr[t]..use_ptr[t + 1] - 1.
    for op in range(len(use_ptr) - 1):
        for use in range(use_ptr[op], use_ptr[op + 1]):
            used[op, use_level[use]] += use_ps[use, use_level[use]]
    return used


@kernel
def moved_alone(costs, use_ptr, use_tensor, level, tensors):
    """Return int64[K, L], ps by which the program gets slower if one tensor alone moves from its `level` int64[K]."""
    levels = costs.use_ps.shape[1]
    result = np.zeros((tensors, levels), dtype=np.int64)
    used = np.empty(levels, dtype=np.int64)
    for op in range(len(use_ptr) - 1):
        used[:] = 0
        for use in range(use_ptr[op], use_ptr[op + 1]):
            served = level[use_tensor[use]]
            used[served] += costs.use_ps[use, served]
        now_ps, _ = op_time(costs, op, used)
        # `used` is the sum without this use while its other levels are tried.
        for use in range(use_ptr[op], use_ptr[op + 1]):
            served = level[use_tensor[use]]
            used[served] -= costs.use_ps[use, served]
            for to in range(levels):
                used[to] += costs.use_ps[use, to]
                result[use_tensor[use], to] += op_time(costs, op, used)[0] - now_ps
                used[to] -= costs.use_ps[use, to]
            used[served] += costs.use_ps[use, served]
    return result


@kernel
def without_useless(costs, use_op, uses, begin, order, level, used):
    """Return int64[K], `level` with tensors moved to the backing memory where the program gets no slower than it was.

    Args:
        costs: the Costs.
        use_op: int64[U].
        uses, begin: int64[U] and int64[K + 1]; the uses of tensor k are `uses[begin[k]:begin[k + 1]]`.
        order: int64[n], tensors to try one after the other.
        level: int64[K].
        used: int64[T, L], `used_by_level` of it; changed.
    """
    moved, backing = level.copy(), used.shape[1] - 1
    faster = np.int64(0)  # picoseconds by which the program is faster by the moves made so far
    for tensor in order:
        served, slower = moved[tensor], np.int64(0)
        # Uses move one by one, as an op may have several of a tensor.
        for use in uses[begin[tensor] : begin[tensor + 1]]:
            op = use_op[use]
            slower -= op_time(costs, op, used[op])[0]
            used[op, served] -= costs.use_ps[use, served]
            used[op, backing] += costs.use_ps[use, backing]
            slower += op_time(costs, op, used[op])[0]
        if slower <= faster:
            moved[tensor] = backing
            faster -= slower
        else:
            for use in uses[begin[tensor] : begin[tensor + 1]]:
                used[use_op[use], served] += costs.use_ps[use, served]
                used[use_op[use], backing] -= costs.use_ps[use, backing]
    return moved

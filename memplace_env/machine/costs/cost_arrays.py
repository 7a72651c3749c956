"""`Costs`, the costs of a program or of its slices on a chip as plain arrays, and the one rule for an op's time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.program.program import Ints
from memplace_env.program.program_arrays import Slices


def shared_costs(costs: Costs, slices: Slices) -> Costs:
    """Return the costs of a sliced program from those of the whole.

    Shares of uses and of copies add up to the whole's, and to more where a window reads rows of two slices twice. What
    is paid once by an op, its compute time and the latency of each level among it, does not change, nor what the op
    reserves. A use of a slice takes at least 1 ps.
    """
    return costs._replace(
        use_ps=np.maximum(1, slices.of_uses(costs.use_ps)),
        use_pj=slices.of_uses(costs.use_pj),
        prefetch_ps=slices.of_tensors(costs.prefetch_ps),
        writeback_ps=slices.of_tensors(costs.writeback_ps),
        copy_pj=slices.of_tensors(costs.copy_pj),
    )


LIMIT_PS = 2**60
"""Longest time that is counted, in ps, so that no sum of times leaves int64: 13 days."""
LIMIT_PJ = 2**60
"""Most energy that is counted, in pJ, so that no sum of energies leaves int64: 1.2 MJ."""


class Costs(NamedTuple):
    """Costs of one program on one chip: times in integer picoseconds, energies in integer picojoules.

    Whatever these arrays can express runs at full speed in every kernel, game, exact solver and bound.

    Attributes:
        compute_ps: int64[T], time of each op if memory were free.
        overhead_ps: int64[T], added to the time of each op, whatever it waits for.
        use_ps: int64[U, L], time that each use keeps the port of each level busy if it is served there, at least 1.
        latency_ps: int64[L], paid once by an op that uses the level at all.
        serial: whether the ports' times add up within an op; else an op waits for the slowest of them.
        prefetch_ps, writeback_ps: int64[K], time of the backing memory's port that a copy of the tensor from it, and
            back to it, needs.
        compute_pj: int64[T].
        use_pj: int64[U, L].
        copy_pj: int64[K, L], a copy of the tensor between that level and the backing memory.
        reserved_bytes: int64[T, L], bytes at the end of each fast level that each op keeps for itself while it runs,
            for staging and double buffers: no block may lie there meanwhile. 0 for the backing memory.
    """

    compute_ps: Ints
    overhead_ps: Ints
    use_ps: Ints
    latency_ps: Ints
    serial: bool
    prefetch_ps: Ints
    writeback_ps: Ints
    compute_pj: Ints
    use_pj: Ints
    copy_pj: Ints
    reserved_bytes: Ints

    @property
    def work_ps(self) -> Ints:
        """int64[T], the part of each op that no memory can save: its compute time and its overhead."""
        return self.compute_ps + self.overhead_ps

    def memory_binds(self, memory_ps: Ints) -> NDArray[np.bool_]:
        """bool[T], whether each op's ports, if they take `memory_ps` int64[T], take more than its work."""
        return memory_ps > np.maximum(self.compute_ps, self.overhead_ps)


class OpTimes(NamedTuple):
    """Times of N ops in picoseconds.

    Attributes:
        op_ps: int64[N], of the whole op.
        memory_ps: int64[N], time that its ports take together.
        port_ps: int64[N, L], how long each port is busy.
    """

    op_ps: Ints
    memory_ps: Ints
    port_ps: Ints


def op_times(costs: Costs, used_ps: Ints, ops: slice | NDArray[np.integer] = slice(None)) -> OpTimes:
    """Return the times of ops by the op-time rule; `op_time_kernels.op_time` is the same rule for compiled loops.

    A level that is used at all costs its latency once. An op takes the larger of its compute time and what its ports
    take, and its overhead.

    Args:
        costs: those of the program.
        used_ps: int64[N, L], sum of `use_ps` over the op's uses that each level serves.
        ops: which ops the rows belong to; all T in order if left out.
    """
    port = used_ps + np.where(used_ps > 0, costs.latency_ps, 0)
    memory = port.sum(axis=-1) if costs.serial else port.max(axis=-1)
    return OpTimes(whole_op_ps(costs, memory, ops), memory, port)


def whole_op_ps(costs: Costs, memory_ps: Ints, ops: slice | NDArray[np.integer] = slice(None)) -> Ints:
    """int64[N], time of ops whose ports take `memory_ps` int64[N] together: the last step of `op_times`."""
    return np.maximum(costs.compute_ps[ops], memory_ps) + costs.overhead_ps[ops]

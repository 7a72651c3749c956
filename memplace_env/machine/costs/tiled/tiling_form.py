"""`Tiling`, the common result of all ways of tiling: between a unit's own rules and the cost arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import WorkloadError
from memplace_env.machine.costs.cost_arrays import LIMIT_PS
from memplace_env.program.program import Ints


class Tiling(NamedTuple):
    """One way to work through each op.

    Attributes:
        compute_ps: int64[T], if memory were free.
        moved_bytes: int64[U], bytes that each use moves, operands read again counted again, rounded up to what the unit
            moves at once; int64[U, L] where it depends on the level that serves the use.
        run_bytes: int64[U], contiguous bytes of each of its accesses, at least 1.
        reserved_bytes: int64[T], bytes of the fastest level that the op keeps for staging.
        ahead: bool[T], ops whose reserved bytes are filled during the op before, so that they are kept then too; None:
            none are.
        staged: bool[U], uses whose bytes move once, from a slower level into the reserved bytes; None: no use is.
        restreamed_bytes: int64[T], bytes that the op reads from the fastest level again, wherever they came from; None:
            none are. Its time is part of `compute_ps`.
        requests: bytes under request for each use; None: they bound no bandwidth.
        loads_exposed: whether an op's operands move before it computes and not beside it, so that both times add up.
    """

    compute_ps: Ints
    moved_bytes: Ints
    run_bytes: Ints
    reserved_bytes: Ints
    ahead: NDArray[np.bool_] | None = None
    staged: NDArray[np.bool_] | None = None
    restreamed_bytes: Ints | None = None
    requests: Requests | None = None
    loads_exposed: bool = False


class Requests(NamedTuple):
    """Bytes that the unit can request of a memory before the first arrive.

    Attributes:
        bytes: int64[U], for each use; 0 where only the memory's own limit counts.
        staging_bytes: the same for staged uses of slower levels.
        together: bool[U], uses whose requests run beside those of the others of the same op, from buffers of their own;
            what comes from outside the program does: it starts in the same memory.
    """

    bytes: Ints
    staging_bytes: int
    together: NDArray[np.bool_]


def counted(values: list[int]) -> Ints:
    """Return exact numbers of bytes or picoseconds as int64.

    Raises:
        WorkloadError: if one is beyond what the simulator counts.
    """
    if max(values, default=0) > LIMIT_PS:
        raise WorkloadError("One op takes longer than the simulator counts; pass smaller dims or batch.")
    return np.array(values, dtype=np.int64)

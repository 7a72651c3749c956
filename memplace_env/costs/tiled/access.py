"""What short runs and few requests cost at a memory: from moved bytes to the time of its port."""

from __future__ import annotations

import numpy as np

from memplace_env.accelerator import Accelerator, MemoryLevel
from memplace_env.costs.roofline import ceil_ratio
from memplace_env.costs.tiled.tiling import Tiling
from memplace_env.units import PS_PER_S
from memplace_env.workload.program import Ints, Program


def use_times(tiling: Tiling, program: Program, accelerator: Accelerator) -> Ints:
    """int64[U, L], time of each level's port, in ps, that each use takes there."""
    columns = []
    for level in accelerator.levels:
        carried = carried_bytes(tiling, level)
        read = ceil_ratio(carried, PS_PER_S, level.read_bytes_per_s)
        write = ceil_ratio(carried, PS_PER_S, level.write_bytes_per_s)
        columns.append(np.where(program.use_is_result, write, read))
    return np.stack(columns, axis=1)


def carried_bytes(tiling: Tiling, level: MemoryLevel) -> Ints:
    """int64[U], bytes that the memory carries: runs shorter than a burst take a whole one."""
    if level.access is None:
        return tiling.moved_bytes
    burst = level.access.burst_bytes
    run = np.minimum(tiling.run_bytes, burst)
    return np.asarray(-(-tiling.moved_bytes * burst // run))

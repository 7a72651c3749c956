"""What short runs and few requests cost at a memory: from moved bytes to the time of its port."""

from __future__ import annotations

import numpy as np

from memplace_env.accelerator import Accelerator, MemoryLevel
from memplace_env.costs.roofline import ceil_ratio
from memplace_env.costs.tiled.tiling import Tiling
from memplace_env.units import PS_PER_S
from memplace_env.workload.program import Ints, Program

WORD = 16
EFF = 80
import os
OPT = dict(kv.split("=") for kv in os.environ.get("OPT", "").split(",") if kv)


def use_times(tiling: Tiling, program: Program, accelerator: Accelerator) -> Ints:
    """int64[U, L], time of each level's port, in ps, that each use takes there."""
    result = np.zeros((program.num_uses, accelerator.num_levels), dtype=np.int64)
    for index, level in enumerate(accelerator.levels):
        moved, words = tiling.moved_bytes, tiling.request_words
        run = tiling.run_bytes
        if index and tiling.staged is not None:
            moved = np.where(tiling.staged, program.use_bytes, moved)
            if words is not None:
                words = np.where(tiling.staged, tiling.staging_words, words)
        rates = np.where(program.use_is_result, level.write_bytes_per_s, level.read_bytes_per_s)
        if level.access is not None:
            a = level.access
            burst = a.burst_bytes
            moved = -(-moved * burst // np.minimum(run, burst))
            if words is not None and not OPT.get("nochan"):
                for writes, lat, out in ((False, a.read_latency_ps, a.outstanding_reads), (True, a.write_latency_ps, a.outstanding_writes)):
                    requests = np.minimum(np.where(words > 0, words * WORD * 100 // burst, 1 << 30), EFF * a.ports * out)
                    bound = EFF * burst * requests * PS_PER_S // (lat * 10000)
                    sel = program.use_is_result == writes
                    rates = np.where(sel, np.minimum(rates, bound), rates)
        for rate in np.unique(rates):
            where = rates == rate
            result[where, index] = ceil_ratio(moved[where], PS_PER_S, int(rate))
    return result

"""A latency that no plan can beat where ops overlap."""

from __future__ import annotations

import numpy as np

from memplace_env.placement.simulator.traffic_bound import compulsory_traffic_ps
from memplace_env.placement.task import Task, derived


@derived
def overlap_bound_ps(task: Task) -> int:
    """Return picoseconds: the most work that any plan leaves to one resource of the event simulator.

    The unit does each op's work, one op after the other. Ports do at least what serving each use at its cheapest level
    takes: serial ones together; of parallel ones the slowest takes at least sum_u min_l w_l cost[u, l] for any weights
    w >= 0 with sum 1 (linear programming duality), taken in proportion to the read and to the write bandwidths. The
    backing memory's port moves every input, output and streamed weight once. `traffic_bound_ps` adds the larger of unit
    and ports up op by op, which does not hold where the loads of an op run beside the unit of another.
    """
    costs = task.costs
    bounds = [int(costs.work_ps.sum()), compulsory_traffic_ps(task), min(task.program.num_uses, 1)]
    if costs.serial:
        return max(*bounds, int(costs.use_ps.min(axis=1).sum()))
    for rate in ("read_bytes_per_s", "write_bytes_per_s"):
        rates = np.array([getattr(level, rate) for level in task.accelerator.levels], dtype=np.float64)
        # Shrunk by far more than the rounding errors: it stays a bound in floating point.
        least = (costs.use_ps * (rates / rates.sum())).min(axis=1) * (1 - 1e-12)
        bounds.append(int(np.floor(least).sum()))
    return max(bounds)

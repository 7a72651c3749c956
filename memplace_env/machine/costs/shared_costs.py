"""Costs of slices: exact shares of what the whole tensors cost."""

from __future__ import annotations

import numpy as np

from memplace_env.machine.costs.cost_arrays import Costs
from memplace_env.program.slices import Slices


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

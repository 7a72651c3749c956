"""The tiled model: the roofline, and what it costs that a unit works tile by tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.accelerator.tiling import Blocks
from memplace_env.costs.costs import Costs
from memplace_env.costs.roofline import Roofline
from memplace_env.costs.tiled.access import use_times
from memplace_env.costs.tiled.blocks import tile_blocks
from memplace_env.costs.tiled.tiling import Tiling
from memplace_env.errors import CostError
from memplace_env.workload.program import Program

_TILERS: dict[type, Callable[[Program, Accelerator], Tiling]] = {Blocks: tile_blocks}


class Tiled:
    """The roofline with what tiling adds: never less, and the same where an op fits its unit and fills it.

    A unit that works tile by tile reads operands again when it cannot hold them, leaves part of its array idle where
    the op's sizes are no multiples of the array's, and accesses memory in runs that may be shorter than a burst. The
    numbers are those of the chip's `tiling` and of its memories' `access`; energy of memory grows with the bytes moved.
    """

    name = "tiled"

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        """The arrays.

        Raises:
            CostError: if the chip's description has no `tiling`.
            WorkloadError: as `Roofline.costs`.
        """
        if accelerator.tiling is None:
            raise CostError(
                f"Accelerator {accelerator.name!r} does not say how its unit tiles: add a table [tiling] to its file, or "
                "pass the cost model 'roofline'."
            )
        ideal = Roofline().costs(program, accelerator)
        tiling = _TILERS[type(accelerator.tiling)](program, accelerator)
        moved = np.maximum(tiling.moved_bytes, program.use_bytes)
        picojoules: Any = np.array([level.pj_per_byte for level in accelerator.levels])
        reserved = np.zeros_like(ideal.reserved_bytes)
        reserved[:, 0] = np.minimum(tiling.reserved_bytes, accelerator.levels[0].capacity_bytes)
        return ideal._replace(
            compute_ps=np.maximum(ideal.compute_ps, tiling.compute_ps),
            use_ps=np.maximum(ideal.use_ps, use_times(tiling, program, accelerator)),
            use_pj=np.rint(moved[:, None] * picojoules).astype(np.int64),
            reserved_bytes=reserved,
        )

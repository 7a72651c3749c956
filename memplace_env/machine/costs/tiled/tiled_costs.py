"""The tiled model: the roofline, plus the costs of a unit that works tile by tile."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from memplace_env._lib.errors import CostError
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.accelerator.tiling_description import Engines, EthosU, LocalMemory
from memplace_env.machine.costs.cost_arrays import Costs, op_times
from memplace_env.machine.costs.op_time_kernels import used_by_level
from memplace_env.machine.costs.roofline import Roofline, whole_pj
from memplace_env.machine.costs.tiled.access import moved_bytes, use_times
from memplace_env.machine.costs.tiled.engines import tile_engines
from memplace_env.machine.costs.tiled.ethos_u import tile_ethos_u
from memplace_env.machine.costs.tiled.systolic import tile_systolic
from memplace_env.machine.costs.tiled.tiling_form import Tiling
from memplace_env.program.program import Ints, Program

_TILERS: dict[type, Callable[[Program, Accelerator], Iterable[Tiling]]] = {
    EthosU: tile_ethos_u,
    Engines: tile_engines,
    LocalMemory: tile_systolic,
}


class Tiled:
    """The roofline with what tiling adds: never less, and the same where an op fits its unit and fills it.

    A unit that works tile by tile reads operands again when it cannot hold them, leaves part of its array idle where
    the op's sizes are no multiples of the array's, and accesses memory in runs that may be shorter than a burst. The
    numbers are those of the chip's `tiling` and of its memories' `access`. Where operands move before the unit works
    and not beside it, its time is an op's overhead: it adds to memory's. Of the tilings that the unit's rules offer,
    each op takes the one that is fastest with everything in the backing memory.
    """

    name = "tiled"

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        """Return the arrays.

        Raises:
            CostError: if the chip's description has no `tiling`.
            WorkloadError: as `Roofline.costs`.
        """
        best, ahead = _beside_nothing(program, accelerator)
        reserved = best.reserved_bytes.copy()
        reserved[:-1, 0] += ahead[1:]
        reserved[:, 0] = np.minimum(reserved[:, 0], accelerator.levels[0].capacity_bytes)
        return best._replace(reserved_bytes=reserved)

    def reserved(self, program: Program, accelerator: Accelerator) -> tuple[Ints, Ints]:
        """Return the bytes of the fastest level that each op keeps while it runs, and while the op before it does.

        int64[T] each; the first are its own, whatever stands behind it, the second the same whatever stands before it.

        Raises:
            CostError: as `costs`.
        """
        best, ahead = _beside_nothing(program, accelerator)
        return best.reserved_bytes[:, 0], ahead


def _beside_nothing(program: Program, accelerator: Accelerator) -> tuple[Costs, Ints]:
    """Return the costs of ops that reserve for themselves alone, and int64[T] what each reserves in the op before.

    What an op keeps for the next one does not depend on the tilings that the two take.
    """
    if accelerator.tiling is None:
        raise CostError(
            f"Accelerator {accelerator.name!r} does not describe how its unit tiles: add a table [tiling] to its "
            "file or pass the cost model 'roofline'."
        )
    ideal, best = Roofline().costs(program, accelerator), None
    for tiling in _TILERS[type(accelerator.tiling)](program, accelerator):
        costs = _priced(ideal, tiling, program, accelerator)
        best = costs if best is None else _faster(best, costs, program, accelerator)
    assert best is not None
    staged = False if tiling.ahead is None else tiling.ahead
    return best, np.where(staged, best.reserved_bytes[:, 0], 0)


def _priced(ideal: Costs, tiling: Tiling, program: Program, accelerator: Accelerator) -> Costs:
    moved = moved_bytes(tiling, accelerator)
    picojoules = np.array([level.pj_per_byte for level in accelerator.levels])
    reserved = np.zeros_like(ideal.reserved_bytes)
    reserved[:, 0] = tiling.reserved_bytes
    compute_ps = np.maximum(ideal.compute_ps, tiling.compute_ps)
    again = 0 if tiling.restreamed_bytes is None else whole_pj(tiling.restreamed_bytes * picojoules[0])
    return ideal._replace(
        compute_pj=ideal.compute_pj + again,
        compute_ps=np.zeros_like(compute_ps) if tiling.loads_exposed else compute_ps,
        overhead_ps=ideal.overhead_ps + (compute_ps if tiling.loads_exposed else 0),
        use_ps=np.maximum(ideal.use_ps, use_times(tiling, moved, program, accelerator)),
        use_pj=whole_pj(np.maximum(moved, program.use_bytes[:, None]) * picojoules),
        reserved_bytes=reserved,
    )


def _faster(one: Costs, other: Costs, program: Program, accelerator: Accelerator) -> Costs:
    """Return, for each op, the costs that are less with everything in the backing memory; those of `one` in a tie."""
    level = np.full(program.num_uses, accelerator.backing, dtype=np.int8)
    times = [op_times(costs, used_by_level(program.use_ptr, level, costs.use_ps)).op_ps for costs in (one, other)]
    wins = times[1] < times[0]
    uses = wins[program.use_op]
    return one._replace(
        compute_ps=np.where(wins, other.compute_ps, one.compute_ps),
        compute_pj=np.where(wins, other.compute_pj, one.compute_pj),
        overhead_ps=np.where(wins, other.overhead_ps, one.overhead_ps),
        use_ps=np.where(uses[:, None], other.use_ps, one.use_ps),
        use_pj=np.where(uses[:, None], other.use_pj, one.use_pj),
        reserved_bytes=np.where(wins[:, None], other.reserved_bytes, one.reserved_bytes),
    )

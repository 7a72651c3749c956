"""Tables of the event simulator: what of a task no plan changes, and what of a plan its kernel reads."""

from __future__ import annotations

from dataclasses import astuple
from typing import NamedTuple

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.kernel import kernel
from memplace_env._lib.units import PS_PER_S, ceil_div
from memplace_env.machine.accelerator.event_description import Mechanisms
from memplace_env.machine.costs.cost_arrays import LIMIT_PS
from memplace_env.machine.costs.roofline import ceil_ratio
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator.builtin import CopyDemands, ordered_copies
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints

EARLY, LATE, STORE = 0, 1, 2
"""Kinds of requests: loads that wait for no op in flight, loads of what the op before makes, stores."""
MOST_TILES = 32
"""Tiles of one op; more change little and take time. Our choice."""
MOST_PIECES = 64
"""Descriptors of one copy; of a larger copy they move more than `descriptor_bytes` each. Our choice."""


class TaskTables(NamedTuple):
    """Tables of one task under some mechanisms.

    Attributes:
        use_kind: int64[U], EARLY, LATE or STORE.
        tiles: int64[T], number of tiles of each op.
        address: int64[K], where each tensor lies in the backing memory: one behind the other, in order of number. Plans
            have no such addresses; our choice.
        pieces: int64[K], descriptors of a copy of each tensor; 0 without engines.
        engine_ps: int64[K], picoseconds of an engine that a copy of each tensor takes for its bytes.
        switches: int64[4], tile buffers or 0, ops in flight, engines or 0, descriptor_ps.
        dram: int64[5], the fields of `DramBanks`; 0 each without banks.
    """

    use_kind: Ints
    tiles: Ints
    address: Ints
    pieces: Ints
    engine_ps: Ints
    switches: Ints
    dram: Ints


def task_tables(task: Task, mechanisms: Mechanisms) -> TaskTables:
    """Return the tables.

    An op has as many tiles as its bytes fill buffers. A load is late if the op before makes the tensor, or another
    slice of it.

    Raises:
        WorkloadError: if the mechanisms may add more time than the simulator counts.
    """
    program = task.program
    use_op = np.repeat(np.arange(program.num_ops), np.diff(program.use_ptr))
    late = (program.producer[program.use_tensor] == use_op - 1) & (use_op > 0)
    kind = np.where(program.use_is_result, STORE, np.where(late, LATE, EARLY)).astype(np.int64)
    tiles = np.ones(program.num_ops, dtype=np.int64)
    if mechanisms.tiles is not None:
        moved = np.zeros(program.num_ops, dtype=np.int64)
        np.add.at(moved, use_op, program.use_bytes)
        buffer = max(mechanisms.tiles.local_bytes // mechanisms.tiles.buffers, 1)
        tiles = np.clip(ceil_div(moved, buffer), 1, MOST_TILES)
    pieces = engine_ps = np.zeros(program.num_tensors, dtype=np.int64)
    if mechanisms.dma is not None:
        pieces = np.clip(ceil_div(program.tensor_bytes, mechanisms.dma.descriptor_bytes), 1, MOST_PIECES)
        engine_ps = ceil_ratio(program.tensor_bytes, PS_PER_S, mechanisms.dma.bytes_per_s)
    address = np.cumsum(program.tensor_bytes) - program.tensor_bytes
    tables = TaskTables(kind, tiles, address, pieces, engine_ps, _switches(mechanisms), _dram(mechanisms))
    _check_total(task, tables)
    return tables


def _check_total(task: Task, tables: TaskTables) -> None:
    """Refuse mechanisms that may add over `LIMIT_PS`; the costs take at most as much, so no sum reaches 2**62."""
    descriptor_ps, (_, _, same_bank_ps, *turn_ps) = int(tables.switches[3]), tables.dram.tolist()
    # A tensor is copied in and out at most once; each tile has a request of each kind.
    pieces = 2 * int(tables.pieces.sum())
    requests = 3 * int(tables.tiles.sum()) + pieces
    most_ps = 2 * int(tables.engine_ps.sum(dtype=object)) + pieces * descriptor_ps
    most_ps += requests * (same_bank_ps + max(turn_ps))
    if most_ps > LIMIT_PS:
        raise WorkloadError(
            f"The [event] sections of {task.accelerator.name!r} may add over {LIMIT_PS // PS_PER_S // 3600} hours to "
            f"{task.program.name!r}, more than the simulator counts; raise dma.bytes_per_s or shorten their times."
        )


def _switches(mechanisms: Mechanisms) -> Ints:
    tiles, dma = mechanisms.tiles, mechanisms.dma
    of_tiles = (tiles.buffers, tiles.ops_in_flight) if tiles else (0, 1)
    return np.array([*of_tiles, *((dma.engines, dma.descriptor_ps) if dma else (0, 0))])


def _dram(mechanisms: Mechanisms) -> Ints:
    return np.array(astuple(mechanisms.dram) if mechanisms.dram else (0,) * 5)


class PlanTables(NamedTuple):
    """Tables of one plan.

    Attributes:
        request_ps: int64[T, 3, L], picoseconds of each op's requests of each kind at each level's port, with the
            level's latency in the first kind that uses it.
        address, size: int64[T, 3], where the bytes begin that the requests of a kind move in the backing memory, those
            of its first use there, and how many that use moves.
        copies: the copies by deadline.
        copy_pieces: int64[M], descriptors of each.
        engine_ps: int64[M], picoseconds of an engine that each takes for its bytes.
        copy_address, copy_size: int64[M], place in the backing memory.
        copy_writes: bool[M], whether it writes the backing memory.
    """

    request_ps: Ints
    address: Ints
    size: Ints
    copies: CopyDemands
    copy_pieces: Ints
    engine_ps: Ints
    copy_address: Ints
    copy_size: Ints
    copy_writes: np.ndarray


def plan_tables(task: Task, tables: TaskTables, plan: MemoryPlan) -> PlanTables:
    """Return the tables of a valid plan."""
    program, costs = task.program, task.costs
    request_ps, first = _requests(program.use_ptr, plan.use_level, tables.use_kind, costs.use_ps, costs.latency_ps)
    size = address = np.zeros_like(first)
    if program.num_uses:
        tensor = program.use_tensor[np.maximum(first, 0)]
        size, address = np.where(first >= 0, program.tensor_bytes[tensor], 0), tables.address[tensor]
    copies = ordered_copies(task, plan)
    moved, source = plan.transfers[copies.transfer, :2].T
    return PlanTables(
        request_ps,
        address,
        size,
        copies,
        tables.pieces[moved],
        tables.engine_ps[moved],
        tables.address[moved],
        program.tensor_bytes[moved],
        source != task.backing,
    )


@kernel
def _requests(use_ptr, use_level, use_kind, use_ps, latency_ps):
    """Return request_ps int64[T, 3, L], and int64[T, 3], the first use of each kind at the backing memory or -1."""
    ops, levels = len(use_ptr) - 1, use_ps.shape[1]
    request = np.zeros((ops, 3, levels), dtype=np.int64)
    first = np.full((ops, 3), -1, dtype=np.int64)
    for op in range(ops):
        for use in range(use_ptr[op], use_ptr[op + 1]):
            level, kind = use_level[use], use_kind[use]
            request[op, kind, level] += use_ps[use, level]
            if level == levels - 1 and first[op, kind] < 0:
                first[op, kind] = use
        for level in range(levels):
            for kind in range(3):
                if request[op, kind, level] > 0:
                    request[op, kind, level] += latency_ps[level]
                    break
    return request, first

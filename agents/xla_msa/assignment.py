"""The main loop: buffers one after another, each placed for good, with retries and repacking."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.xla_msa.buffers import Buffer, buffers_of, in_order
from agents.xla_msa.copies import CopyEngine
from agents.xla_msa.costs import op_costs
from agents.xla_msa.heap import Heap
from agents.xla_msa.options import MsaOptions
from agents.xla_msa.picker import IntervalPicker
from agents.xla_msa.segments import Memory, Stay, place
from memplace_env.errors import AgentError
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task, derived
from memplace_env.units import PS_PER_S
from memplace_env.workload.program import Ints, Program

FAST, BACKING = 0, 1


@derived
def default_plan(task: Task, options: MsaOptions) -> MemoryPlan:
    """The plan of XLA's own order, see `assign`."""
    return assign(task, options)


def assign(task: Task, options: MsaOptions, order: Sequence[int] | None = None) -> MemoryPlan:
    """The plan that XLA's memory-space assignment would make; it is always valid.

    Weights start in the backing memory whatever the accelerator's own policy. XLA plans copies with more bandwidth
    than there is, so some may come late, which the simulator reports as stalls.

    Args:
        task: on a machine with two memory levels.
        options: of the assignment.
        order: tensors in the order in which they are served, instead of XLA's own; those that are left out stay in
            the backing memory.

    Raises:
        AgentError: if the machine has another number of levels, or the order names a tensor twice or one that does
            not exist.
    """
    program, accelerator = task.program, task.accelerator
    if accelerator.num_levels != 2:
        raise AgentError(
            f"XLA's memory-space assignment needs two memory levels; {accelerator.name!r} has {accelerator.num_levels}."
        )
    memory = _empty(task, options)
    buffers = buffers_of(program, memory.heap.limit - memory.heap.base)
    if order is None:
        buffers = in_order(memory.costs, program, buffers, options.benefit_scale)
    else:
        buffers = _reordered(program, buffers, order)
    return _plan(task, memory.heap, _Assignment(program, memory, options).run(buffers))


def addresses(task: Task, options: MsaOptions) -> tuple[int, int]:
    """The first byte of fast memory that buffers may use where no op reserves any, and the one after the last."""
    limit = task.accelerator.levels[FAST].capacity_bytes
    return min(options.reserved_bytes, limit), limit


class _Assignment:
    """State of the main loop: what is committed, and what has been tried."""

    def __init__(self, program: Program, memory: Memory, options: MsaOptions) -> None:
        self._program = program
        self._memory = memory
        self._options = options
        self._repacks = 0

    def run(self, buffers: list[Buffer]) -> list[tuple[int, Stay]]:
        """(tensor, stay) for everything that came to fast memory."""
        return [(buffer.tensor, stay) for buffer in buffers for stay in self._place(buffer)]

    def _place(self, buffer: Buffer) -> list[Stay]:
        """Stays of one buffer, none if it does not get to fast memory."""
        memory, retries = self._memory, self._options.max_retries
        retry, repacked, forced = 0, False, set[int]()
        while retry < retries:
            tried = place(memory, buffer, forced, retry=retry, last_retry=retry == retries - 1)
            crowded = tried.short_of_memory and not repacked and self._repacks < self._options.max_repacks
            wasted = self._wasted(buffer, tried.stays)
            if not (tried.undone or crowded or wasted):
                return tried.stays
            memory.undo(buffer.tensor)
            if tried.undone:
                retry += 1
            elif crowded:
                self._repacks += 1
                repacked = True
                retry += not memory.heap.repack()
            else:
                forced |= wasted
        return []

    def _wasted(self, buffer: Buffer, stays: list[Stay]) -> set[int]:
        """Uses of the first stay that serves too few bytes for what is copied, if there is one."""
        for stay in stays:
            copied = buffer.size * ((stay.prefetch is not None) + (stay.eviction is not None))
            if self._options.inefficient_use_ratio * copied > self._program.use_bytes[stay.uses].sum():
                return set(stay.uses)
        return set()


def _empty(task: Task, options: MsaOptions) -> Memory:
    costs, read_rate = op_costs(task), task.accelerator.dma_bytes_per_s[0]
    base, limit = addresses(task, options)

    def scaled(picoseconds: Ints) -> Ints:
        # At least 1, so that a copy which costs nothing still gets an op to run in.
        return np.maximum(np.ceil(picoseconds / options.copy_bandwidth_scale), 1).astype(np.int64)

    def bytes_ps(size: int) -> float:
        return size * PS_PER_S / (read_rate * options.copy_bandwidth_scale)

    prefetch_ps = scaled(task.costs.prefetch_ps)
    assumed = None if options.picker_bytes is None else np.full_like(prefetch_ps, int(bytes_ps(options.picker_bytes)))
    return Memory(
        heap=Heap(base, limit, task.costs.reserved_bytes[:, FAST]),
        prefetches=CopyEngine(costs.elapsed_ps, options.max_outstanding_prefetches, fifo=options.fifo_prefetches),
        evictions=CopyEngine(costs.elapsed_ps, options.max_outstanding_evictions),
        picker=IntervalPicker(
            costs.elapsed_ps,
            options.min_overlap_ratio,
            options.preferred_overlap_ratio,
            options.max_overlap_ratio * bytes_ps(limit),
        ),
        costs=costs,
        prefetch_ps=prefetch_ps,
        evict_ps=scaled(task.costs.writeback_ps),
        picker_ps=prefetch_ps if assumed is None else assumed,
    )


def _reordered(program: Program, buffers: list[Buffer], order: Sequence[int]) -> list[Buffer]:
    known = {buffer.tensor: buffer for buffer in buffers}
    if len(set(order)) < len(order) or not set(order) <= set(range(program.num_tensors)):
        raise AgentError(f"An order names tensors 0..{program.num_tensors - 1}, each at most once.")
    return [known[tensor] for tensor in order if tensor in known]


def _plan(task: Task, heap: Heap, stays: list[tuple[int, Stay]]) -> MemoryPlan:
    """XLA's copies from after op s to before op e run during ops s+1..e-1 of a plan.

    An eviction with no op in between gets op e, over which XLA holds the block too; nothing reads the copy so soon,
    because it is only made for a use after e.
    """
    use_level = np.full(task.program.num_uses, BACKING)
    blocks, transfers = list[tuple[int, int, int, int, int]](), list[tuple[int, int, int, int, int]]()
    for tensor, stay in stays:
        use_level[stay.uses] = FAST
        blocks.append((tensor, FAST, heap.offset(stay.block), stay.first, stay.last))
        if stay.prefetch is not None:
            start, end = stay.prefetch
            transfers.append((tensor, BACKING, FAST, start + 1, end - 1))
        if stay.eviction is not None:
            start, end = stay.eviction
            transfers.append((tensor, FAST, BACKING, start + 1, max(start + 1, end - 1)))
    return MemoryPlan.of(task, use_level, np.array(blocks), np.array(transfers))

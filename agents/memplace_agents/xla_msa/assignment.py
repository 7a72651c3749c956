"""The main loop of memory-space assignment: buffers one after another, with retries and repacking."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memplace_agents.xla_msa.buffers import XlaBuffer, buffers_of, in_order
from memplace_agents.xla_msa.copies import CopyEngine
from memplace_agents.xla_msa.heap import Heap
from memplace_agents.xla_msa.msa_options import MsaOptions
from memplace_agents.xla_msa.picker import IntervalPicker
from memplace_agents.xla_msa.segments import Memory, Stay, place
from memplace_agents.xla_msa.xla_costs import op_costs
from memplace_env._lib.errors import AgentError
from memplace_env._lib.units import PS_PER_S, round_up
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints, Program

FAST, BACKING = 0, 1


@derived
def default_plan(task: Task, options: MsaOptions) -> MemoryPlan:
    """Return the plan with XLA's own order, see `assign`; computed once for each task and options."""
    return assign(task, options)


def assign(task: Task, options: MsaOptions, order: Sequence[int] | None = None) -> MemoryPlan:
    """Return the plan that XLA's memory-space assignment would make; it is always valid.

    Weights start in the backing memory, whatever the accelerator's own policy. XLA plans copies with more bandwidth
    than there is, so some may be late, which the simulator reports as stalls.

    Args:
        task: a task for an accelerator with two memory levels.
        options: options of the assignment.
        order: tensors in the order in which they are served, instead of XLA's own; those left out stay in the backing
            memory.

    Raises:
        AgentError: if the accelerator has another number of levels, or the order repeats a tensor or names one that
            does not exist.
    """
    program, accelerator = task.program, task.accelerator
    if accelerator.num_levels != 2:
        raise AgentError(
            f"XLA's memory-space assignment needs two memory levels; {accelerator.name!r} has {accelerator.num_levels}."
        )
    memory = _empty(task, options)
    buffers = buffers_of(program, memory.heap.limit - memory.heap.base)
    buffers = [buffer for buffer in buffers if task.allowed[buffer.tensor, FAST]]
    if order is None:
        buffers = in_order(memory.costs, program, buffers, options.benefit_scale)
    else:
        buffers = _reordered(program, buffers, order)
    return _plan(task, memory.heap, _Assignment(program, memory, options).run(buffers))


def addresses(task: Task, options: MsaOptions) -> tuple[int, int]:
    """Return the first byte of fast memory that buffers may use, and the one after the last; ops may reserve some."""
    limit = int(task.capacities[FAST])
    return min(round_up(options.reserved_bytes, task.program.alignment), limit), limit


class _Assignment:
    """State of the main loop."""

    def __init__(self, program: Program, memory: Memory, options: MsaOptions) -> None:
        self._program = program
        self._memory = memory
        self._options = options
        self._repacks = 0

    def run(self, buffers: list[XlaBuffer]) -> list[tuple[int, Stay]]:
        """Return (tensor, stay) for everything placed in fast memory."""
        return [(buffer.tensor, stay) for buffer in buffers for stay in self._place(buffer)]

    def _place(self, buffer: XlaBuffer) -> list[Stay]:
        """Return the stays of one buffer; none if it does not get to fast memory."""
        memory, retries = self._memory, self._options.max_retries
        retry, repacked, forced = 0, False, set[int]()
        # Each pass accepts the attempt, or undoes it and changes something: the next retry, a repacked heap (once for a
        # buffer), or more uses forced to the backing memory. So the loop ends.
        while retry < retries:
            attempt = place(memory, buffer, forced, retry=retry, last_retry=retry == retries - 1)
            crowded = attempt.short_of_memory and not repacked and self._repacks < self._options.max_repacks
            wasted = self._wasted(buffer, attempt.stays)
            if not (attempt.undone or crowded or wasted):
                return attempt.stays
            memory.undo(buffer.tensor)
            if attempt.undone:
                retry += 1
            elif crowded:
                self._repacks += 1
                repacked = True
                retry += not memory.heap.repack()
            else:
                forced |= wasted
        return []

    def _wasted(self, buffer: XlaBuffer, stays: list[Stay]) -> set[int]:
        """Return the uses of the first stay that serves too few bytes for those copied; empty without one."""
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
        heap=Heap(base, limit, task.kept_bytes[:, FAST]),
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


def _reordered(program: Program, buffers: list[XlaBuffer], order: Sequence[int]) -> list[XlaBuffer]:
    by_tensor = {buffer.tensor: buffer for buffer in buffers}
    if len(set(order)) < len(order) or not set(order) <= set(range(program.num_tensors)):
        raise AgentError(f"An order names tensors 0..{program.num_tensors - 1}, each at most once.")
    return [by_tensor[tensor] for tensor in order if tensor in by_tensor]


def _plan(task: Task, heap: Heap, stays: list[tuple[int, Stay]]) -> MemoryPlan:
    """Return the plan of the stays: XLA's copies from after op s to before op e run during ops s+1..e-1.

    An eviction with no op in between gets op e, over which XLA holds the block too; nothing reads the copy so soon,
    as it is only made for a use after e.
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
    return task.make_plan(use_level, np.array(blocks), np.array(transfers))

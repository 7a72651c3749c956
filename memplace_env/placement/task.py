"""The Task: a program, a chip, its costs and the simulator of plans; made once and handed on whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.foreign import WORD, shown
from memplace_env._lib.threads import cached_property
from memplace_env._lib.units import PS_PER_S, ceil_div, round_up
from memplace_env.machine.accelerator import STREAMED, Accelerator
from memplace_env.machine.accelerator.accelerator import BACKING
from memplace_env.machine.costs import Costs
from memplace_env.placement.memory_plan import ALLOCATION, TRANSFER, MemoryPlan
from memplace_env.placement.roles import allowed_levels, pinned_offsets
from memplace_env.placement.simulator_report import Simulator
from memplace_env.program.program import Ints, Program, TensorKind
from memplace_env.program.program_arrays import frozen

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """A program on a chip. Values derived from it are computed once and cached on it, see `derived`.

    Attributes:
        program: the program to place.
        accelerator: the chip.
        costs: times and energies of the program on the chip.
        simulator: a black box that evaluates plans; None: the cost arrays do, exactly and fast, so that bounds and
            exact solvers hold.
        settings: the options that made the program, as plain JSON values; part of every plan, so that it can be
            replayed.
        whole_costs: costs of `program.whole`, which the costs of slices are shares of; None: none is a slice, or the
            costs are those of slices themselves.
    """

    program: Program
    accelerator: Accelerator
    costs: Costs
    simulator: Simulator | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    whole_costs: Costs | None = None
    _derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def is_black_box(self) -> bool:
        """True if a simulator evaluates plans, rather than the cost arrays."""
        return self.simulator is not None

    @property
    def backing(self) -> int:
        """Number of the backing memory, L-1."""
        return self.accelerator.backing

    @property
    def fits(self) -> bool:
        """True if the backing memory holds the program, see `footprint`."""
        return self.footprint <= self.accelerator.levels[-1].capacity_bytes

    @cached_property
    def footprint(self) -> int:
        """Bytes of the backing memory that hold all that may lie there, in whole units of its alignment.

        That is `Program.footprint` where everything may. Streamed weights start there, wherever they may lie later.
        """
        program = self.program
        weight = program.tensor_kind == TensorKind.WEIGHT
        there = self.allowed[:, -1] | (weight & self.streams_weights)
        size = there * round_up(program.tensor_bytes, self.accelerator.levels[-1].alignment_bytes)
        return int(size[program.producer < 0].sum() + program.alive(size).max())

    @property
    def streams_weights(self) -> bool:
        """True if each inference starts with the weights in the backing memory."""
        return self.accelerator.weights == "streamed"

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """bool[K, L], whether each tensor may lie in each level, see `roles.allowed_levels`."""
        pins, io_level = self.settings.get("pins") or {}, self.settings.get("io_level") or BACKING
        return frozen(allowed_levels(self.program, self.accelerator.levels, io_level, pins))

    @cached_property
    def pinned(self) -> Ints:
        """int64[K], the offset at which each block of a tensor must begin, -1: any, see `roles.pinned_offsets`."""
        return frozen(pinned_offsets(self.program, self.accelerator.levels, self.settings.get("pins") or {}))

    @cached_property
    def handovers(self) -> Ints:
        """int64[H, 3], `Program.handovers` without those of pinned offsets: no search puts a result in their place."""
        pairs = self.program.handovers
        return frozen(pairs[(self.pinned[pairs[:, :2]] < 0).all(axis=1)])

    @property
    def fast_copies(self) -> bool:
        """True if plans may copy tensors from one fast memory to another, see `TaskOptions.copies`."""
        return self.settings.get("copies") == "all"

    def copy_ps(self, tensor: Ints, source: Ints, target: Ints) -> Ints:
        """Return int64[M], time that copies take of the port of the slower of their two memories.

        Between fast memories that is by the slower of the rates at which one is read and the other written.
        """
        costs, chip = self.costs, self.accelerator
        taken: Ints = np.where(source == self.backing, costs.prefetch_ps[tensor], costs.writeback_ps[tensor])
        for row in np.flatnonzero(np.maximum(source, target) < self.backing).tolist():
            ends = chip.levels[source[row]].read_bytes_per_s, chip.levels[target[row]].write_bytes_per_s
            rate = max(int(min(ends) * chip.dma_efficiency), 1)
            taken[row] = ceil_div(int(self.program.tensor_bytes[tensor[row]]) * PS_PER_S, rate)
        return taken

    def copy_pj(self, tensor: Ints, source: Ints, target: Ints) -> Ints:
        """Return int64[M], energy of copies."""
        costs, rates = self.costs, np.array([level.pj_per_byte for level in self.accelerator.levels])
        inner = np.rint(self.program.tensor_bytes[tensor] * (rates[source] + rates[target])).astype(np.int64)
        near = np.minimum(source, target)
        return np.where(np.maximum(source, target) < self.backing, inner, costs.copy_pj[tensor, near])

    @property
    def must_leave(self) -> NDArray[np.bool_]:
        """bool[K], tensors that may not lie in the backing memory."""
        return ~self.allowed[:, -1]

    def homeless(self, plan: MemoryPlan) -> Ints:
        """Return the tensors that a plan serves from the backing memory, where they may not lie."""
        behind = self.program.use_tensor[plan.use_level == self.backing]
        homeless: Ints = np.unique(behind[self.must_leave[behind]])
        return homeless

    @cached_property
    def capacities(self) -> Ints:
        """int64[L], bytes of each level that blocks may take: whole units of the program's alignment."""
        unit = self.program.alignment
        return frozen(np.array([level.capacity_bytes // unit * unit for level in self.accelerator.levels]))

    @cached_property
    def kept_bytes(self) -> Ints:
        """int64[T, L], what each op leaves to blocks less than `capacities`: `reserved_bytes`, in whole units."""
        unit, sizes = self.program.alignment, [level.capacity_bytes for level in self.accelerator.levels]
        if unit == 1:
            return self.costs.reserved_bytes
        return self.capacities - (np.array(sizes) - self.costs.reserved_bytes) // unit * unit

    def room_bytes(self, level: int) -> Ints:
        """Return the bytes of a fast level that each op leaves to blocks, and the tail behind all ops, int64[T+1]."""
        return np.asarray(self.capacities[level] - np.append(self.kept_bytes[:, level], 0))

    def make_plan(self, use_level: NDArray[np.integer], allocations: Ints, transfers: Ints | None = None) -> MemoryPlan:
        """Return a plan for this task, with its names, hashes and settings; see `MemoryPlan` for the arrays."""
        none = np.empty((0, len(TRANSFER)), dtype=np.int64)
        return MemoryPlan(
            program=shown(self.program.name, WORD),
            program_sha256=self.program.sha256,
            accelerator=shown(self.accelerator.name, WORD),
            accelerator_sha256=self.accelerator.sha256,
            use_level=use_level.astype(np.int8),
            allocations=allocations.astype(np.int64).reshape(-1, len(ALLOCATION)),
            transfers=none if transfers is None else transfers.astype(np.int64).reshape(-1, len(TRANSFER)),
            settings=dict(self.settings),
        )

    def resident_blocks(self, plan: MemoryPlan) -> NDArray[np.bool_]:
        """Return bool[A], blocks of a plan whose weight is loaded once, before the first inference.

        Such a block covers the whole inference: whatever else were in its bytes would be there in the next one.
        """
        tensor, _, _, start, end = plan.allocations.T
        weight = self.program.tensor_kind[tensor] == TensorKind.WEIGHT
        return np.asarray(weight & (start == 0) & (end >= self.program.num_ops - 1) & (not self.streams_weights))

    def with_simulator(self, simulator: Simulator) -> Task:
        """Return the task with an equivalent simulator; both share all derived values."""
        task = replace(self, simulator=simulator)
        object.__setattr__(task, "_derived", self._derived)
        return task

    def __repr__(self) -> str:
        return f"Task({self.program!r}, {self.accelerator.name!r}, settings={dict(self.settings)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parts that make the task; the copy derives the rest anew."""
        return Task, (self.program, self.accelerator, self.costs, self.simulator, self.settings, self.whole_costs)


def derived(make: Callable[Concatenate[Task, P], T]) -> Callable[Concatenate[Task, P], T]:
    """Cache a function of a task, and of further hashable arguments, on the task."""

    def cached(task: Task, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (make.__module__, make.__qualname__, args, *kwargs.items())
        if key not in task._derived:
            task._derived[key] = make(task, *args, **kwargs)
        value: T = task._derived[key]
        return value

    update_wrapper(cached, make)
    return cached


def streamed(task: Task) -> Task:
    """Return the task on the chip with streamed weights: itself, or else a copy with the same costs.

    Its settings name that chip too, so that its plans can be replayed.
    """
    return task if task.streams_weights else _streamed_copy(task)


@derived
def _streamed_copy(task: Task) -> Task:
    settings = dict(task.settings)
    if "accelerator" in settings:
        settings["accelerator"] += STREAMED
    return replace(task, accelerator=task.accelerator.streamed(), settings=settings)

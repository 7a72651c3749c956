"""Demands of a program on a chip's memories before anything is placed, as numbers and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from memplace_env._lib.units import PS
from memplace_env.machine.costs import Costs, Roofline, costs_of, op_times
from memplace_env.machine.costs.op_time_kernels import used_by_level
from memplace_env.placement.resolve_task import misfit
from memplace_env.placement.task import Task
from memplace_env.program.blocks import inner_ops, kinds_of
from memplace_env.program.program import Ints, TensorKind
from memplace_env.program.reordering import memory_order, reordered
from memplace_env.report.explanation.repeated_ops import RepeatedOps, repeated_ops
from memplace_env.report.plans.headlines import task_title
from memplace_env.report.plans.whole_tensors import slice_counts
from memplace_env.report.quantities import count, cut, percent, ratio, seconds, size, three_digits
from memplace_env.report.tables import NONE, add_row, new_table


class Extreme(NamedTuple):
    """The program with all uses served by one level, as if everything fitted.

    Attributes:
        level: its name; where not all may lie there, words for the level that each tensor has instead.
        time_ps: int64[T], time of each op.
        memory_bound: bool[T], ops whose port time is more than their work, see `Costs.memory_binds`.
        carried_ps: int64[T], time of the ports that the uses of each op take.
        ideal_ps: int64[T], the same by the roofline, where each byte is moved once at full bandwidth.
    """

    level: str
    time_ps: Ints
    memory_bound: NDArray[np.bool_]
    carried_ps: Ints
    ideal_ps: Ints

    def re_reads(self, mask: NDArray[np.bool_]) -> float | None:
        """Return how often ops move their bytes, unused parts of bursts included; None if they move none."""
        return _ratio(self.carried_ps, self.ideal_ps, mask)

    def binds(self, op: int) -> str:
        """Return what limits an op: "compute", or the name of the level."""
        return self.level if self.memory_bound[op] else "compute"


class Inspection(NamedTuple):
    """A program and a chip before anything is placed.

    Attributes:
        task: the program and the chip.
        dims: names of the model's symbolic dims, or None for programs that are built already.
        compute_ps: int64[T], time of each op if memory were free.
        peak_ps: int64[T], the same if each op kept the matrix and vector units as busy as they can be.
        op_bytes: int64[T], bytes of the operands and results of each op, each once.
        backing, fastest: everything in the backing memory, everything in the fastest level.
    """

    task: Task
    dims: tuple[str, ...] | None
    compute_ps: Ints
    peak_ps: Ints
    op_bytes: Ints
    backing: Extreme
    fastest: Extreme

    @property
    def intensity(self) -> float:
        """Operations per byte moved: two for each MAC, one for each vector operation."""
        program = self.task.program
        return float((2 * program.macs.sum() + program.vector_ops.sum()) / self.op_bytes.sum())

    def ridge(self, level: int) -> float:
        """Return the intensity below which the level's read bandwidth, not the matrix unit, limits."""
        chip = self.task.accelerator
        return 2 * chip.matrix_macs_per_s[self.task.program.dtype] / chip.levels[level].read_bytes_per_s

    @property
    def cuts(self) -> tuple[int, int]:
        """Number of the tensors that are cut, and of their slices."""
        counts = slice_counts(self.task.program)
        return int((counts > 1).sum()), int(counts[counts > 1].sum())

    def bytes_of(self, kind: TensorKind) -> int:
        """Return the bytes of all tensors of one kind, inputs and outputs that are blocks included."""
        return int(self.task.program.tensor_bytes[kinds_of(self.task.program) == kind].sum())

    def other_peaks(self) -> dict[str, int]:
        """Return the most bytes of results alive at once if decisions were others: in `memory_order`, and in place."""
        program = self.task.program.whole
        ordered = reordered(program, memory_order(program))
        peaks = {"in memory order": ordered.live_bytes}
        if len(program.inplace):
            peaks["in place"] = program.live_bytes_in_place
            peaks["in memory order in place"] = ordered.live_bytes_in_place
        return {name: int(live.max()) for name, live in peaks.items()}

    @property
    def staged_bytes(self) -> Ints:
        """Bytes of all fast levels that each op keeps for itself, int64[T], see `Costs.reserved_bytes`."""
        staged: Ints = self.task.costs.reserved_bytes.sum(axis=1)
        return staged

    def utilisation(self, mask: NDArray[np.bool_]) -> float | None:
        """Return the fraction of the chip's peaks that ops reach while they compute; None if they compute nothing.

        The peaks are those of `Accelerator`, so what `compute.efficiency` takes off them is not counted as lost here.
        """
        return _ratio(self.peak_ps, self.compute_ps, mask)

    def top_ops(self, most: int) -> list[int]:
        """Return the ops that gain most from leaving the backing memory for the fastest, largest gain first."""
        gain = self.backing.time_ps - self.fastest.time_ps
        return [int(op) for op in np.argsort(-gain, kind="stable")[:most] if gain[op] > 0]

    def only(self, op: int) -> NDArray[np.bool_]:
        """Return bool[T], the mask of one op."""
        mask: NDArray[np.bool_] = np.arange(self.task.program.num_ops) == op
        return mask

    def op_types(self) -> list[tuple[str, NDArray[np.bool_]]]:
        """Return each op type with the mask of its ops, most time in the backing memory first."""
        types = self.task.program.op_type
        masks = [(kind, np.array(types) == kind) for kind in dict.fromkeys(types[inner_ops(self.task.program)])]
        return sorted(masks, key=lambda item: -int(self.backing.time_ps[item[1]].sum()))

    def to_json(self, most: int = 10, *, every_op: bool = False) -> dict[str, Any]:
        """Return plain JSON values, times in seconds, sizes in bytes; with `every_op` all ops too."""
        program, chip = self.task.program, self.task.accelerator
        return {
            "workload": program.name,
            "program_sha256": program.sha256,
            "accelerator": chip.name,
            "dtype": program.dtype,
            "dims": None if self.dims is None else list(self.dims),
            "ops": len(program.op_type[inner_ops(program)]),
            "tensors": program.whole.num_tensors,
            **({"cut_tensors": self.cuts[0], "slices": self.cuts[1]} if program.slices else {}),
            "macs": int(program.macs.sum()),
            "vector_ops": int(program.vector_ops.sum()),
            **{f"{kind.name.lower()}_bytes": self.bytes_of(kind) for kind in TensorKind},
            "peak_live_bytes": int(program.live_bytes.max()),
            **{f"peak_live_bytes_{name.replace(' ', '_')}": peak for name, peak in self.other_peaks().items()},
            "footprint_bytes": self.task.footprint,
            "fits": misfit(self.task) is None,
            "moved_bytes": int(self.op_bytes.sum()),
            "intensity": self.intensity,
            "ridge": {level.name: self.ridge(index) for index, level in enumerate(chip.levels)},
            "compute_s": float(self.compute_ps.sum() * PS),
            "utilisation": self.utilisation(np.ones(program.num_ops, dtype=bool)),
            "extremes": {key: _extreme_json(getattr(self, key)) for key in ("backing", "fastest")},
            "op_types": [self._op_type_json(kind, mask) for kind, mask in self.op_types()],
            "top_ops": [self._op_json(op) for op in self.top_ops(most)],
            **({"every_op": [self._op_json(op) for op in range(program.num_ops)]} if every_op else {}),
        }

    def _op_type_json(self, kind: str, mask: NDArray[np.bool_]) -> dict[str, Any]:
        return {
            "type": kind,
            "ops": int(mask.sum()),
            "macs": int(self.task.program.macs[mask].sum()),
            "moved_bytes": int(self.op_bytes[mask].sum()),
            "compute_s": float(self.compute_ps[mask].sum() * PS),
            "utilisation": self.utilisation(mask),
            **{
                key: {
                    "time_s": float(extreme.time_ps[mask].sum() * PS),
                    "memory_bound_ops": _count(extreme, mask),
                    "re_reads": extreme.re_reads(mask),
                }
                for key, extreme in (("backing", self.backing), ("fastest", self.fastest))
            },
        }

    def _op_json(self, op: int) -> dict[str, Any]:
        alone = self.only(op)
        return {
            "op": op,
            "name": self.task.program.op_name[op],
            "type": self.task.program.op_type[op],
            "macs": int(self.task.program.macs[op]),
            "moved_bytes": int(self.op_bytes[op]),
            "compute_s": float(self.compute_ps[op] * PS),
            "utilisation": self.utilisation(alone),
            "staged_bytes": int(self.staged_bytes[op]),
            "backing_s": float(self.backing.time_ps[op] * PS),
            "fastest_s": float(self.fastest.time_ps[op] * PS),
            "re_reads": {key: getattr(self, key).re_reads(alone) for key in ("backing", "fastest")},
            "binds": {key: getattr(self, key).binds(op) for key in ("backing", "fastest")},
        }


def inspect_task(task: Task, dims: tuple[str, ...] | None = None) -> Inspection:
    """Return the inspection of a program on a chip, by the task's costs.

    Raises:
        WorkloadError: if the chip has no peak for the program's dtype, so that there is nothing to compare with.

    Example:
        >>> from memplace_env import resolve_task
        >>> inspection = inspect_task(resolve_task("AlexNet", "nnp-i"))
        >>> inspection.utilisation(inspection.only(0)), inspection.backing.binds(0)
        (1.0, 'DRAM')
    """
    program, chip = task.program, task.accelerator
    op_bytes = np.zeros(program.num_ops, dtype=np.int64)
    np.add.at(op_bytes, program.use_op, program.use_bytes)
    ideal = costs_of(Roofline(), program, replace(chip, systolic=None))
    slowest, fastest = task.backing - task.allowed[:, ::-1].argmax(axis=1), task.allowed.argmax(axis=1)
    extremes = _extreme(task, ideal, slowest, "slowest"), _extreme(task, ideal, fastest, "fastest")
    return Inspection(task, dims, task.costs.work_ps, ideal.compute_ps, op_bytes, *extremes)


def _extreme(task: Task, ideal: Costs, level: Ints, which: str) -> Extreme:
    program, costs = task.program, task.costs
    served = level[program.use_tensor].astype(np.int8)
    used, least = (used_by_level(program.use_ptr, served, arrays.use_ps) for arrays in (costs, ideal))
    times = op_times(costs, used)
    alike = task.accelerator.levels[served[0]].name if (served == served[0]).all() else f"the {which} allowed"
    return Extreme(alike, times.op_ps, costs.memory_binds(times.memory_ps), used.sum(axis=1), least.sum(axis=1))


def _extreme_json(extreme: Extreme) -> dict[str, Any]:
    bound = extreme.memory_bound
    return {
        "level": extreme.level,
        "latency_s": float(extreme.time_ps.sum() * PS),
        "memory_bound_ops": int(bound.sum()),
        "memory_bound_share": float(extreme.time_ps[bound].sum() / extreme.time_ps.sum()),
    }


def _count(extreme: Extreme, mask: NDArray[np.bool_]) -> int:
    return int((extreme.memory_bound & mask).sum())


def _ratio(above: Ints, below: Ints, mask: NDArray[np.bool_]) -> float | None:
    total = int(below[mask].sum())
    return int(above[mask].sum()) / total if total else None


def inspection_tables(inspection: Inspection, most: int = 10, *, every_op: bool = False) -> list[Table]:
    """Return tables of totals, of op types, and of the ops with most to gain; with `every_op` of all ops too."""
    tables = [_totals(inspection), _by_type(inspection)]
    tables.append(_ops("Most to gain from fast memory", inspection, _top_groups(inspection, most)))
    if every_op:
        names = inspection.task.program.op_name
        tables.append(_ops("All ops", inspection, [RepeatedOps((op,), name) for op, name in enumerate(names)]))
    return [table for table in tables if table.row_count]


def _totals(inspection: Inspection) -> Table:
    program, levels = inspection.task.program, inspection.task.accelerator.levels
    table = new_table(task_title(inspection.task), "", "", left=(0, 1))
    table.show_header = False
    if inspection.dims is not None:
        add_row(table, "symbolic dims", ", ".join(inspection.dims) or "none, all are fixed")
    add_row(table, "ops, tensors", f"{len(program.op_type[inner_ops(program)])}, {program.whole.num_tensors}")
    if program.slices is not None:
        add_row(table, "slices", "{} tensors are cut into {:,} slices".format(*inspection.cuts))
    add_row(table, "work", f"{count(program.macs.sum(), 'MAC')}, {count(program.vector_ops.sum())} vector ops")
    for name, kind in (("weights", TensorKind.WEIGHT), ("activations", TensorKind.ACTIVATION)):
        add_row(table, name, size(inspection.bytes_of(kind)))
    inputs, outputs = (size(inspection.bytes_of(kind)) for kind in (TensorKind.INPUT, TensorKind.OUTPUT))
    add_row(table, "inputs, outputs", f"{inputs}, {outputs}")
    add_row(table, "peak live activations", size(int(program.live_bytes.max())))
    for name, peak in inspection.other_peaks().items():
        add_row(table, f"  {name}", size(peak))
    add_row(table, "memories", ", ".join(f"{level.name} {size(level.capacity_bytes)}" for level in levels))
    fit = "fits" if inspection.task.fits else "does not fit"
    room = f"{size(inspection.task.footprint)} of {size(levels[-1].capacity_bytes)}"
    add_row(table, f"room in {levels[-1].name}", f"{fit}: {room}")
    if inspection.task.fits and (why := misfit(inspection.task)):
        add_row(table, "room elsewhere", f"does not fit: {why}")
    ridges = ", ".join(f"{level.name} {three_digits(inspection.ridge(index))}" for index, level in enumerate(levels))
    add_row(table, "intensity", f"{three_digits(inspection.intensity)} ops/byte; enough for full speed: {ridges}")
    everything = np.ones(program.num_ops, dtype=bool)
    alone = seconds(float(inspection.compute_ps.sum() * PS))
    add_row(table, "compute alone", f"{alone}, utilisation {_utilisation(inspection, everything)}")
    for extreme in (inspection.backing, inspection.fastest):
        add_row(
            table,
            f"all in {extreme.level}",
            f"{_time(extreme, everything)}, memory-bound {_bound(extreme, everything)}",
        )
    return table


def _by_type(inspection: Inspection) -> Table:
    backing, fastest = inspection.backing, inspection.fastest
    table = new_table(
        "By op type",
        "type", "ops", "MACs", "moved", "compute", "of peak",
        f"all in {backing.level}", "memory-bound", f"all in {fastest.level}", "memory-bound", "re-reads",
        caption="of peak: utilisation. memory-bound: how many ops, and their share of the type's time. "
        f"re-reads: times that bytes are moved, all in {backing.level}, all in {fastest.level}; once if equal.",
    )  # fmt: skip
    for kind, mask in inspection.op_types():
        add_row(
            table,
            kind,
            int(mask.sum()),
            count(int(inspection.task.program.macs[mask].sum())),
            size(int(inspection.op_bytes[mask].sum())),
            seconds(float(inspection.compute_ps[mask].sum() * PS)),
            _utilisation(inspection, mask),
            _time(backing, mask),
            _bound(backing, mask),
            _time(fastest, mask),
            _bound(fastest, mask),
            _re_reads(inspection, mask),
        )
    return table


def _top_groups(inspection: Inspection, most: int) -> list[RepeatedOps]:
    """Return the groups of repeated ops that gain most from leaving the backing memory for the fastest."""
    backing, fastest, program = inspection.backing, inspection.fastest, inspection.task.program

    def alike(op: int) -> object:
        return seconds(backing.time_ps[op] * PS), seconds(fastest.time_ps[op] * PS), int(program.macs[op])

    return repeated_ops(program, backing.time_ps - fastest.time_ps, most, alike)


def _ops(title: str, inspection: Inspection, groups: Sequence[RepeatedOps]) -> Table:
    """Return a table with a row for each group of repeated ops."""
    program = inspection.task.program
    backing, fastest = inspection.backing, inspection.fastest
    table = new_table(
        title,
        "op", "name", "type", "MACs", "moved", "compute", "of peak",
        f"in {backing.level}", f"in {fastest.level}", "re-reads", "staged", "binds",
        left=(1, 2),
        caption=f"re-reads and what binds: all in {backing.level}, all in {fastest.level}; once if equal."
        + (" Repeated ops are one row, with their sums." if any(len(group.ops) > 1 for group in groups) else ""),
    )  # fmt: skip
    for group in groups:
        ops, first = list(group.ops), group.first
        mask = np.zeros(program.num_ops, dtype=bool)
        mask[ops] = True
        add_row(
            table,
            first,
            group.name,
            cut(program.op_type[first], 14),
            count(int(program.macs[ops].sum())),
            size(int(inspection.op_bytes[ops].sum())),
            seconds(float(inspection.compute_ps[ops].sum() * PS)),
            _utilisation(inspection, mask),
            _time(backing, mask),
            _time(fastest, mask),
            _re_reads(inspection, mask),
            size(int(inspection.staged_bytes[first])),
            ", ".join(dict.fromkeys((backing.binds(first), fastest.binds(first)))),
        )
    return table


def _utilisation(inspection: Inspection, mask: NDArray[np.bool_]) -> str:
    share = inspection.utilisation(mask)
    return NONE if share is None else percent(share)


def _re_reads(inspection: Inspection, mask: NDArray[np.bool_]) -> str:
    factors = (extreme.re_reads(mask) for extreme in (inspection.backing, inspection.fastest))
    return ", ".join(dict.fromkeys(NONE if times is None else ratio(times) for times in factors))


def _time(extreme: Extreme, mask: NDArray[np.bool_]) -> str:
    return seconds(float(extreme.time_ps[mask].sum() * PS))


def _bound(extreme: Extreme, mask: NDArray[np.bool_]) -> str:
    """Return the number of memory-bound ops, and the fraction of the ops' time that they take."""
    bound = extreme.memory_bound & mask
    share = extreme.time_ps[bound].sum() / max(extreme.time_ps[mask].sum(), 1)
    return f"{int(bound.sum())} ({percent(float(share))})"

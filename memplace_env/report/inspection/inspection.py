"""Demands of a program on a chip's memories before anything is placed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.units import PS
from memplace_env.machine.costs import Costs, Roofline, costs_of, op_times
from memplace_env.machine.costs.op_time_kernels import used_by_level
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, TensorKind
from memplace_env.report.plans.whole_tensors import slice_counts


class Extreme(NamedTuple):
    """The program with all uses served by one level, as if everything fitted.

    Attributes:
        level: its name.
        time_ps: int64[T], time of each op.
        memory_bound: bool[T], ops whose port time is more than their work, see `Costs.memory_binds`.
        carried_ps: int64[T], time of the level's port that the uses of each op take.
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
        kinds = np.array(self.task.program.op_type)
        masks = [(str(kind), kinds == kind) for kind in dict.fromkeys(self.task.program.op_type)]
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
            "ops": program.num_ops,
            "tensors": program.whole.num_tensors,
            **({"cut_tensors": self.cuts[0], "slices": self.cuts[1]} if program.slices else {}),
            "macs": int(program.macs.sum()),
            "vector_ops": int(program.vector_ops.sum()),
            "weight_bytes": program.bytes_of(TensorKind.WEIGHT),
            "input_bytes": program.bytes_of(TensorKind.INPUT),
            "activation_bytes": program.bytes_of(TensorKind.ACTIVATION),
            "output_bytes": program.bytes_of(TensorKind.OUTPUT),
            "peak_live_bytes": int(program.live_bytes.max()),
            "footprint_bytes": program.footprint,
            "fits": self.task.fits,
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
    extremes = (_extreme(task, ideal, level) for level in (task.backing, 0))
    return Inspection(task, dims, task.costs.work_ps, ideal.compute_ps, op_bytes, *extremes)


def _extreme(task: Task, ideal: Costs, level: int) -> Extreme:
    program, costs = task.program, task.costs
    everywhere = np.full(program.num_uses, level, dtype=np.int8)
    used, least = (used_by_level(program.use_ptr, everywhere, arrays.use_ps) for arrays in (costs, ideal))
    times = op_times(costs, used)
    name, memory_bound = task.accelerator.levels[level].name, costs.memory_binds(times.memory_ps)
    return Extreme(name, times.op_ps, memory_bound, used[:, level], least[:, level])


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

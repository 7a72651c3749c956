"""What a program asks of a chip's memories before anything is placed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.costs import op_times
from memplace_env.costs.kernels import used_by_level
from memplace_env.task import Task
from memplace_env.units import PS
from memplace_env.workload.program import Ints, TensorKind


class Extreme(NamedTuple):
    """All uses served by one level, as if everything fitted.

    Attributes:
        level: its name.
        time_ps: int64[T], time of each op.
        memory_bound: bool[T], ops whose port time is more than their compute time.
    """

    level: str
    time_ps: Ints
    memory_bound: NDArray[np.bool_]


class Inspection(NamedTuple):
    """A program and a chip before anything is placed.

    Attributes:
        task: which.
        dims: names of the model's symbolic dims, or None where it has none to speak of (synthetic ones).
        compute_ps: int64[T].
        op_bytes: int64[T], bytes each op moves.
        backing, fastest: everything in the backing memory, everything in the fastest level.
    """

    task: Task
    dims: tuple[str, ...] | None
    compute_ps: Ints
    op_bytes: Ints
    backing: Extreme
    fastest: Extreme

    @property
    def intensity(self) -> float:
        """Operations per byte moved: two for each MAC, one for each vector operation."""
        program = self.task.program
        return float((2 * program.macs.sum() + program.vector_ops.sum()) / self.op_bytes.sum())

    def ridge(self, level: int) -> float:
        """The intensity below which the level's read bandwidth, not the matrix unit, limits."""
        chip = self.task.accelerator
        return 2 * chip.matrix_macs_per_s[self.task.program.dtype] / chip.levels[level].read_bytes_per_s

    def top_ops(self, most: int) -> list[int]:
        """The ops that gain most from leaving the backing memory for the fastest, largest gain first."""
        gain = self.backing.time_ps - self.fastest.time_ps
        return [int(op) for op in np.argsort(-gain, kind="stable")[:most] if gain[op] > 0]

    def op_types(self) -> list[tuple[str, NDArray[np.bool_]]]:
        """Each op type with the mask of its ops, most time in the backing memory first."""
        kinds = np.array(self.task.program.op_type)
        masks = [(str(kind), kinds == kind) for kind in dict.fromkeys(self.task.program.op_type)]
        return sorted(masks, key=lambda item: -int(self.backing.time_ps[item[1]].sum()))

    def to_json(self, most: int = 10) -> dict[str, Any]:
        """Plain JSON values, times in seconds, sizes in bytes."""
        program, chip = self.task.program, self.task.accelerator
        return {
            "workload": program.name,
            "program_sha256": program.sha256,
            "accelerator": chip.name,
            "dtype": program.dtype,
            "dims": None if self.dims is None else list(self.dims),
            "ops": program.num_ops,
            "tensors": program.num_tensors,
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
            "extremes": {key: _extreme_json(getattr(self, key)) for key in ("backing", "fastest")},
            "op_types": [self._op_type_json(kind, mask) for kind, mask in self.op_types()],
            "top_ops": [self._op_json(op) for op in self.top_ops(most)],
        }

    def _op_type_json(self, kind: str, mask: NDArray[np.bool_]) -> dict[str, Any]:
        return {
            "type": kind,
            "ops": int(mask.sum()),
            "macs": int(self.task.program.macs[mask].sum()),
            "moved_bytes": int(self.op_bytes[mask].sum()),
            "compute_s": float(self.compute_ps[mask].sum() * PS),
            **{
                key: {"time_s": float(extreme.time_ps[mask].sum() * PS), "memory_bound_ops": _count(extreme, mask)}
                for key, extreme in (("backing", self.backing), ("fastest", self.fastest))
            },
        }

    def _op_json(self, op: int) -> dict[str, Any]:
        return {
            "op": op,
            "name": self.task.program.op_name[op],
            "type": self.task.program.op_type[op],
            "macs": int(self.task.program.macs[op]),
            "moved_bytes": int(self.op_bytes[op]),
            "compute_s": float(self.compute_ps[op] * PS),
            "backing_s": float(self.backing.time_ps[op] * PS),
            "fastest_s": float(self.fastest.time_ps[op] * PS),
        }


def inspect_task(task: Task, dims: tuple[str, ...] | None = None) -> Inspection:
    """Size a program up for a chip."""
    program = task.program
    op_bytes = np.zeros(program.num_ops, dtype=np.int64)
    np.add.at(op_bytes, program.use_op, program.use_bytes)
    return Inspection(task, dims, task.costs.compute_ps, op_bytes, _extreme(task, task.backing), _extreme(task, 0))


def _extreme(task: Task, level: int) -> Extreme:
    program, costs = task.program, task.costs
    everywhere = np.full(program.num_uses, level, dtype=np.int8)
    times = op_times(costs, used_by_level(program.use_ptr, everywhere, costs.use_ps))
    return Extreme(task.accelerator.levels[level].name, times.op_ps, times.memory_ps > costs.compute_ps)


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

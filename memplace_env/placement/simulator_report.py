"""The interface of a simulator, and the Report that it returns for one plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import SimulatorError
from memplace_env._lib.foreign import described
from memplace_env._lib.units import PS, PS_PER_S
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.program.program import Ints, Program


@dataclass(frozen=True, eq=False)
class Report:
    """Latency, energy and traffic of one plan; times are integer picoseconds, with views in seconds.

    A simulator that knows the latency and nothing else returns `Report.measured(seconds)`.

    Attributes:
        latency_ps: sum of op times, stalls and tail.
        op_time_ps: int64[T].
        compute_ps: int64[T], the part of the op that no memory can save, its overhead included.
        port_ps: int64[T, L], how long the op keeps each level's port busy.
        stall_ps: int64[T], time before the op that waits for copies due.
        tail_ps: time after the last op that finishes copies.
        bound_by: int8[T], the level whose port sets the op's time (with serial ports: the one that takes most of
            it), -1 where compute does, or where an op that overlaps others takes no longer than its compute.
        bytes_moved: int64[L], bytes that ops and copies move at each level.
        peak_bytes: int64[L], most bytes in blocks and in what ops reserve for themselves at once; in the backing
            memory, those of weights, inputs and all else that is not in a block at some op.
        energy_j: joules.
        traffic_bound_ps: the traffic bound, which no plan of any kind can beat, see `simulator.bound`.
        level_names: L names.
    """

    latency_ps: int
    op_time_ps: Ints
    compute_ps: Ints
    port_ps: Ints
    stall_ps: Ints
    tail_ps: int
    bound_by: NDArray[np.int8]
    bytes_moved: Ints
    peak_bytes: Ints
    energy_j: float
    traffic_bound_ps: int
    level_names: tuple[str, ...]

    @classmethod
    def measured(cls, seconds: float, *, energy_j: float = 0.0) -> Report:
        """Return the report of a measurement, in which all but latency and energy is unknown.

        The arrays are empty; whoever evaluates the plan gives them their sizes (`sized`).

        Args:
            seconds: latency of one inference (of the whole batch), rounded to picoseconds, at least one.
            energy_j: joules; 0.0 if they are unknown.

        Raises:
            SimulatorError: if `seconds` is no finite number above 0.
        """
        if not (isinstance(seconds, Real) and math.isfinite(seconds) and seconds > 0):
            raise SimulatorError(f"Report.measured: seconds is {described(seconds)}; it must be a number above 0.")
        none = np.zeros(0, dtype=np.int64)
        return cls(
            latency_ps=max(1, round(float(seconds) * PS_PER_S)),
            op_time_ps=none,
            compute_ps=none,
            port_ps=none.reshape(0, 0),
            stall_ps=none,
            tail_ps=0,
            bound_by=none.astype(np.int8),
            bytes_moved=none,
            peak_bytes=none,
            energy_j=energy_j,
            traffic_bound_ps=1,
            level_names=(),
        )

    def sized(self, num_ops: int, level_names: tuple[str, ...]) -> Report:
        """Return a report of `measured` with arrays of the right sizes: zeros, and -1 in `bound_by`; others as is."""
        if self.level_names:
            return self
        of_op, of_level = np.zeros(num_ops, dtype=np.int64), np.zeros(len(level_names), dtype=np.int64)
        return replace(
            self,
            op_time_ps=of_op,
            compute_ps=of_op,
            port_ps=np.zeros((num_ops, len(level_names)), dtype=np.int64),
            stall_ps=of_op,
            bound_by=np.full(num_ops, -1, dtype=np.int8),
            bytes_moved=of_level,
            peak_bytes=of_level,
            level_names=level_names,
        )

    @property
    def is_total_only(self) -> bool:
        """True if times of ops, traffic and peaks are unknown, as in a measurement of the whole."""
        return not self.op_time_ps.any()

    @property
    def latency_s(self) -> float:
        """Seconds for one inference (of the whole batch)."""
        return self.latency_ps * PS

    @property
    def traffic_bound_s(self) -> float:
        """Seconds that no plan of any kind can beat."""
        return self.traffic_bound_ps * PS

    @property
    def op_time_s(self) -> NDArray[np.float64]:
        """float64[T], seconds."""
        return self.op_time_ps.astype(np.float64) * PS

    @property
    def stall_s(self) -> NDArray[np.float64]:
        """float64[T], seconds."""
        return self.stall_ps.astype(np.float64) * PS

    @property
    def tail_s(self) -> float:
        """Seconds."""
        return self.tail_ps * PS

    @property
    def memory_loss_ps(self) -> Ints:
        """int64[T], what each op and the stall before it lose to memory: time beyond compute.

        Where ops overlap, the unit may work on an op while the one before ends: an op shorter than its compute loses 0.
        """
        lost: Ints = np.maximum(self.op_time_ps - self.compute_ps, 0) + self.stall_ps
        return lost

    def summary(self) -> dict[str, Any]:
        """The totals as plain JSON values."""
        return {
            "latency_s": self.latency_s,
            "energy_j": self.energy_j,
            "traffic_bound_s": self.traffic_bound_s,
            "gap_to_traffic_bound": self.latency_ps / self.traffic_bound_ps - 1,
            "stall_s": float(self.stall_ps.sum() * PS),
            "tail_s": self.tail_s,
            "memory_loss_s": float(self.memory_loss_ps.sum() * PS),
            "bytes_moved": dict(zip(self.level_names, self.bytes_moved.tolist(), strict=True)),
            "peak_bytes": dict(zip(self.level_names, self.peak_bytes.tolist(), strict=True)),
        }


@runtime_checkable
class Simulator(Protocol):
    """Any object that turns a valid plan into a Report.

    The same plan must always give the same one, unless an attribute `noisy` is True: the simulator measures, and agents
    repeat a measurement before they rely on it. Without the attribute they find out by running one plan twice.
    """

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Return the report of a plan, which the caller has validated."""
        ...


@runtime_checkable
class BatchSimulator(Simulator, Protocol):
    """A simulator that is faster with many plans at once; several plans to evaluate are passed together."""

    def run_batch(self, program: Program, accelerator: Accelerator, plans: Sequence[MemoryPlan]) -> Sequence[Report]:
        """Return the report of `run` for each of the plans, in their order."""
        ...

"""From what a user passes to `gym.make` or the command line to a program, a chip and a simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memplace_env.accelerator import Accelerator, load_accelerator
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Simulator, resolve_simulator
from memplace_env.workload.program import Program
from memplace_env.workload.resolve import resolve_workload


@dataclass(frozen=True)
class Task:
    """What is to be placed, where, and who judges.

    Attributes:
        program, accelerator, simulator: the resolved objects.
        settings: what made the program, as plain JSON values; goes into every plan so that it can be replayed.
    """

    program: Program
    accelerator: Accelerator
    simulator: Simulator
    settings: Mapping[str, Any]

    def signed(self, plan: MemoryPlan) -> MemoryPlan:
        """The same plan with these settings on it."""
        return replace(plan, settings=dict(self.settings))


def resolve_task(
    workload: str | Program,
    accelerator: str | Accelerator = "nnp-i",
    simulator: str | Simulator | None = None,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    dtype: str | None = None,
    fusion: str | None = None,
) -> Task:
    """Resolve everything; `dtype` and `fusion` default to the accelerator's.

    Raises:
        MemPlaceError: naming what cannot be resolved.
    """
    chip = load_accelerator(accelerator)
    judge = resolve_simulator(simulator)
    settings: dict[str, Any] = {}
    if isinstance(workload, Program) or workload.startswith("synthetic:"):
        program = resolve_workload(workload, batch=batch, dims=dims, dtype=dtype)
    else:
        dtype, fusion = dtype or chip.dtype, fusion or chip.fusion
        settings = {"batch": batch, "dims": dict(dims) if dims else None, "dtype": dtype, "fusion": fusion}
        program = resolve_workload(workload, batch=batch, dims=dims, dtype=dtype, fusion=fusion)
    if not isinstance(workload, Program):
        settings["workload"] = workload
    if isinstance(accelerator, str):
        settings["accelerator"] = accelerator
    return Task(program, chip, judge, settings)

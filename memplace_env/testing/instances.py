"""Small programs, chips and plans for the checks of third parties' parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import cloudpickle
import numpy as np

from memplace_env._lib.errors import MemPlaceError, WorkloadError
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.placement.compiler import all_backing, native_plan, place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.synthetic import planted, random_dag
from memplace_env.placement.task import Task
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Program

T = TypeVar("T")
CHIPS = ("nnp-i", "tpu-v4i")
"""Chips of the checks: three levels, parallel ports, resident weights; two levels, serial ports, streamed weights."""


def instances(
    program: Program | None = None, accelerator: Accelerator | None = None
) -> Iterator[tuple[Program, Accelerator]]:
    """Yield pairs to try: the given program or chip, and for the one left out several that differ in essentials.

    Raises:
        WorkloadError: if none of the chips has a unit for the given program's dtype.
    """
    chips = [load_accelerator(name) for name in CHIPS] if accelerator is None else [accelerator]
    if program is not None:
        chips = [chip for chip in chips if program.dtype in chip.matrix_macs_per_s]
        if not chips:
            raise WorkloadError(f"No chip here has a {program.dtype} unit; pass an accelerator that has.")
        yield from ((program, chip) for chip in chips)
        return
    for chip in chips:
        yield planted("diamond", ops=6, accelerator=chip).program, chip
        yield random_dag(1, ops=8, dtype=chip.dtype), chip
        yield _idle(chip.dtype), chip


def plans_of(task: Task, count: int = 4, seed: int = 0) -> Iterator[MemoryPlan]:
    """Yield valid plans: compiled heuristics, random levels, and random games on chips that allow them."""
    yield from (native_plan(task), all_backing(task))
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield place_levels(task, rng.integers(0, task.accelerator.num_levels, task.program.num_tensors)).plan
    if task.accelerator.num_levels == 2 and task.streams_weights:
        problem = MallocGameProblem(task)
        states = problem.new_states(count)
        problem.finish_randomly(states, seed)
        yield from map(problem.plan, states)


def pickled(part: T, subject: str, error: type[MemPlaceError]) -> T:
    """Return a pickled copy of a third party's part.

    Raises:
        MemPlaceError: of the type `error`, naming the subject, if it cannot be pickled.
    """
    try:
        twin: T = cloudpickle.loads(cloudpickle.dumps(part))
    except Exception as failure:  # its parts may raise anything
        raise error(
            f"{subject} cannot be pickled ({failure}); leave open files, locks and the like out of its pickled state."
        ) from failure
    return twin


def _idle(dtype: str) -> Program:
    """Return a program of one op that uses no tensor: its arrays have length 0."""
    builder = ProgramBuilder("idle", dtype)
    builder.op("Idle", [], [], vector_ops=1000)
    return builder.build()

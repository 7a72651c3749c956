"""The few small programs, chips and plans that third parties' parts are tried on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from memplace_env.accelerator import Accelerator, load_accelerator
from memplace_env.compiler import all_backing, native_plan, place_mapping
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.errors import WorkloadError
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.workload.builder import ProgramBuilder
from memplace_env.workload.program import Program
from memplace_env.workload.synthetic import planted, random_dag

CHIPS = ("nnp-i", "tpu-v4i")
"""Three levels, parallel ports, resident weights; two levels, serial ports, streamed weights."""


def instances(
    program: Program | None = None, accelerator: Accelerator | None = None
) -> Iterator[tuple[Program, Accelerator]]:
    """Pairs to try: the given ones, or where one is left out several that differ in what matters.

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
    """Valid plans of different kinds: compiled heuristics and random maps, and random games on chips that have them."""
    yield from (native_plan(task), all_backing(task))
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield place_mapping(task, rng.integers(0, task.accelerator.num_levels, task.program.num_tensors)).plan
    if task.accelerator.num_levels == 2 and task.streams_weights:
        problem = MallocGameProblem(task)
        states = problem.new_states(count)
        problem.finish_randomly(states, seed)
        yield from map(problem.plan, states)


def _idle(dtype: str) -> Program:
    """One op that uses no tensor: arrays of length 0 everywhere."""
    builder = ProgramBuilder("idle", dtype)
    builder.op("Idle", [], [], vector_ops=1000)
    return builder.build()

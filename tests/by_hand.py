"""A program, a chip and a plan small enough to work everything out by hand."""

from dataclasses import replace

import numpy as np

from memplace_env.machine.accelerator import Accelerator, MemoryLevel
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.task import Task
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Program, TensorKind

NS = 1000
"""Picoseconds."""
X, W, A, B, Y = range(5)
"""Tensors of `three_ops`."""


def machine(**changes) -> Accelerator:
    """1 MAC/ns, backing 1 byte/ns, fast 10 bytes/ns."""
    levels = (
        MemoryLevel("fast", 100, 10**10, 10**10, 0, 1.0),
        MemoryLevel("slow", 10**9, 10**9, 10**9, 0, 10.0),
    )
    plain = Accelerator(
        name="plain",
        description="",
        ports="parallel",
        weights="streamed",
        fusion="none",
        dtype="int8",
        matrix_macs_per_s={"int8": 10**9},
        vector_ops_per_s={"int8": 10**9},
        mac_pj={"int8": 1.0},
        vector_pj={"int8": 1.0},
        op_overhead_ps=0,
        static_power_w=0.0,
        dma_efficiency=1.0,
        systolic=None,
        levels=levels,
    )
    return replace(plain, **changes)


def three_ops(work: int = 50) -> Program:
    """input (10 B) -> a (20 B) -> b (30 B) -> output (10 B), the third op with a weight of 40 B."""
    builder = ProgramBuilder("three", "int8")
    x, w = builder.tensor("x", 10, TensorKind.INPUT), builder.tensor("w", 40, TensorKind.WEIGHT)
    a, b = builder.tensor("a", 20), builder.tensor("b", 30)
    y = builder.tensor("y", 10, TensorKind.OUTPUT)
    builder.op("A", [x], [a], gemm=(1, work, 1, 1))
    builder.op("B", [a], [b], gemm=(1, work, 1, 1))
    builder.op("C", [b, w], [y], gemm=(1, work, 1, 1))
    return builder.build()


def three_op_task(work: int = 50, **changes) -> Task:
    """`three_ops` on `machine`."""
    return make_task(three_ops(work), machine(**changes))


def all_fast(task: Task) -> MemoryPlan:
    """All but the input in fast memory; the weight is copied in during ops 0..1, the output written back at the end."""
    blocks = [[W, 0, 0, 0, 2], [A, 0, 40, 0, 1], [B, 0, 60, 1, 2], [Y, 0, 90, 2, 3]]
    copies = [[W, 1, 0, 0, 1], [Y, 0, 1, 3, 3]]
    return task.make_plan(np.where(task.program.use_tensor == X, 1, 0), np.array(blocks), np.array(copies))

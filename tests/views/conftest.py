"""A small plan that has everything: prefetches, write-backs, a stall, a tail."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from memplace_env.accelerator import Accelerator, load_accelerator
from memplace_env.compiler import native
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report, simulate
from memplace_env.workload.builder import ProgramBuilder
from memplace_env.workload.program import Program, TensorKind

SRAM, DRAM = 0, 1


class Subject(NamedTuple):
    program: Program
    accelerator: Accelerator
    plan: MemoryPlan
    report: Report


@pytest.fixture(scope="session")
def copies() -> Subject:
    """Six layers on ethos-u65; h0 is written back and fetched again, w2 comes too late, y ends in the tail."""
    builder = ProgramBuilder("copies $x$ \u65e5 [bold]", "int8")
    x = builder.tensor("x", 60_000, TensorKind.INPUT)
    weights = [builder.tensor(f"w{op}", 90_000, TensorKind.WEIGHT) for op in range(6)]
    hidden = [builder.tensor(f"h{op}", 70_000) for op in range(5)]
    y = builder.tensor("y", 50_000, TensorKind.OUTPUT)
    for op, result in enumerate([*hidden, y]):
        reads = [hidden[op - 1] if op else x, weights[op], *([hidden[0]] if op == 5 else [])]
        builder.op("Gemm", reads, [result], gemm=(1, 64 * (op + 1), 256, 800), name=f"layer[{op}]")
    program, chip = builder.build(), load_accelerator("ethos-u65")
    h0, w2, w3 = hidden[0], weights[2], weights[3]
    served = {(0, h0), (1, h0), (5, h0), (2, w2), (3, w3), (5, y)}
    use_level = [
        SRAM if (op, tensor) in served else DRAM
        for op, tensor in zip(program.use_op.tolist(), program.use_tensor.tolist(), strict=True)
    ]
    blocks = [(h0, 0, 0, 0, 3), (h0, 0, 0, 4, 5), (w2, 0, 100_000, 1, 2), (w3, 0, 200_000, 1, 3), (y, 0, 100_000, 5, 6)]
    transfers = [
        (h0, SRAM, DRAM, 1, 3),
        (h0, DRAM, SRAM, 4, 4),
        (w2, DRAM, SRAM, 1, 1),
        (w3, DRAM, SRAM, 1, 2),
        (y, SRAM, DRAM, 6, 6),
    ]
    plan = MemoryPlan.of(program, chip, np.array(use_level), np.array(blocks), np.array(transfers))
    report = simulate(program, chip, plan)
    assert report.stall_ps.any()
    assert report.tail_ps > 0
    return Subject(program, chip, plan, report)


@pytest.fixture(scope="session")
def native_report(copies: Subject) -> Report:
    plan = native(copies.program, copies.accelerator)
    return simulate(copies.program, copies.accelerator, plan)

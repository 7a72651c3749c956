"""The buffers of a program, their gain from fast memory, and the order in which they are served."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from memplace_agents.xla_msa.xla_costs import OpCosts
from memplace_env.program.program import FLOAT_BYTES, Program, TensorKind

BEFORE = -1
"""Op at which weights and inputs are defined: before op 0."""
AT_END = -1
"""Use number of the program's end, which takes the graph outputs."""


@dataclass(frozen=True)
class XlaBuffer:
    """A tensor in memory-space assignment.

    Attributes:
        tensor, size: its number and its bytes.
        define: op that makes it, or `BEFORE`.
        result: use that makes it, None for weights and inputs.
        times: ops of its uses in order; for a graph output also T, the end of the program.
        uses: numbers of its uses; `AT_END` for the program's end.
    """

    tensor: int
    size: int
    define: int
    result: int | None
    times: tuple[int, ...]
    uses: tuple[int, ...]


def buffers_of(program: Program, capacity: int) -> list[XlaBuffer]:
    """Return the buffers that may be in fast memory: tensors that fit, are used, and have more than one element."""
    times: list[list[int]] = [[] for _ in range(program.num_tensors)]
    uses: list[list[int]] = [[] for _ in range(program.num_tensors)]
    result: list[int | None] = [None] * program.num_tensors
    for use, (op, tensor, makes) in enumerate(
        zip(program.use_op.tolist(), program.use_tensor.tolist(), program.use_is_result.tolist(), strict=True)
    ):
        if makes:
            result[tensor] = use
        else:
            times[tensor].append(op)
            uses[tensor].append(use)
    for tensor in np.flatnonzero(program.tensor_kind == TensorKind.OUTPUT).tolist():
        times[tensor].append(program.num_ops)
        uses[tensor].append(AT_END)
    return [
        XlaBuffer(tensor, size, define, result[tensor], tuple(times[tensor]), tuple(uses[tensor]))
        for tensor, (size, define) in enumerate(
            zip(program.tensor_bytes.tolist(), program.producer.tolist(), strict=True)
        )
        if FLOAT_BYTES[program.dtype] < size <= capacity and times[tensor]
    ]


def boundedness(costs: OpCosts, program: Program, buffer: XlaBuffer, scale: Literal["sqrt", "none"]) -> float:
    """Return the gain of the ops that touch the buffer from fast memory; negative if none of them is memory-bound.

    The benefit of a memory-bound op is the port time saved, even beyond the point where it becomes compute-bound;
    that of a compute-bound op is minus its distance from being memory-bound. Positive benefits add up. Before op 0
    and at the end nothing runs, which counts as a benefit of 0.
    """

    def benefit(use: int | None) -> int:
        if use is None or use == AT_END:
            return 0
        op = program.use_op[use]
        bound = costs.memory_ps[op] > costs.compute_ps[op]
        return int(costs.memory_ps[op] - (costs.alone_memory_ps[use] if bound else costs.compute_ps[op]))

    total = benefit(buffer.result)
    for use in buffer.uses:
        gain = benefit(use)
        total = total + gain if total > 0 and gain > 0 else max(total, gain)
    return total / math.sqrt(buffer.size) if scale == "sqrt" else float(total)


def in_order(
    costs: OpCosts, program: Program, buffers: list[XlaBuffer], scale: Literal["sqrt", "none"] = "sqrt"
) -> list[XlaBuffer]:
    """Return the buffers in XLA's order: memory-bound first, then larger, longer-lived, used earlier, made earlier."""

    def key(buffer: XlaBuffer) -> tuple[float, int, int, int, int, int]:
        last = buffer.times[-1]
        bound = boundedness(costs, program, buffer, scale)
        return -bound, -buffer.size, buffer.define - last, last, buffer.define, buffer.tensor

    return sorted(buffers, key=key)

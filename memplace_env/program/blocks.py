"""A Program as an allocator sees it: graph inputs and outputs are blocks too, and sizes are whole units.

Both are pure transformations, as slices are, so that everything which plans need not know them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.units import round_up
from memplace_env.program.builder import GEOMETRY_DEFAULT
from memplace_env.program.program import GEOMETRY, Ints, Program, TensorKind

ARRIVAL: Final = "Inputs"
"""Type of the first op of a program whose inputs are blocks: the caller has filled them when it runs."""
DEPARTURE: Final = "Outputs"
"""Type of the last op of a program whose outputs are blocks: the caller takes them when it runs."""


def aligned(program: Program, alignment: int) -> Program:
    """Return the program with the bytes of every tensor rounded up to a multiple of `alignment`.

    Blocks that lie one on another from address 0 on then begin at multiples, too. Uses move what they did. The program
    itself is returned if `alignment` is 1.
    """
    if alignment == 1:
        return program
    return replace(program, tensor_bytes=round_up(program.tensor_bytes, alignment), alignment=alignment)


def with_ends(program: Program) -> Program:
    """Return the program with graph inputs and outputs as inner results, which a first op makes and a last op reads.

    All inputs are alive from the first op on, all outputs to the last. The two ops move one byte a tensor and compute
    nothing: they take a latency of the memories that they touch, and a picosecond a tensor. Inputs whose place an
    output takes, and such outputs, stay what they are; so does a program that has no others. Inputs and outputs are not
    cut into slices.

    Raises:
        WorkloadError: if the program's tensors are slices already.
    """
    if program.slices is not None:
        raise WorkloadError("The inputs and outputs of a sliced Program cannot become blocks; slice it afterwards.")
    taken = np.zeros(program.num_tensors, dtype=np.bool_)
    taken[program.alias_of[program.alias_of >= 0]] = True
    inputs = np.flatnonzero((program.tensor_kind == TensorKind.INPUT) & ~taken)
    outputs = np.flatnonzero((program.tensor_kind == TensorKind.OUTPUT) & (program.alias_of < 0))
    both = np.concatenate([inputs, outputs])
    if len(both) == 0:
        return program
    before, after = int(len(inputs) > 0), int(len(outputs) > 0)  # ops
    kind, rows, producer = program.tensor_kind.copy(), program.tensor_rows.copy(), program.producer.copy()
    kind[both], rows[both] = TensorKind.ACTIVATION, 1
    producer[producer >= 0] += before
    producer[inputs] = 0
    nothing = np.array([[GEOMETRY_DEFAULT.get(name, 0) for name in GEOMETRY]])

    def around(values: Ints, row: Ints) -> Ints:
        """Return the values of ops with those of the ends around them."""
        return np.concatenate([row] * before + [values] + [row] * after)

    ends = (ARRIVAL,) * before, (DEPARTURE,) * after
    counts = [len(inputs)] * before + np.diff(program.use_ptr).tolist() + [len(outputs)] * after
    return replace(
        program,
        tensor_kind=kind,
        tensor_rows=rows,
        producer=producer,
        op_type=(*ends[0], *program.op_type, *ends[1]),
        op_name=(*ends[0], *program.op_name, *ends[1]),
        gemm=around(program.gemm, np.zeros((1, 4), dtype=np.int64)),
        vector_ops=around(program.vector_ops, np.zeros(1, dtype=np.int64)),
        geometry=around(program.geometry, nothing),
        use_ptr=np.concatenate([[0], np.cumsum(counts)]),
        use_tensor=np.concatenate([inputs, program.use_tensor, outputs]),
        use_is_result=np.concatenate([inputs >= 0, program.use_is_result, outputs < 0]),
        use_bytes=np.concatenate([np.ones_like(inputs), program.use_bytes, np.ones_like(outputs)]),
        use_halo=np.concatenate([np.zeros_like(inputs), program.use_halo, np.zeros_like(outputs)]),
        inplace=program.inplace + len(inputs),
        op_nodes=(*[()] * before, *program.op_nodes, *[()] * after) if program.op_nodes else (),
    )


def inner_ops(program: Program) -> slice:
    """Return the ops without those of `with_ends`."""
    last = program.num_ops - 1
    return slice(int(_is_end(program, 0, ARRIVAL)), program.num_ops - _is_end(program, last, DEPARTURE))


def _is_end(program: Program, op: int, kind: str) -> bool:
    """Return whether an op is one of `with_ends`: an op of a model that has this type does something."""
    uses = slice(program.use_ptr[op], program.use_ptr[op + 1])
    idle = not program.gemm[op].any() and program.vector_ops[op] == 0 and (program.use_bytes[uses] == 1).all()
    return bool(program.op_type[op] == kind and idle and (program.use_is_result[uses] == (kind == ARRIVAL)).all())


def inner_uses(program: Program) -> slice:
    """Return the uses without those of the ops of `with_ends`."""
    ops = inner_ops(program)
    return slice(int(program.use_ptr[ops.start]), int(program.use_ptr[ops.stop]))


def kinds_of(program: Program) -> NDArray[np.integer]:
    """Return the `TensorKind` of each tensor, int[K], in a network without those ops: inputs and outputs are such."""
    kinds, ops = program.tensor_kind.copy(), inner_ops(program)
    kinds[program.use_tensor[: program.use_ptr[ops.start]]] = TensorKind.INPUT
    kinds[program.use_tensor[program.use_ptr[ops.stop] :]] = TensorKind.OUTPUT
    return kinds


def end_tensors(program: Program) -> Ints:
    """Return the tensors that the ops of `with_ends` make or read, rising."""
    inner = inner_uses(program)
    outside = np.concatenate([program.use_tensor[: inner.start], program.use_tensor[inner.stop :]])
    return np.unique(outside)

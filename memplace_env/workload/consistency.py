"""Whether the arrays of a Program agree with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from memplace_env.workload.terms import FLOAT_BYTES, TensorKind

MAX_TOTAL: Final = 2.0**62
"""Sums of bytes or work above this would leave int64."""

if TYPE_CHECKING:
    from memplace_env.workload.program import Program


def first_inconsistency(program: Program) -> str | None:
    """What is wrong with the arrays, as the end of a sentence, or None."""
    ops, tensors, uses = program.num_ops, program.num_tensors, program.num_uses
    lengths: Sequence[tuple[str, int, int]] = (
        ("tensor_kind", len(program.tensor_kind), tensors),
        ("tensor_name", len(program.tensor_name), tensors),
        ("producer", len(program.producer), tensors),
        ("op_name", len(program.op_name), ops),
        ("gemm", len(program.gemm), ops),
        ("vector_ops", len(program.vector_ops), ops),
        ("geometry", len(program.geometry), ops),
        ("use_ptr", len(program.use_ptr), ops + 1),
        ("use_is_result", len(program.use_is_result), uses),
        ("use_bytes", len(program.use_bytes), uses),
        ("alias_of", len(program.alias_of), tensors),
        ("op_nodes", len(program.op_nodes) or ops, ops),
        ("tensor_value", len(program.tensor_value) or tensors, tensors),
    )
    for name, have, want in lengths:
        if have != want:
            return f"{name} has {have} entries where {want} are due"
    if ops == 0:
        return "it has no op that does any work, so there is nothing to place"
    if program.dtype not in FLOAT_BYTES:
        return f"dtype {program.dtype!r} is none of {', '.join(FLOAT_BYTES)}"
    if (program.tensor_bytes < 1).any():
        return "a tensor has no bytes"
    if (program.gemm < 0).any() or (program.vector_ops < 0).any():
        return "an op does less than no work"
    if any(np.abs(total).sum() > MAX_TOTAL for total in _totals(program)):
        return "its sums of bytes or work are absurd; bind smaller dims"
    if program.use_ptr[0] != 0 or program.use_ptr[-1] != uses or (np.diff(program.use_ptr) < 0).any():
        return "use_ptr does not run from 0 to the number of uses"
    if uses and not (0 <= program.use_tensor.min() and program.use_tensor.max() < tensors):
        return "a use names a tensor that does not exist"
    if len(np.unique(program.use_op * tensors + program.use_tensor)) != uses:
        return "an op lists a tensor twice"
    inner = np.setdiff1d(np.arange(1, uses), program.use_ptr)
    if (program.use_is_result[inner - 1] & ~program.use_is_result[inner]).any():
        return "an op lists an operand behind a result"
    if (program.live_end < 0).any():
        return "a tensor is touched by no op"
    if (program.use_bytes < 1).any() or (program.use_bytes > program.tensor_bytes[program.use_tensor]).any():
        return "a use moves no bytes or more than its tensor has"
    made = np.full(tensors, -1, dtype=np.int64)
    made[program.use_tensor[program.use_is_result]] = program.use_op[program.use_is_result]
    if (made != program.producer).any() or program.use_is_result.sum() != (made >= 0).sum():
        return "producer and the result uses disagree"
    if (made[program.use_tensor] > program.use_op).any():
        return "an op reads a tensor before it is made"
    constant = np.isin(program.tensor_kind, (TensorKind.WEIGHT, TensorKind.INPUT))
    if ((made < 0) != constant).any():
        return "exactly the weights and inputs must have no producer"
    return _wrong_alias(program)


def _totals(program: Program) -> Iterator[NDArray[np.float64]]:
    yield program.gemm.astype(float).prod(axis=1)
    for array in (program.tensor_bytes, program.vector_ops, program.use_bytes, program.geometry):
        yield array.astype(float)


def _wrong_alias(program: Program) -> str | None:
    sources = program.alias_of
    if (sources < -1).any() or (sources >= program.num_tensors).any():
        return "alias_of names a tensor that does not exist"
    outputs = np.flatnonzero(sources >= 0)
    taken = sources[outputs]
    if (program.tensor_kind[outputs] != TensorKind.OUTPUT).any():
        return "a tensor that is no output takes the place of another"
    if not np.isin(program.tensor_kind[taken], (TensorKind.WEIGHT, TensorKind.INPUT)).all():
        return "an output takes the place of a tensor that is neither weight nor input"
    if (program.tensor_bytes[outputs] != program.tensor_bytes[taken]).any():
        return "an output takes the place of a tensor of other bytes"
    if len(np.unique(taken)) != len(taken):
        return "two outputs take the place of one tensor"
    if (program.live_end[taken] > program.producer[outputs]).any():
        return "an op reads a tensor after another has taken its place"
    return None

"""Consistency of a Program's arrays with each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.units import round_up
from memplace_env.program.program_arrays import ARRAY_DIMS, FLOAT_BYTES, ProgramArrays, TensorKind

MAX_TOTAL: Final = 2.0**62
"""Largest sum of bytes or work; larger ones could overflow int64."""

MOST_ROWS: Final = 2**31
"""Rows that a tensor has less of, so that products of rows stay in int64."""


def first_inconsistency(program: ProgramArrays) -> str | None:
    """Return the first violation as the end of a sentence, None for consistent arrays."""
    ops, tensors, uses = program.num_ops, program.num_tensors, program.num_uses
    counts: dict[str | int, int] = {"ops": ops, "tensors": tensors, "uses": uses, "ends": ops + 1}
    counts["pairs"] = len(program.inplace)
    due = {name: counts[dims[0]] for name, dims in ARRAY_DIMS.items()}
    due |= {"tensor_name": tensors, "op_name": ops}
    due |= {"op_nodes": ops} if program.op_nodes else {}
    due |= {"tensor_value": tensors} if program.tensor_value else {}
    for name, count in due.items():
        if (length := len(getattr(program, name))) != count:
            return f"{name} has {length} entries, not {count}"
    if ops == 0:
        return "it has no op that does any work, so there is nothing to place"
    if program.dtype not in FLOAT_BYTES:
        return f"dtype {program.dtype!r} is not one of {', '.join(FLOAT_BYTES)}"
    if (program.tensor_bytes < 1).any():
        return "a tensor has no bytes"
    if program.alignment < 1 or (program.tensor_bytes % program.alignment).any():
        return "a tensor's bytes are no multiple of the alignment"
    if (program.gemm < 0).any() or (program.vector_ops < 0).any():
        return "an op does less than no work"
    if any(np.abs(total).sum() > MAX_TOTAL for total in _totals(program)):
        return f"its sums of bytes or work exceed {MAX_TOTAL:.0e}; bind smaller dims"
    if (program.tensor_rows < 1).any() or (program.use_halo < 0).any():
        return "a tensor has less than one row, or a use less than no halo"
    if max(program.tensor_rows.max(initial=0), program.use_halo.max(initial=0)) >= MOST_ROWS:
        return f"a tensor or a halo has {MOST_ROWS:.0e} rows or more; give it longer ones"
    if program.use_ptr[0] != 0 or program.use_ptr[-1] != uses or (np.diff(program.use_ptr) < 0).any():
        return "use_ptr does not run from 0 to the number of uses"
    if uses and not (0 <= program.use_tensor.min() and program.use_tensor.max() < tensors):
        return "a use names a tensor that does not exist"
    if len(np.unique(program.use_op * tensors + program.use_tensor)) != uses:
        return "an op lists a tensor twice"
    # Uses that do not begin an op: each has a predecessor in the same op.
    inner = np.setdiff1d(np.arange(1, uses), program.use_ptr)
    if (program.use_is_result[inner - 1] & ~program.use_is_result[inner]).any():
        return "an op lists an operand behind a result"
    if (program.live_end < 0).any():
        return "a tensor is touched by no op"
    if (program.use_bytes < 1).any() or (program.use_bytes > program.tensor_bytes[program.use_tensor]).any():
        return "a use moves no bytes or more than its tensor has"
    producer = np.full(tensors, -1, dtype=np.int64)
    producer[program.use_tensor[program.use_is_result]] = program.use_op[program.use_is_result]
    # With more result uses than produced tensors, a tensor has two producers.
    if (producer != program.producer).any() or program.use_is_result.sum() != (producer >= 0).sum():
        return "producer and the result uses disagree"
    if (producer[program.use_tensor] > program.use_op).any():
        return "an op reads a tensor before it is made"
    constant = np.isin(program.tensor_kind, (TensorKind.WEIGHT, TensorKind.INPUT))
    if ((producer < 0) != constant).any():
        return "exactly the weights and inputs must have no producer"
    return _wrong_alias(program) or _wrong_pair(program)


def _totals(program: ProgramArrays) -> Iterator[NDArray[np.float64]]:
    # Floats, as the int64 products and sums may already have overflowed.
    yield program.gemm.astype(float).prod(axis=1)
    for array in (program.tensor_bytes, program.vector_ops, program.use_bytes, program.geometry):
        yield array.astype(float)


def _wrong_alias(program: ProgramArrays) -> str | None:
    sources = program.alias_of
    if (sources < -1).any() or (sources >= program.num_tensors).any():
        return "alias_of names a tensor that does not exist"
    outputs = np.flatnonzero(sources >= 0)
    taken = sources[outputs]
    if (program.tensor_kind[outputs] != TensorKind.OUTPUT).any():
        return "a tensor that is not an output takes the place of another"
    if not np.isin(program.tensor_kind[taken], (TensorKind.WEIGHT, TensorKind.INPUT)).all():
        return "an output takes the place of a tensor that is neither weight nor input"
    if (program.tensor_bytes[outputs] != program.tensor_bytes[taken]).any():
        return "an output takes the place of a tensor of other bytes"
    if len(np.unique(taken)) != len(taken):
        return "two outputs take the place of one tensor"
    if (program.live_end[taken] > program.producer[outputs]).any():
        return "an op reads a tensor after an output has taken its place"
    return None


def _wrong_pair(program: ProgramArrays) -> str | None:
    pairs = program.inplace
    if (pairs < 0).any() or (pairs >= program.num_uses).any():
        return "inplace names a use that does not exist"
    if not (program.use_is_result[pairs] == (False, True)).all():
        return "a pair of inplace is not an operand and a result"
    if (program.use_op[pairs[:, 0]] != program.use_op[pairs[:, 1]]).any():
        return "a pair of inplace is of two ops"
    if (np.diff(program.use_op[pairs[:, 0]]) < 0).any() or len(np.unique(pairs, axis=0)) != len(pairs):
        return "the pairs of inplace are not in the order of their ops, each once"
    tensors = program.use_tensor[pairs]
    if (program.tensor_kind[tensors] != TensorKind.ACTIVATION).any():
        return "a pair of inplace is not of inner results"
    size, moved = program.tensor_bytes[tensors], program.use_bytes[pairs]
    if (
        (size[:, 0] != size[:, 1]).any()
        or (moved[:, 0] != moved[:, 1]).any()
        or (round_up(moved, program.alignment) != size).any()
    ):
        return "a pair of inplace is of other bytes, or moves a part of them"
    return None

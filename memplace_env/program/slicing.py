"""Slices: large tensors of a Program cut into several tensors, which may lie in several memories at once.

A pure transformation: each slice is a tensor with a range of the whole's rows, and each use of the whole becomes a use
of each of its slices. An op still runs as one: it reads and writes the slices tile by tile, each at its level. Costs
are those of the whole, shared out by ranges, see `Slices`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.foreign import described
from memplace_env._lib.units import ceil_div
from memplace_env.program.model_file import LIMITS
from memplace_env.program.program import Ints, Program
from memplace_env.program.program_arrays import Slices

_SLICES: Final = "operands and results"
"""Kind of `LIMITS` that bounds slices: each is an operand or result of its own."""


def sliced(program: Program, limit_bytes: int, multiple: int = 1) -> Program:
    """Return the program with every weight and inner result of more than `limit_bytes` cut into equal slices.

    Sizes are multiples of `multiple` bytes, but for the last slice. A tensor whose rows are too large, or which an
    output takes the place of, has larger slices or stays whole. Tensors that may lie in each other's place are cut
    alike. The program itself is returned if none is cut.

    Raises:
        WorkloadError: for more slices than a model may have operands and results.
    """
    return cut(program.whole, _pieces(program.whole, limit_bytes, multiple))


def cut_before(program: Program, rows: Mapping[str, Sequence[int]]) -> Program:
    """Return the program with each tensor of `rows` cut before these rows; its number is the key, as in `cuts_of`.

    Raises:
        WorkloadError: for a tensor that there is not or that stays whole, or rows that it does not have or that do not
            ascend, or more slices than a model may have operands and results. Mappings come from plans, which may be a
            stranger's.
    """
    program = program.whole
    pieces = [np.array([end]) for end in program.tensor_rows[:, 1]]
    names = {str(tensor): tensor for tensor in np.flatnonzero(_may_be_cut(program))}
    for name, begins in rows.items():
        tensor = names.get(name) if isinstance(name, str) else None
        if tensor is None:
            raise WorkloadError(f"slices cuts tensor {described(name)}, which {program.name!r} has not or keeps whole.")
        end = int(program.tensor_rows[tensor, 1])
        if not isinstance(begins, list | tuple) or not all(type(row) is int and 0 < row < end for row in begins):
            raise WorkloadError(f"slices cuts tensor {name} elsewhere than before one of its rows, 1 to {end - 1}.")
        if any(later <= row for row, later in pairwise(begins)):
            raise WorkloadError(f"slices cuts tensor {name} before rows that do not ascend.")
        pieces[tensor] = np.array([*begins, end])
    return cut(program, pieces)


def cuts_of(program: Program) -> dict[str, list[int]]:
    """Return the first rows of the second and later slices of each tensor that is cut, by its number in the whole."""
    cuts: dict[str, list[int]] = {}
    if program.slices is not None:
        for tensor, (begin, _) in zip(program.slices.slice_of.tolist(), program.slices.rows.tolist(), strict=True):
            if begin:
                cuts.setdefault(str(tensor), []).append(begin)
    return cuts


def cut(program: Program, pieces: Sequence[Ints]) -> Program:
    """Return the program with its tensors in slices; `pieces` has for each tensor the row behind each slice.

    Only the last row ends the last slice of a tensor. The program itself is returned if none is cut.
    """
    counts = np.array([len(ends) for ends in pieces])
    if (counts == 1).all():
        return program
    _check_number(program, counts)
    ends = np.concatenate(pieces)
    begins = np.concatenate([[0], ends[:-1]])
    first = np.cumsum(counts) - counts
    begins[first] = 0
    slice_of = np.repeat(np.arange(program.num_tensors), counts)
    # Each use becomes as many as its tensor has slices, in their order.
    uses = counts[program.use_tensor]
    use_of = np.repeat(np.arange(program.num_uses), uses)
    number = np.arange(len(use_of)) - np.repeat(np.cumsum(uses) - uses, uses)
    tensor = first[program.use_tensor[use_of]] + number
    last = np.minimum(ends[tensor] + program.use_halo[use_of], program.tensor_rows[program.use_tensor[use_of], 1])
    slices = Slices(program, slice_of, np.stack([begins, ends], 1), use_of, np.stack([begins[tensor], last], 1))
    whole_bytes = program.tensor_bytes
    own_bytes = slices.of_tensors(whole_bytes)
    before = np.concatenate([[0], np.cumsum(uses)])
    alias = program.alias_of[slice_of]
    return replace(
        program,
        tensor_bytes=own_bytes,
        tensor_kind=program.tensor_kind[slice_of],
        tensor_name=tuple(
            name if count == 1 else f"{name}[{index + 1}/{count}]"
            for name, count in zip(program.tensor_name, counts, strict=True)
            for index in range(count)
        ),
        producer=program.producer[slice_of],
        use_ptr=before[program.use_ptr],
        use_tensor=tensor,
        use_is_result=program.use_is_result[use_of],
        use_bytes=np.clip(slices.of_uses(program.use_bytes), 1, own_bytes[tensor]),
        alias_of=np.where(alias < 0, -1, first[alias]),
        tensor_rows=np.ones((len(slice_of), 2), dtype=np.int64),
        use_halo=np.zeros(len(use_of), dtype=np.int64),
        inplace=_pairs_of_slices(program, pieces, before),
        tensor_value=tuple(program.tensor_value[tensor] for tensor in slice_of) if program.tensor_value else (),
        alignment=1,
        slices=slices,
    )


def _pieces(program: Program, limit_bytes: int, multiple: int) -> list[Ints]:
    """Return for each tensor the row behind each of its slices."""
    large = _may_be_cut(program) & (program.tensor_bytes > limit_bytes)
    common = _common_rows(program)
    cuts = [
        _equal_cuts(size, ends, limit_bytes, multiple) if is_large else (ends, 1, 1)
        for size, ends, is_large in zip(program.tensor_bytes.tolist(), common, large.tolist(), strict=True)
    ]
    _check_number(program, np.array([count for _, _, count in cuts]))
    return [
        np.array([min(ends, unit * (units * index // count)) for index in range(1, count + 1)]) * (rows // ends)
        for rows, ends, (unit, units, count) in zip(program.tensor_rows[:, 1].tolist(), common, cuts, strict=True)
    ]


def _common_rows(program: Program) -> list[int]:
    """Return the most equal parts of each tensor that are whole rows of all whose place it may take, or that take its.

    Pairs whose rows lie in other blocks stay apart, as their slices are other bytes.
    """
    blocks, rows = program.tensor_rows.T.tolist()
    first = list(range(program.num_tensors))

    def find(tensor: int) -> int:
        while first[tensor] != tensor:
            first[tensor] = tensor = first[first[tensor]]
        return tensor

    for operand, result in program.use_tensor[program.inplace].tolist():
        one, other = find(operand), find(result)
        if blocks[one] == blocks[other] and (together := math.gcd(rows[one], rows[other])) > 1:
            first[other], rows[one] = one, together
    return [rows[find(tensor)] for tensor in range(program.num_tensors)]


def _pairs_of_slices(program: Program, pieces: Sequence[Ints], before: Ints) -> Ints:
    """Return the pairs of slices that are the same bytes of a pair of tensors; `before` has each use's first slice."""
    pairs = []
    for use, result in program.inplace.tolist():
        (blocks, rows), (its_blocks, its_rows) = program.tensor_rows[program.use_tensor[[use, result]]].tolist()
        ends, its_ends = (pieces[tensor].tolist() for tensor in program.use_tensor[[use, result]])
        if len(ends) == len(its_ends) == 1:
            pairs.append((before[use], before[result]))
        elif blocks == its_blocks and not program.use_halo[use]:
            spans = {(begin * rows, end * rows): index for index, (begin, end) in enumerate(_spans(its_ends))}
            pairs += [
                (before[use] + index, before[result] + spans[begin * its_rows, end * its_rows])
                for index, (begin, end) in enumerate(_spans(ends))
                if (begin * its_rows, end * its_rows) in spans
            ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _spans(ends: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first row of each slice and the one behind its last."""
    return pairwise([0, *ends])


def _check_number(program: Program, counts: Ints) -> None:
    """Refuse more slices than a model may have operands and results, before any array of that length is made.

    Raises:
        WorkloadError: for `counts` int64[K], slices of each tensor, that are too many.
    """
    # In floating point, as counts of damaged files add up beyond int64.
    number = max(counts.sum(dtype=float), counts[program.use_tensor].sum(dtype=float))
    if number > LIMITS[_SLICES]:
        raise WorkloadError(
            f"These slices would make {number:,.0f} {_SLICES} of {program.name!r}, and {LIMITS[_SLICES]:,} are the "
            "most that are read; pass a larger share, or cut fewer tensors."
        )


def _may_be_cut(program: Program) -> NDArray[np.bool_]:
    """Return bool[K], weights and inner results that no output takes the place of."""
    replaced = np.zeros(program.num_tensors, dtype=bool)
    replaced[program.alias_of[program.alias_of >= 0]] = True
    return np.asarray(program.is_placeable & ~replaced)


def _equal_cuts(size: int, rows: int, limit_bytes: int, multiple: int) -> tuple[int, int, int]:
    """Return how a tensor of `size` bytes in equal rows is cut: rows of a unit, number of units, number of slices."""
    unit = rows * multiple // math.gcd(size, rows * multiple)  # fewest rows that are a multiple in bytes
    units = ceil_div(rows, unit)
    return unit, units, ceil_div(units, max(1, limit_bytes * rows // (size * unit)))

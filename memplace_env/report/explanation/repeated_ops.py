"""Ops that repeat from layer to layer, which tables show as one row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from memplace_env.program.program import Ints, Program, TensorKind
from memplace_env.report.quantities import cut, shortened

REPEATED = "Repeated ops are one row, with the sums of their times and the reason of the first."
"""Explains the rows of repeated ops below a table."""

_NUMBERS = re.compile(r"[\W_]*\d+")
_LAYER = re.compile(r"(?:layers?|blocks?|stages?|\bh)[._/\[](\d+)")
"""Matches the number of a layer in names of ops and weights such as `encoder.layer.3.output` or `h.3.mlp`."""
_MOST_RANGES = 3
_NAME_WIDTH = 32
TYPE_WIDTH = 18
"""Characters that tables show of an op's name and type."""


class RepeatedOps(NamedTuple):
    """Ops of one type that differ in numbers in their names only; often a single op.

    Attributes:
        ops: in execution order.
        name: as tables show it: the op's own, or such as "12 x Add in layers 0-11".
    """

    ops: tuple[int, ...]
    name: str

    @property
    def first(self) -> int:
        """The op that stands for all."""
        return self.ops[0]


def repeated_ops(program: Program, worth: Ints, most: int, alike: Callable[[int], object]) -> list[RepeatedOps]:
    """Return the groups of ops that are worth most together, largest first.

    Args:
        program: the program.
        worth: int64[T]; ops that are worth nothing are left out.
        most: number of groups at most.
        alike: returns equal values for ops that may be in one group, as a rule the cells of a row.
    """
    groups: dict[object, list[int]] = {}
    for op in np.flatnonzero(worth > 0).tolist():
        key = (program.op_type[op], _NUMBERS.sub("", program.op_name[op]), alike(op))
        groups.setdefault(key, []).append(op)
    ranked = sorted(groups.values(), key=lambda ops: (-int(worth[ops].sum()), ops[0]))[:most]
    layers = _layers(program)
    return [RepeatedOps(tuple(ops), _name(program, ops, layers)) for ops in ranked]


def _name(program: Program, ops: list[int], layers: list[tuple[int, ...]]) -> str:
    if len(ops) == 1:
        return shortened(program.op_name[ops[0]], _NAME_WIDTH)
    count = f"{len(ops)} x {cut(program.op_type[ops[0]], TYPE_WIDTH)}"
    depth = min(len(layers[op]) for op in ops)
    if depth == 0:
        return f"{count}, ops {ops[0]} to {ops[-1]}"
    # Names may have several numbers, as `stages.1.blocks.3`: the one that tells most of these ops apart counts.
    numbers = max(([layers[op][index] for op in ops] for index in range(depth)), key=lambda column: len(set(column)))
    distinct = sorted(set(numbers))
    return f"{count} in layer{'s' if len(distinct) > 1 else ''} {_ranges(distinct)}"


def _layers(program: Program) -> list[tuple[int, ...]]:
    """Return the layer numbers of each op: in its name, else in its weights' names, else those of the op before it."""
    layers: list[tuple[int, ...]] = []
    before: tuple[int, ...] = ()
    for op in range(program.num_ops):
        tensors = program.use_tensor[program.use_ptr[op] : program.use_ptr[op + 1]]
        weights = [
            program.tensor_name[tensor] for tensor in tensors if program.tensor_kind[tensor] == TensorKind.WEIGHT
        ]
        numbers = [match for name in (program.op_name[op], *weights) if (match := _LAYER.findall(name))]
        if numbers:
            before = tuple(map(int, numbers[0]))
        elif weights:  # weights of no layer, as of an embedding
            before = ()
        layers.append(before)
    return layers


def _ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as ranges: "0-3, 5"; of many ranges only the ends, "0 to 11"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    if len(ranges) > _MOST_RANGES:
        return f"{ranges[0][0]} to {ranges[-1][1]}"
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)

"""Nodes that write out a formula of one tensor, numbers and at most two parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from memplace_env.program.frontends.patterns.formulas import CUTS, FUNCTIONS, REDUCTIONS, FormulaStep, known
from memplace_env.program.frontends.patterns.surroundings import Match, Surroundings
from memplace_env.program.lowering.graph_values import FLOAT_BITS, Shape
from memplace_env.program.lowering.node_graph import Node

_MARKS: Final = FUNCTIONS.keys() - {"Abs", "Add", "Cast", "Div", "Identity", "Mul", "Neg", "Pow", "Reciprocal", "Rsqrt",
                                    "Slice", "Split", "Sqrt", "Square", "SquaredDifference", "Sub"}  # fmt: skip
"""Operators of which each pattern has one to `_MOST_MARKS`."""
_MOST_MARKS, _MOST_PLAIN, _MOST_NODES = 3, 16, 30
"""Most nodes of a formula: with marks, without any, and in all (our choice, so that long chains take no time)."""


def formula(around: Surroundings, last: int) -> Match | None:
    """Return the longest formula that ends with a node and is one op, None if there is none."""
    node = around.nodes[last]
    result = around.result(node)
    if result is None or not result.shape or not _is_step(around, node, result.shape):
        return None
    nodes, match = {last}, None
    while len(nodes) < _MOST_NODES:
        marks = sum(around.nodes[at].operator.name in _MARKS for at in nodes)
        if marks > _MOST_MARKS or (not marks and len(nodes) > _MOST_PLAIN):
            return match
        made = {name for at in nodes for name in around.nodes[at].outputs}
        read = [name for at in sorted(nodes) for name in _operands(around.nodes[at])]
        given = [name for name in dict.fromkeys(read) if name not in made and around.number(name, True) is None]
        match = (_one_op(around, nodes, given, result.shape) if marks else None) or match
        # Of what is read the latest goes inside, so that all who read it are inside already, if they ever are.
        before = max(map(around.maker, given), default=-1)
        inner = around.nodes[before]
        own = {name for name in inner.outputs if name in around.values}
        if before < 0 or not all(around.readers(name) <= nodes for name in own):
            return match
        if not _is_step(around, inner, result.shape):
            return match
        nodes = nodes | {before}
    return match


def _operands(node: Node) -> Sequence[str]:
    """Return the names of a node's operands, without parameters that say which elements it works on."""
    whole = node.operator.name not in CUTS | REDUCTIONS | {"Clip"}
    return node.inputs if whole else node.inputs[:1]


def _is_step(around: Surroundings, node: Node, shape: Shape) -> bool:
    """Return whether a node may be a step to a result of a shape: it makes rows, as many as that has."""
    values = [around.values.get(name) for name in node.outputs]
    name = node.operator.name
    if name not in FUNCTIONS or node.operator.activated or not all(node.outputs):
        return False
    if any(value is None or value.constant or len(value.shape) != len(shape) for value in values):
        return False
    if any(value is not None and value.shape[:-1] != shape[:-1] for value in values):
        return False
    if name == "Concat" or name in CUTS:
        axis = _cut_axis(around, node) if name == "Slice" else node.attributes.get("axis", 0)
        return not around.of_tflite and axis is not None and axis % len(shape) == len(shape) - 1
    if name in REDUCTIONS:
        axes = node.attributes.get("axes")
        if axes is None and len(node.inputs) > 1 and node.inputs[1]:
            axes = around.values[node.inputs[1]].data
        return axes is not None and [int(axis) % len(shape) for axis in np.reshape(axes, -1)] == [len(shape) - 1]
    if name == "Cast":
        return around.is_cast(node)
    return name not in ("Max", "Min") or len(node.inputs) == 2


def _cut_axis(around: Surroundings, node: Node) -> int | None:
    """Return the only axis that a node slices, None if it does so in steps or is not known."""
    numbers = [around.number(name, True) for name in node.inputs[1:]]
    axis = numbers[2] if len(numbers) > 2 and None not in numbers[:2] and numbers[3:] in ([], [1.0]) else None
    return None if axis is None else int(axis)


def _one_op(around: Surroundings, nodes: set[int], given: list[str], shape: Shape) -> Match | None:
    """Return the one op that nodes with these operands are, None if they are none."""
    inside = [around.nodes[at] for at in sorted(nodes)]
    if sum(node.operator.name not in ("Cast", "Identity") for node in inside) < 2:
        return None
    cut = {name for node in inside if node.operator.name in CUTS for name in _operands(node)}
    values = around.values
    tensors = [name for name in given if not values[name].constant and values[name].shape == shape]
    tensors = [name for name in tensors if name in cut] if cut else tensors
    others = [name for name in given if name not in tensors]
    if len(tensors) != 1 or len(others) > 2 or not all(values[name].shape for name in others):
        return None
    sizes = tuple(values[name].shape[-1] for name in (*tensors, *others))
    weights = all(values[name].constant and values[name].elements == shape[-1] for name in others)
    weights &= set(sizes) == {shape[-1]}
    rows = cut or any(node.operator.name in REDUCTIONS for node in inside)
    steps = _steps(around, inside, [*tensors, *others])
    if steps is None or not (weights or cut) or (others and not rows):
        return None
    types = {values[name].element_type for node in inside for name in (*_operands(node), *node.outputs)}
    rough = any(FLOAT_BITS.get(kind, 32) <= 16 for kind in types)
    # The answer for an element-wise formula is the same for all sizes.
    found = known(steps, sizes if rows else (1,), weights, rough)
    if found is None:
        return None
    pattern, order = found
    inputs = (*tensors, *(others[number] for number in order))
    return around.match(nodes, pattern.operator, inputs, pattern.attributes)


def _steps(around: Surroundings, inside: list[Node], given: list[str]) -> tuple[FormulaStep, ...] | None:
    """Return the steps of a formula, None if one of its numbers is unknown."""
    number: dict[str, int] = {name: -1 - at for at, name in enumerate(given)}
    steps: list[FormulaStep] = []
    for node in inside:
        name, first = node.operator.name, 0
        operands = [number[other] if other in number else _number(around, node, other) for other in _operands(node)]
        if name == "Clip":
            operands += _bounds(around, node)
        if None in operands:
            return None
        for output in node.outputs:
            numbers: tuple[float, ...] = ()
            if name == "Split":
                numbers = first, first + around.values[output].shape[-1]
                first = numbers[1]
            elif name == "Slice":
                start, end = (int(around.number(text, True) or 0) for text in node.inputs[1:3])
                numbers = slice(start, end).indices(around.values[node.inputs[0]].shape[-1])[:2]
            elif name == "HardSigmoid":
                numbers = node.attributes.get("alpha", 0.2), node.attributes.get("beta", 0.5)
            number[output] = len(steps)
            steps.append(FormulaStep(name, tuple(operand for operand in operands if operand is not None), numbers))
    return tuple(steps)


def _number(around: Surroundings, node: Node, name: str) -> float | None:
    """Return a number in a formula; exponents of 0, as in files that lost their contents, are 2 (our choice)."""
    if node.operator.name == "Pow" and name == node.inputs[1]:
        exponent = around.number(name, integer=True)
        return 2.0 if exponent == 0 else exponent
    return around.number(name)


def _bounds(around: Surroundings, node: Node) -> list[float | None]:
    """Return the bounds of a Clip, unknown where it has none: then they are in TFLite's name of it."""
    bounds: list[float | None] = [node.attributes.get("min", -math.inf), node.attributes.get("max", math.inf)]
    for at, name in enumerate(node.inputs[1:]):
        bounds[at] = around.number(name) if name else bounds[at]
    return [None, None] if bounds == [-math.inf, math.inf] else bounds

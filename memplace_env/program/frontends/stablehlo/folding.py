"""Folding of arithmetic on small integer constants, which gives the rounds of loops and the starts of slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from memplace_env.program.frontends.lowered.graph_values import INTEGER_BITS, Array, Value, type_name
from memplace_env.program.frontends.stablehlo.module import Instruction

_COMPARISONS: Final[Mapping[str, Callable[..., Any]]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}

_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negate": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "select": lambda choice, left, right: np.where(choice, left, right),
    "clamp": lambda low, value, high: np.minimum(np.maximum(value, low), high),
    "reshape": np.array,
    "convert": np.array,
    "divide": lambda left, right: np.trunc(np.divide(left, right)),
    "remainder": np.fmod,
}

_BYTES: Final = {"int2": "int8", "uint2": "uint8", "int4": "int8", "uint4": "uint8"}
"""NumPy types for those that it lacks."""


def folded(instruction: Instruction, operands: Sequence[Array | None]) -> Array | None:
    """Return the result of an instruction whose operands are known integers, None if it is unknown."""
    result = instruction.types[0] if len(instruction.types) == 1 else None
    if result is None or not (result.element_type in INTEGER_BITS or type_name(result.element_type) == "BOOL"):
        return None
    if instruction.name == "constant":
        contents = instruction.attributes.get("value", (False, None))[1]
        return None if contents is None else _cast(contents, result)
    values = [operand for operand in operands if operand is not None]
    if not values or len(values) < len(operands):
        return None
    if instruction.name == "compare":
        function = _COMPARISONS.get(instruction.attributes.get("comparison_direction", ""))
    elif instruction.name == "broadcast_in_dim" and values[0].size == 1 and result.elements == 1:
        function = np.array
    else:
        function = _FUNCTIONS.get(instruction.name)
    if function is None or (instruction.name in ("divide", "remainder") and not values[1].all()):
        return None
    with np.errstate(all="ignore"):
        return _cast(function(*values), result)


def _cast(contents: Any, result: Value) -> Array:
    name = type_name(result.element_type).lower()
    dtype = np.dtype(_BYTES.get(name, name))
    return np.broadcast_to(np.asarray(contents).astype(dtype).reshape(-1), (result.elements,)).reshape(result.shape)

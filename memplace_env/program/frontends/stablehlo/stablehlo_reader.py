"""Reading of a StableHLO module from text, bytecode or a module of MLIR."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.stablehlo.module import Argument, HloBlock, Instruction, Module
from memplace_env.program.frontends.stablehlo.parsed_apart import as_text, libraries, new_context
from memplace_env.program.lowering.graph_values import Value, checked_value, type_number

MAX_FOLDED_ELEMENTS: Final = 64
"""Most elements of an integer constant whose contents are read; our choice."""

_ELEMENT_TYPES: Final[Mapping[str, str]] = {
    "f64": "DOUBLE",
    "f32": "FLOAT",
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f8E5M2": "FLOAT8E5M2",
    "f8E5M2FNUZ": "FLOAT8E5M2FNUZ",
    "f8E4M3FN": "FLOAT8E4M3FN",
    "f8E4M3FNUZ": "FLOAT8E4M3FNUZ",
    "f8E4M3B11FNUZ": "FLOAT8E4M3FN",
    "f8E4M3": "FLOAT8E4M3FN",
    "f8E3M4": "FLOAT8E4M3FN",
    "f8E8M0FNU": "FLOAT8E8M0",
    "f4E2M1FN": "FLOAT4E2M1",
    "i1": "BOOL",
    "complex<f32>": "COMPLEX64",
    "complex<f64>": "COMPLEX128",
} | {f"{sign}i{bits}": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)}
"""ONNX's names of MLIR's element types; types of 8 bits that ONNX lacks count as one that it has."""

_NO_TENSOR: Final = Value((0,), type_number("BOOL"))
"""Value of a token, which orders effects and takes no memory."""


def read_module(source: bytes | str | Any) -> Module:
    """Return the module in a text, in bytecode, or in a module of MLIR.

    Raises:
        WorkloadError: the source is no module, is damaged, or has dynamic dims; or jax is missing.
    """
    library = libraries()
    if isinstance(source, bytes):
        source = as_text(source)
    elif not isinstance(source, str | library.ir.Module):
        kind = type(source).__name__
        raise WorkloadError(f"A StableHLO module is the path of a file or a module of MLIR, not {kind:.80}.")
    try:
        if isinstance(source, library.ir.Module):
            return _Reader(library).module(source)
        with new_context(library):
            return _Reader(library).module(library.ir.Module.parse(source))
    except WorkloadError:
        raise
    except RecursionError as error:
        raise WorkloadError("The module's regions are nested too deeply; export the function again.") from error
    except Exception as error:  # the bindings raise different types
        match = re.search(r"error: (.*)", str(error))
        reason = match[1] if match else (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise WorkloadError(f"This is not a StableHLO module, or a damaged one ({reason:.200}).") from error


class _Reader:
    def __init__(self, library: Any) -> None:
        self._library = library
        self._numbers: dict[Any, int] = {}

    def module(self, module: Any) -> Module:
        functions, arguments = {}, None
        for operation in module.body.operations:
            if operation.operation.name != "func.func":
                continue
            name = operation.attributes["sym_name"].value
            if not operation.regions[0].blocks:
                raise WorkloadError(f"Function {name!r} has no body, so its cost is not known.")
            if name == "main":
                arguments = self._arguments(operation)
            functions[name] = self._block(operation.regions[0].blocks[0])
        if arguments is None:
            raise WorkloadError("The module has no function main; export a jitted function with jax.jit(f).lower(...).")
        return Module(functions, arguments)

    def _arguments(self, function: Any) -> tuple[Argument, ...]:
        values = function.regions[0].blocks[0].arguments
        declared = function.attributes["arg_attrs"] if "arg_attrs" in function.attributes else [{}] * len(values)
        names: set[str] = set()
        arguments: list[Argument] = []
        for index, (value, attributes) in enumerate(zip(values, declared, strict=True)):
            match = re.match(r'loc\("((?:[^"\\]|\\.)*)"[()]', str(value.location))
            name = match[1] if match and match[1] not in names else f"arg{index}"
            names.add(name)
            becomes = self._output(attributes, name)
            if becomes is not None and any(other.becomes == becomes for other in arguments):
                raise WorkloadError(f"Two arguments take the place of output {becomes}; donate one of them.")
            donated = becomes is not None or "jax.buffer_donor" in attributes
            arguments.append(Argument(name, self._type(value.type), donated, becomes))
        return tuple(arguments)

    def _output(self, attributes: Any, name: str) -> int | None:
        """Return the number of the output that takes an argument's place, from the argument's attributes."""
        if "tf.aliasing_output" not in attributes:
            return None
        number = getattr(attributes["tf.aliasing_output"], "value", None)
        if type(number) is not int:
            raise WorkloadError(
                f"tf.aliasing_output of the argument {name!r:.80} is not a whole number; export the function again."
            )
        return number

    def _number(self, value: Any) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def _type(self, tensor: Any) -> Value:
        text = str(tensor)
        if not text.startswith("tensor<"):
            if "token" in text:
                return _NO_TENSOR
            raise WorkloadError(f"A value has the type {text:.80}; only tensors can be placed in memory.")
        ranked = self._library.ir.RankedTensorType(tensor)
        if not ranked.has_static_shape:
            raise WorkloadError(f"A value has the dynamic shape {text:.80}; export the function with fixed shapes.")
        number = type_number(_ELEMENT_TYPES.get(str(ranked.element_type), ""))
        return checked_value(f"A value of type {text:.80}", tuple(ranked.shape), number)

    def _block(self, block: Any) -> HloBlock:
        arguments = tuple(self._number(value) for value in block.arguments)
        instructions: list[Instruction] = []
        returned: tuple[int, ...] = ()
        for operation in (view.operation for view in block.operations):
            name = operation.name.rpartition(".")[2]
            inputs = tuple(self._number(value) for value in operation.operands)
            if name == "return":
                returned = inputs
                continue
            instructions.append(
                Instruction(
                    name=name,
                    inputs=inputs,
                    results=tuple(self._number(value) for value in operation.results),
                    types=tuple(self._type(value.type) for value in operation.results),
                    attributes=self._attributes(operation),
                    blocks=tuple(self._block(region.blocks[0]) for region in operation.regions if region.blocks),
                )
            )
        return HloBlock(arguments, tuple(instructions), returned)

    def _attributes(self, operation: Any) -> dict[str, Any]:
        attributes = {}
        for name in operation.attributes:
            name = name if isinstance(name, str) else name.name
            attribute = operation.attributes[name]
            convert = getattr(self, f"_read_{name}", None) or _PLAIN.get(type(attribute).__name__)
            if convert is not None:
                attributes[name] = convert(attribute)
        return attributes

    def _read_value(self, attribute: Any) -> tuple[bool, Any]:
        """Return whether all elements of a constant are equal, and its contents if they are a few integers."""
        splat = bool(getattr(attribute, "is_splat", False))
        if type(attribute).__name__ != "DenseIntElementsAttr":
            return splat, None
        small = self._library.ir.ShapedType(attribute.type).shape
        return splat, np.array(attribute) if np.prod(small, dtype=float) <= MAX_FOLDED_ELEMENTS else None

    def _read_dot_dimension_numbers(self, attribute: Any) -> dict[str, tuple[int, ...]]:
        dims = self._library.stablehlo.DotDimensionNumbers(attribute)
        sides = (f"{side}_{kind}_dimensions" for side in ("lhs", "rhs") for kind in ("batching", "contracting"))
        return {name: tuple(getattr(dims, name)) for name in sides}

    def _read_dimension_numbers(self, attribute: Any) -> dict[str, Any]:
        if not self._library.stablehlo.ConvDimensionNumbers.isinstance(attribute):
            return {}
        dims = self._library.stablehlo.ConvDimensionNumbers(attribute)
        single = ("input_batch", "input_feature", "kernel_input_feature", "kernel_output_feature", "output_batch")
        numbers: dict[str, Any] = {name: getattr(dims, f"{name}_dimension") for name in (*single, "output_feature")}
        for side in ("input", "kernel", "output"):
            numbers[f"{side}_spatial"] = tuple(getattr(dims, f"{side}_spatial_dimensions"))
        return numbers

    def _read_comparison_direction(self, attribute: Any) -> str:
        return str(self._library.stablehlo.ComparisonDirectionAttr(attribute).value)


_PLAIN: Final = {
    "IntegerAttr": lambda attribute: int(attribute.value),
    "BoolAttr": lambda attribute: bool(attribute.value),
    "StringAttr": lambda attribute: str(attribute.value),
    "FlatSymbolRefAttr": lambda attribute: str(attribute.value),
    "DenseI64ArrayAttr": tuple,
    "DenseBoolArrayAttr": tuple,
    "DenseIntElementsAttr": lambda attribute: np.array(attribute).tolist(),
}
"""Conversion of attributes by their class in the bindings."""

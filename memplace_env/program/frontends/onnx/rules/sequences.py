"""Replacement of operators on sequences by operators on tensors: the elements of a sequence are named values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.units import ceil_div
from memplace_env.program.frontends.onnx.topology import describe
from memplace_env.program.lowering.graph_values import MAX_KNOWN_ELEMENTS, Array, Value
from memplace_env.program.model_file import stem

Names = tuple[str, ...]

_LISTS_AS_INPUTS: Final = 13
"""First operator set in which Split, Squeeze and Unsqueeze take their list as an input, not as an attribute."""


@dataclass(frozen=True, slots=True)
class Unrolled:
    """Replacement of a node on sequences.

    Attributes:
        elements: names of the values in the resulting sequence, None if the result is a tensor.
        nodes: operators on tensors that compute those values, or that tensor.
        constants: initialisers that the nodes read.
    """

    elements: Names | None = None
    nodes: tuple[NodeProto, ...] = ()
    constants: tuple[TensorProto, ...] = ()


@dataclass(frozen=True, slots=True)
class SequenceSite:
    """A node on sequences and its operands, the argument of the rules.

    Attributes:
        node: the node.
        inputs: by position a tensor, the names of a sequence's elements, or None if absent.
        opset: version of the operator set.
    """

    node: NodeProto
    inputs: tuple[Value | Names | None, ...]
    opset: int

    @property
    def result(self) -> str:
        """Name of the only output."""
        return str(self.node.output[0])

    def attribute(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        return next((attribute.i for attribute in self.node.attribute if attribute.name == name), default)

    def elements(self) -> Names:
        """Return the sequence at input 0."""
        read = self.inputs[0]
        if not isinstance(read, tuple):
            raise WorkloadError(
                f"{describe(self.node)} reads a tensor where a sequence is required; the file is damaged."
            )
        return read

    def tensor(self, position: int) -> Value | None:
        """Return the tensor at an input position, None if absent."""
        read = self.inputs[position] if position < len(self.inputs) else None
        if isinstance(read, tuple):
            raise WorkloadError(
                f"{describe(self.node)} reads a sequence where a tensor is required; the file is damaged."
            )
        return read

    def numbers(self, position: int) -> Array | None:
        """Return the integers at an input position, None if absent."""
        value = self.tensor(position)
        if value is None:
            return None
        if value.data is None or value.data.dtype.kind not in "iu":
            raise WorkloadError(
                f"The sequence at {describe(self.node)} depends on the data through {self.node.input[position]!r}; "
                "only sequences of known length are supported, so export the model with fixed sizes there."
            )
        if value.data.ndim > 1:
            name = self.node.input[position]
            raise WorkloadError(f"{name!r} is neither a number nor a list at {describe(self.node)}; fix the model.")
        return value.data

    def tensor_name(self, position: int) -> str:
        """Return the name of the tensor at a required input position."""
        if self.tensor(position) is None:
            raise WorkloadError(f"{describe(self.node)} lacks its input {position}; the file is damaged.")
        return str(self.node.input[position])

    def index(self, position: int, end: int, default: int) -> int:
        """Return the index into the sequence at an input position, made non-negative; `default` if absent.

        Args:
            position: position of the input.
            end: first index that is too large: the length of the sequence, or that plus 1.
            default: the index if the input is absent.
        """
        numbers, length = self.numbers(position), len(self.elements())
        given = [default] if numbers is None else [int(number) for number in numbers.ravel()]
        if len(given) != 1 or not -length <= given[0] < end:
            listed = ", ".join(map(str, given))
            raise WorkloadError(
                f"{describe(self.node)} uses the index {listed} in a sequence of {length}; fix the model."
            )
        return given[0] + length if given[0] < 0 else given[0]

    def node_of(self, op_type: str, inputs: Names, outputs: Names, **attributes: Any) -> NodeProto:
        """Return a node with this node's name."""
        return helper.make_node(op_type, inputs, outputs, name=self.node.name, **attributes)

    def listing(self, op_type: str, source: str, outputs: Names, key: str, numbers: list[int], **more: int) -> Unrolled:
        """Return one node of an operator that takes a list."""
        if self.opset < _LISTS_AS_INPUTS:
            return Unrolled(outputs, (self.node_of(op_type, (source,), outputs, **{key: numbers}, **more),))
        given = numpy_helper.from_array(np.array(numbers, dtype=np.int64), f"{stem(outputs[0])}/{key}")
        return Unrolled(outputs, (self.node_of(op_type, (source, given.name), outputs, **more),), (given,))


def empty(site: SequenceSite) -> Unrolled:
    """Return a sequence without elements."""
    return Unrolled(())


def construct(site: SequenceSite) -> Unrolled:
    """Return the sequence of the operands."""
    return Unrolled(tuple(map(site.tensor_name, range(len(site.inputs)))))


def insert(site: SequenceSite) -> Unrolled:
    """Return the sequence with one element more, by default at the end."""
    elements = site.elements()
    index = site.index(2, len(elements) + 1, default=len(elements))
    return Unrolled((*elements[:index], site.tensor_name(1), *elements[index:]))


def erase(site: SequenceSite) -> Unrolled:
    """Return the sequence with one element less, by default the last."""
    elements = site.elements()
    index = site.index(1, len(elements), default=-1)
    return Unrolled(elements[:index] + elements[index + 1 :])


def at(site: SequenceSite) -> Unrolled:
    """Return a view of one element."""
    elements = site.elements()
    chosen = elements[site.index(1, len(elements), default=0)]
    return Unrolled(nodes=(site.node_of("Identity", (chosen,), (site.result,)),))


def length(site: SequenceSite) -> Unrolled:
    """Return the number of elements as a constant."""
    count = np.array(len(site.elements()), dtype=np.int64)
    return Unrolled(constants=(numpy_helper.from_array(count, site.result),))


def split(site: SequenceSite) -> Unrolled:
    """Return one split of the operand; without sizes into slices of 1, whose axis is removed if `keepdims` is 0."""
    data, axis = site.tensor(0), site.attribute("axis", 0)
    if data is None or not -len(data.shape) <= axis < len(data.shape):
        raise WorkloadError(f"axis={axis} of {describe(site.node)} is out of range; fix the model.")
    sizes = _sizes(site, data.shape[axis])
    if not sizes:
        return Unrolled(())
    pieces = tuple(f"{stem(site.result)}/{index}" for index in range(len(sizes)))
    whole = site.listing("Split", site.node.input[0], pieces, "split", sizes, axis=axis)
    if len(site.inputs) > 1 or site.attribute("keepdims", 1):
        return whole
    squeezed = [site.listing("Squeeze", name, (f"{name}/squeezed",), "axes", [axis]) for name in pieces]
    return _joined(whole, *squeezed, elements=tuple(f"{name}/squeezed" for name in pieces))


def concat(site: SequenceSite) -> Unrolled:
    """Return one concatenation of the elements, with `new_axis` after an Unsqueeze of each."""
    elements, axis = site.elements(), site.attribute("axis", 0)
    fresh: list[Unrolled] = []
    if site.attribute("new_axis", 0):
        stacked = tuple(f"{stem(site.result)}/{index}" for index in range(len(elements)))
        pairs = zip(elements, stacked, strict=True)
        fresh = [site.listing("Unsqueeze", source, (name,), "axes", [axis]) for source, name in pairs]
        elements = stacked
    return _joined(*fresh, Unrolled(nodes=(site.node_of("Concat", elements, (site.result,), axis=axis),)))


def _sizes(site: SequenceSite, whole: int) -> list[int]:
    """Return the sizes of an axis's pieces: as listed, or all equal with a smaller last one."""
    numbers = site.numbers(1)
    if numbers is not None and numbers.ndim:
        return [int(size) for size in numbers]
    size = 1 if numbers is None else int(numbers)
    if size < 1 or ceil_div(whole, size) > MAX_KNOWN_ELEMENTS:
        split = f"{describe(site.node)} splits {whole} rows into pieces of {size}"
        raise WorkloadError(f"{split}; from 1 to {MAX_KNOWN_ELEMENTS} pieces are possible.")
    return [min(size, whole - start) for start in range(0, whole, size)]


def _joined(*parts: Unrolled, elements: Names | None = None) -> Unrolled:
    nodes = tuple(node for part in parts for node in part.nodes)
    return Unrolled(elements, nodes, tuple(tensor for part in parts for tensor in part.constants))

"""What stands for the operators of sequences: elements are values with names, moved as operators of tensors do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.values import MAX_KNOWN_ELEMENTS, Array, Value
from memplace_env.workload.names import stem
from memplace_env.workload.onnx.topology import describe

Names = tuple[str, ...]

_LISTS_AS_INPUTS: Final = 13
"""The operator set since which Split, Squeeze and Unsqueeze take their list as an input, not as an attribute."""


@dataclass(frozen=True, slots=True)
class Unrolled:
    """What stands for a node of sequences.

    Attributes:
        elements: names of the values in the sequence that the node makes, None if it makes a tensor.
        nodes: operators of tensors that make those values, or that tensor.
        constants: initialisers that the nodes read.
    """

    elements: Names | None = None
    nodes: tuple[NodeProto, ...] = ()
    constants: tuple[TensorProto, ...] = ()


@dataclass(frozen=True, slots=True)
class SequenceSite:
    """What the rules see: a node and what it reads.

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
        """A whole-numbered attribute."""
        return next((attribute.i for attribute in self.node.attribute if attribute.name == name), default)

    def elements(self) -> Names:
        """The sequence at input 0."""
        read = self.inputs[0]
        if not isinstance(read, tuple):
            raise WorkloadError(f"{describe(self.node)} reads a tensor where a sequence is due; the file is damaged.")
        return read

    def tensor(self, position: int) -> Value | None:
        """The tensor at an input position, None if absent."""
        read = self.inputs[position] if position < len(self.inputs) else None
        if isinstance(read, tuple):
            raise WorkloadError(f"{describe(self.node)} reads a sequence where a tensor is due; the file is damaged.")
        return read

    def numbers(self, position: int) -> Array | None:
        """The whole numbers at an input position, None if absent."""
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
        """Name of the tensor at an input position that the operator cannot do without."""
        if self.tensor(position) is None:
            raise WorkloadError(f"{describe(self.node)} lacks its input {position}; the file is damaged.")
        return str(self.node.input[position])

    def place(self, position: int, places: int, default: int) -> int:
        """The place in the sequence, one of `places`, that an input names, counted from the sequence's end if negative.

        Args:
            position: of the input.
            places: as many as the sequence has elements, or one more.
            default: the place if the input is absent.
        """
        numbers, length = self.numbers(position), len(self.elements())
        given = [default] if numbers is None else [int(number) for number in numbers.ravel()]
        if len(given) != 1 or not -length <= given[0] < places:
            asked = f"{describe(self.node)} asks for place {', '.join(map(str, given))}"
            raise WorkloadError(f"{asked} in a sequence of {length}; fix the model.")
        return given[0] + length if given[0] < 0 else given[0]

    def made(self, op_type: str, inputs: Names, outputs: Names, **attributes: Any) -> NodeProto:
        """A node of this node's name."""
        return helper.make_node(op_type, inputs, outputs, name=self.node.name, **attributes)

    def listing(self, op_type: str, source: str, outputs: Names, key: str, numbers: list[int], **more: int) -> Unrolled:
        """One node of an operator that takes a list."""
        if self.opset < _LISTS_AS_INPUTS:
            return Unrolled(outputs, (self.made(op_type, (source,), outputs, **{key: numbers}, **more),))
        given = numpy_helper.from_array(np.array(numbers, dtype=np.int64), f"{stem(outputs[0])}/{key}")
        return Unrolled(outputs, (self.made(op_type, (source, given.name), outputs, **more),), (given,))


def empty(site: SequenceSite) -> Unrolled:
    """No elements."""
    return Unrolled(())


def construct(site: SequenceSite) -> Unrolled:
    """The operands."""
    return Unrolled(tuple(map(site.tensor_name, range(len(site.inputs)))))


def insert(site: SequenceSite) -> Unrolled:
    """One element more, at the end unless a position is given."""
    elements = site.elements()
    place = site.place(2, len(elements) + 1, default=len(elements))
    return Unrolled((*elements[:place], site.tensor_name(1), *elements[place:]))


def erase(site: SequenceSite) -> Unrolled:
    """One element less, the last unless a position is given."""
    elements = site.elements()
    place = site.place(1, len(elements), default=-1)
    return Unrolled(elements[:place] + elements[place + 1 :])


def at(site: SequenceSite) -> Unrolled:
    """A view of one element."""
    elements = site.elements()
    chosen = elements[site.place(1, len(elements), default=0)]
    return Unrolled(nodes=(site.made("Identity", (chosen,), (site.result,)),))


def length(site: SequenceSite) -> Unrolled:
    """A constant."""
    count = np.array(len(site.elements()), dtype=np.int64)
    return Unrolled(constants=(numpy_helper.from_array(count, site.result),))


def split(site: SequenceSite) -> Unrolled:
    """One split of the operand; without sizes into slices of 1, whose axis goes away unless it is to be kept."""
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
    """One concatenation of the elements, each with an axis of its own first if a new one is asked for."""
    elements, axis = site.elements(), site.attribute("axis", 0)
    fresh: list[Unrolled] = []
    if site.attribute("new_axis", 0):
        stacked = tuple(f"{stem(site.result)}/{index}" for index in range(len(elements)))
        pairs = zip(elements, stacked, strict=True)
        fresh = [site.listing("Unsqueeze", source, (name,), "axes", [axis]) for source, name in pairs]
        elements = stacked
    return _joined(*fresh, Unrolled(nodes=(site.made("Concat", elements, (site.result,), axis=axis),)))


def _sizes(site: SequenceSite, whole: int) -> list[int]:
    """Of the pieces of an axis: as listed, or as many of one size as there are and what is left."""
    numbers = site.numbers(1)
    if numbers is not None and numbers.ndim:
        return [int(size) for size in numbers]
    size = 1 if numbers is None else int(numbers)
    if size < 1 or -(-whole // size) > MAX_KNOWN_ELEMENTS:
        what = f"{describe(site.node)} splits {whole} rows into pieces of {size}"
        raise WorkloadError(f"{what}; from 1 to {MAX_KNOWN_ELEMENTS} pieces are possible.")
    return [min(size, whole - start) for start in range(0, whole, size)]


def _joined(*parts: Unrolled, elements: Names | None = None) -> Unrolled:
    nodes = tuple(node for part in parts for node in part.nodes)
    return Unrolled(elements, nodes, tuple(tensor for part in parts for tensor in part.constants))

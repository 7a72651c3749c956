"""A light graph in ONNX's terms: nodes with what is known of their operators, values mostly without contents."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from memplace_env.workload.lowered.operator import Operator
from memplace_env.workload.lowered.values import Array, Value


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the graph, all of its attributes read.

    Attributes:
        operator: what is known of its operator.
        name: from the file, or made up.
        inputs: value names, "" for an absent optional input.
        outputs: value names, "" for an absent optional output.
        attributes: by name.
    """

    operator: Operator
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph whose shapes are all known, with constants still in place.

    Attributes:
        nodes: in execution order.
        values: by name; outputs that nothing consumes may be missing.
        outputs: names of the graph's outputs.
        channels_last: feature maps are [batch, height, width, channels]; filters are as in ONNX even so.
    """

    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    outputs: tuple[str, ...]
    channels_last: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """What an operator's rules see: a node and the values around it.

    Attributes:
        node: the node.
        inputs: by the node's positions, None where one is absent.
        outputs: by the node's positions, None where one is absent or unused.
        dtype: what floating-point tensors are deployed in, as in `load_onnx`; None for the file's types.
        delivered: the first output, or a view of it, is an output of the graph.
    """

    node: Node
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    dtype: str | None
    delivered: bool

    @classmethod
    def of(cls, node: Node, values: Mapping[str, Value], used: Set[str], dtype: str | None, delivered: bool) -> Site:
        """The node among `values`, of whose outputs only the `used` ones count."""
        outputs = (values[name] if name in used else None for name in node.outputs)
        return cls(node, tuple(map(values.get, node.inputs)), tuple(outputs), dtype, delivered)

    def input(self, position: int) -> Value | None:
        """The value at an input position, None if absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def needed(self, position: int) -> Value:
        """The value at an input position that the operator cannot do without.

        Raises:
            ValueError: it is absent.
        """
        value = self.input(position)
        if value is None:
            raise ValueError(f"input {position} is missing")
        return value

    @property
    def weight(self) -> Value:
        """The filters or the right-hand matrix, wherever the operator has them.

        Raises:
            ValueError: they are absent.
        """
        return self.needed(self.node.operator.weight)

    @property
    def result(self) -> Value:
        """The first output that is used."""
        return next(value for value in self.outputs if value is not None)

    def contents(self, position: int) -> Array | None:
        """Contents of a constant input, None if absent or unknown."""
        value = self.input(position)
        return None if value is None else value.data

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute of the node as ONNX's helper reads it: text is bytes."""
        return self.node.attributes.get(name, default)

"""Surroundings of the nodes of a graph, for the rules that look for patterns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from memplace_env.program.lowering.graph_values import FLOAT_BITS, Value
from memplace_env.program.lowering.node_graph import Node, NodeGraph, Operator


class Match(NamedTuple):
    """Nodes, by number, that are one op, and the new node behind the views that it reads."""

    nodes: set[int]
    made: tuple[Node, ...]


class Surroundings:
    """The nodes of a graph by number, and who makes and reads each value; rules add the values of their views."""

    def __init__(self, graph: NodeGraph) -> None:
        self.nodes, self.values, self.of_tflite = graph.nodes, dict(graph.values), graph.channels_last
        self._maker = {name: at for at, node in enumerate(graph.nodes) for name in node.outputs if name}
        self._readers: dict[str, set[int]] = {name: {-1} for name in graph.outputs}
        for at, node in enumerate(graph.nodes):
            for name in (*node.inputs, *node.captured):
                self._readers.setdefault(name, set()).add(at)

    def maker(self, name: str) -> int:
        """Return the number of the node that makes a value, -1 for constants and inputs of the graph."""
        return -1 if not name or self.values[name].constant else self._maker.get(name, -1)

    def readers(self, name: str) -> set[int]:
        """Return the numbers of the nodes that read a value, -1 among them for a graph output."""
        return self._readers.get(name, set())

    def reader(self, name: str) -> Node | None:
        """Return the node that alone reads a value."""
        readers = self.readers(name)
        return self.nodes[min(readers)] if len(readers) == 1 and -1 not in readers else None

    def result(self, node: Node) -> Value | None:
        """Return the result of a node with one output, None if it has several, or is constant or never read."""
        value = self.values.get(node.outputs[0]) if len(node.outputs) == 1 else None
        return None if value is None or value.constant else value

    def number(self, name: str, integer: bool = False) -> float | None:
        """Return a known constant of one element in floating point, or in integers if they will do; else None."""
        value = self.values.get(name)
        if value is None or value.data is None or value.elements != 1:
            return None
        return float(value.data.reshape(-1)[0]) if integer or value.element_type in FLOAT_BITS else None

    def is_cast(self, node: Node) -> bool:
        """Return whether a node turns floats into other floats."""
        names = (*node.inputs, *node.outputs) if node.operator.name == "Cast" else ("",)
        return all(name in self.values and self.values[name].element_type in FLOAT_BITS for name in names)

    def match(self, nodes: set[int], operator: Operator, inputs: tuple[str, ...], like: Mapping[str, Any]) -> Match:
        """Return the match of nodes that are an op with these inputs, and with attributes like these."""
        last = self.nodes[max(nodes)]
        covers = tuple(self.nodes[at].name for at in sorted(nodes) if self.nodes[at].operator.works)
        return Match(nodes, (Node(operator, last.name, inputs, last.outputs, like, covers=covers),))

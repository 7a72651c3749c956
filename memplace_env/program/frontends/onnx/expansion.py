"""Size of a model after inlining its local functions, computed before they are inlined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from onnx import ModelProto, NodeProto

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.topology import all_nodes, describe, subgraphs
from memplace_env.program.limits import Meter

MAX_DEPTH: Final = 100
"""Deepest chain of calls between local functions, which the inliner follows by recursion."""

_Key = tuple[str, str, str]


class _Size(NamedTuple):
    """Nodes and bytes after inlining, and the depth of calls."""

    nodes: int = 0
    bytes: int = 0
    depth: int = 0


def check_expansion(model: ModelProto) -> None:
    """Refuse a model that would exceed `limits.LIMITS` once its functions are inlined.

    Raises:
        WorkloadError: it would, a function calls itself, or a function has a graph as argument.
    """
    size = _Expansion(model).size(model.graph.node)
    meter = Meter()
    meter.add("nodes", size.nodes)
    meter.add("bytes of local functions", size.bytes)


class _Expansion:
    def __init__(self, model: ModelProto) -> None:
        self._bodies = {(_spelt(f.domain), f.name, f.overload): f.node for f in model.functions}
        self._sizes: dict[_Key, _Size] = {}
        self._open: list[_Key] = []
        lists = (model.graph.node, *self._bodies.values())
        calls = [node for nodes in lists for node in all_nodes(nodes) if _key(node) in self._bodies]
        arguments = [attribute for call in calls for attribute in call.attribute]
        arguments += [attribute for function in model.functions for attribute in function.attribute_proto]
        # Inlining replaces names by those of the call, and references to attributes by the call's: at most by the
        # longest and the largest of all.
        self._longest_name = max((len(name) for call in calls for name in (*call.input, *call.output)), default=0)
        self._largest_argument = max((attribute.ByteSize() for attribute in arguments), default=0)

    def size(self, nodes: Iterable[NodeProto]) -> _Size:
        """Return the size of some nodes with the functions that they call inlined."""
        parts = [part for node in nodes for part in self._parts(node)]
        depth = max((part.depth for part in parts), default=0)
        return _Size(sum(part.nodes for part in parts), sum(part.bytes for part in parts), depth)

    def _parts(self, node: NodeProto) -> Iterator[_Size]:
        references = sum(bool(attribute.ref_attr_name) for attribute in node.attribute)
        operands = len(node.input) + len(node.output)
        own = node.ByteSize() + references * self._largest_argument + operands * self._longest_name
        key = _key(node)
        if key in self._bodies:
            if any(subgraphs(node)):
                raise WorkloadError(f"{describe(node)} passes a graph to a local function, which is not supported.")
            yield self._called(key, node)
        yield _Size(1, own)
        for graph in subgraphs(node):
            yield self.size(graph.node)

    def _called(self, key: _Key, node: NodeProto) -> _Size:
        if key in self._open:
            raise WorkloadError(f"{describe(node)} is a local function that calls itself, which is not supported.")
        if key not in self._sizes:
            if len(self._open) >= MAX_DEPTH:
                raise self._too_deep(node)
            self._open.append(key)
            size = self.size(self._bodies[key])
            self._open.pop()
            self._sizes[key] = size._replace(depth=size.depth + 1)
        if self._sizes[key].depth > MAX_DEPTH:
            raise self._too_deep(node)
        return self._sizes[key]

    def _too_deep(self, node: NodeProto) -> WorkloadError:
        return WorkloadError(
            f"{describe(node)} is in local functions that call each other over {MAX_DEPTH} deep, which is the most "
            "that is read; export the model with its functions inlined."
        )


def _key(node: NodeProto) -> _Key:
    return _spelt(node.domain), node.op_type, node.overload


def _spelt(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain

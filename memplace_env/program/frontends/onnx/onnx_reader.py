"""Reading of an .onnx file into a ModelProto, checked first, without external data or the bytes of its weights."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, inliner

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.onnx_constants import drop_payload
from memplace_env.program.frontends.onnx.topology import all_nodes, describe, subgraphs
from memplace_env.program.model_file import Meter, errors_named, read_bytes

OLDEST_IR: Final = 3
"""Oldest supported IR version; earlier files have no operator set version, so their operators are not defined."""

_NEWEST_IR: Final = 2**31 - 1
"""Largest IR version that ONNX's checker accepts, as files newer than the installed onnx may be readable."""


def read_model(path: str | os.PathLike[str]) -> ModelProto:
    """Read a model, with model-local functions inlined and large weights reduced to dims and type.

    External data is never opened.

    Raises:
        WorkloadError: there is no such file, it is no ONNX model, has no nodes, has a format older than IR version 3,
            or exceeds `limits.LIMITS`.
    """
    file = Path(path)
    model = _parse(file, read_bytes(file, ".onnx"))
    if not model.graph.node:
        raise WorkloadError(f"{file} is not a usable ONNX model: its graph has no nodes; export the model again.")
    if not OLDEST_IR <= model.ir_version <= _NEWEST_IR or not model.opset_import:
        raise WorkloadError(
            f"{file} has ONNX IR version {model.ir_version} and {len(model.opset_import)} operator set imports; "
            f"IR version {OLDEST_IR} with an operator set is the oldest that works, so export the model again."
        )
    with errors_named(file):
        screen(model)
        return _inlined(model)


def _parse(file: Path, data: bytes) -> ModelProto:
    try:
        return onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's back ends raise different types
        raise WorkloadError(f"{file} is not an ONNX model, or is cut short ({error}); get the file again.") from error


def _inlined(model: ModelProto) -> ModelProto:
    if not model.functions:
        return model
    check_expansion(model)
    try:
        inlined = inliner.inline_local_functions(model)
    except Exception as error:  # bindings raise different types
        raise WorkloadError(f"Its local functions cannot be inlined ({error}); export it with them inlined.") from error
    screen(inlined)
    return inlined


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


_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def screen(model: ModelProto) -> None:
    """Check a model and remove data that is never read: contents of large tensors, locations of external data.

    Raises:
        WorkloadError: names are no text, there are too many nodes, or an attribute refers to a missing one.
    """
    meter = Meter()
    _screen_graph(model.graph, meter)
    for function in model.functions:
        _check_text((function.domain, function.name, function.overload))
        _screen_nodes(function.node, meter, inside=True)
    for entry in model.opset_import:
        _check_text((entry.domain,))


def _screen_graph(graph: GraphProto, meter: Meter, inside: bool = False) -> None:
    declared = (*graph.input, *graph.output, *graph.value_info)
    _check_text(value.name for value in declared)
    _check_text(dim.dim_param for value in declared for dim in value.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        _check_text((tensor.name,))
        drop_payload(tensor)
    _screen_nodes(graph.node, meter, inside)


def _screen_nodes(nodes: Iterable[NodeProto], meter: Meter, inside: bool) -> None:
    for node in nodes:
        _check_text((node.name, node.op_type, node.domain, *node.input, *node.output))
        meter.add("nodes", 1)
        meter.add("operands and results", len(node.input) + len(node.output))
        for attribute in node.attribute:
            _check_text((attribute.name,))
            if attribute.ref_attr_name and (not inside or attribute.type in _GRAPHS):
                raise WorkloadError(
                    f"The attribute {attribute.name!r} of {describe(node)} refers to another attribute, "
                    f"{attribute.ref_attr_name!r}, that is missing; export the model with its functions inlined."
                )
            for tensor in _tensors(attribute):
                drop_payload(tensor)
        for graph in subgraphs(node):
            _screen_graph(graph, meter, inside)


def _tensors(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
    for tensor in (*sparse, *attribute.sparse_tensors):
        yield from (tensor.values, tensor.indices)


def _check_text(names: Iterable[str]) -> None:
    """Check that names are valid UTF-8; protobuf returns all others as bytes."""
    if not {str}.issuperset(map(type, names)):
        raise WorkloadError("Its names are not all UTF-8 text, so the file is damaged; get it again.")

"""Checks of a parsed file before anything is computed from it, in one walk over all of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.onnx_constants import drop_payload
from memplace_env.program.frontends.onnx.topology import describe, subgraphs
from memplace_env.program.limits import Meter

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

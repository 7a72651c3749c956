"""Inlines the branch of an `If` whose condition is known."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping

from onnx import GraphProto, NodeProto, TensorProto, helper

from memplace_env.errors import WorkloadError
from memplace_env.workload.limits import Meter
from memplace_env.workload.names import stem
from memplace_env.workload.onnx.topology import defined, describe, subgraphs


def inlined_branch(node: NodeProto, taken: bool, meter: Meter) -> tuple[list[TensorProto], list[NodeProto]]:
    """The initialisers and nodes that do what an `If` does when its condition is `taken`.

    Names of the branch get the node's first output as a prefix, as two branches may use the same names. Each level of
    branches within branches copies all that is inside, which the meter counts.

    Raises:
        WorkloadError: the branch is missing, has another number of outputs, or there is too much in it.
    """
    wanted = "then_branch" if taken else "else_branch"
    branch = next((attribute.g for attribute in node.attribute if attribute.name == wanted), None)
    if branch is None or len(branch.output) != len(node.output):
        raise WorkloadError(f"The {wanted} of {describe(node)} is missing or has other outputs; the file is damaged.")
    meter.add("nodes in branches within branches", _size(branch) - len(branch.node))
    prefix = stem(next(filter(None, node.output)))
    names = {name: f"{prefix}/{name}" for name in defined(branch) if name}
    initializers = []
    for tensor in branch.initializer:
        renamed = TensorProto()
        renamed.CopyFrom(tensor)
        renamed.name = names[tensor.name]
        initializers.append(renamed)
    nodes = [_renamed(inner, names) for inner in branch.node]
    for value, output in zip(branch.output, node.output, strict=True):
        if output:
            nodes.append(helper.make_node("Identity", [names.get(value.name, value.name)], [output]))
    return initializers, nodes


def _size(graph: GraphProto) -> int:
    """Nodes of a graph and of those within it."""
    return len(graph.node) + sum(_size(inner) for node in graph.node for inner in subgraphs(node))


def _renamed(node: NodeProto, names: MutableMapping[str, str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    _rename_in_place(copy, names)
    return copy


def _rename_in_place(node: NodeProto, names: MutableMapping[str, str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for graph in subgraphs(node):
        _rename_captured(graph, names)


def _rename_captured(graph: GraphProto, names: MutableMapping[str, str]) -> None:
    hidden = defined(graph) & names.keys()
    outer = ChainMap({name: name for name in hidden}, names) if hidden else names  # a copy of it might be large
    for node in graph.node:
        _rename_in_place(node, outer)
    for value in graph.output:
        value.name = outer.get(value.name, value.name)

"""Inlines the branch of an `If` whose condition is known."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import GraphProto, NodeProto, TensorProto, helper

from memplace_env.errors import WorkloadError
from memplace_env.workload.names import stem
from memplace_env.workload.onnx.topology import defined, describe, subgraphs


def inlined_branch(node: NodeProto, taken: bool) -> tuple[list[TensorProto], list[NodeProto]]:
    """The initialisers and nodes that do what an `If` does when its condition is `taken`.

    Names of the branch get the node's first output as a prefix, as two branches may use the same names.

    Raises:
        WorkloadError: the branch is missing or has another number of outputs.
    """
    wanted = "then_branch" if taken else "else_branch"
    branch = next((attribute.g for attribute in node.attribute if attribute.name == wanted), None)
    if branch is None or len(branch.output) != len(node.output):
        raise WorkloadError(f"The {wanted} of {describe(node)} is missing or has other outputs; the file is damaged.")
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


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    _rename_in_place(copy, names)
    return copy


def _rename_in_place(node: NodeProto, names: Mapping[str, str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for graph in subgraphs(node):
        _rename_captured(graph, names)


def _rename_captured(graph: GraphProto, names: Mapping[str, str]) -> None:
    inner = defined(graph)
    outer = {name: new for name, new in names.items() if name not in inner}
    for node in graph.node:
        _rename_in_place(node, outer)
    for value in graph.output:
        value.name = outer.get(value.name, value.name)

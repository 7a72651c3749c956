"""Inlining of the branch of an `If` whose condition is known."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping

from onnx import GraphProto, NodeProto, TensorProto, helper

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.topology import all_nodes, defined, describe, subgraphs
from memplace_env.program.limits import Meter
from memplace_env.program.names import stem


def inlined_branch(node: NodeProto, taken: bool, meter: Meter) -> tuple[list[TensorProto], list[NodeProto]]:
    """Return the initialisers and nodes that replace an `If` whose condition is `taken`.

    Names of the branch get the node's first output as a prefix, as two branches may use the same names. Each level of
    branches within branches copies everything inside, which the meter counts.

    Raises:
        WorkloadError: the branch is missing, has another number of outputs, or is too large.
    """
    key = "then_branch" if taken else "else_branch"
    branch = next((attribute.g for attribute in node.attribute if attribute.name == key), None)
    if branch is None or len(branch.output) != len(node.output):
        raise WorkloadError(f"The {key} of {describe(node)} is missing or has other outputs; the file is damaged.")
    inner_nodes = sum(1 for _ in all_nodes(branch.node)) - len(branch.node)
    meter.add("nodes in branches within branches", inner_nodes)
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
    # Names that the subgraph defines itself hide those of the branch. A chain, as a copy of `names` might be large.
    hidden = defined(graph) & names.keys()
    outer = ChainMap({name: name for name in hidden}, names) if hidden else names
    for node in graph.node:
        _rename_in_place(node, outer)
    for value in graph.output:
        value.name = outer.get(value.name, value.name)

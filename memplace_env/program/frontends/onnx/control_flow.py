"""Copies of the graphs inside control-flow nodes: the branch of an `If` that is taken, the rounds of a `Loop`."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, MutableMapping, Sequence
from itertools import chain
from typing import Final

from onnx import GraphProto, NodeProto, TensorProto, helper

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.operator_lookup import operator_of
from memplace_env.program.frontends.onnx.topology import all_nodes, captured, defined, describe, schedule, subgraphs
from memplace_env.program.model_file import Meter, stem

BRANCHES: Final = {True: "then_branch", False: "else_branch"}
"""Attributes of an `If` by whether its condition holds."""


def inlined_branch(node: NodeProto, taken: bool, meter: Meter) -> tuple[list[TensorProto], list[NodeProto]]:
    """Return the initialisers and nodes that replace an `If` whose condition is `taken`.

    Names of the branch get the node's first output as a prefix, as two branches may use the same names. Each level of
    branches within branches copies everything inside, which the meter counts.

    Raises:
        WorkloadError: the branch is missing, has another number of outputs, or is too large.
    """
    key = BRANCHES[taken]
    branch = next((attribute.g for attribute in node.attribute if attribute.name == key), None)
    if branch is None or len(branch.output) != len(node.output):
        raise WorkloadError(f"The {key} of {describe(node)} is missing or has other outputs; the file is damaged.")
    meter.add("nodes in branches within branches", _inner_nodes(branch.node))
    names = _prefixed(_prefix(node), defined(branch))
    initializers = [_stored(tensor, names) for tensor in branch.initializer]
    nodes = [_renamed(inner, names) for inner in branch.node]
    for value, output in zip(branch.output, node.output, strict=True):
        if output:
            nodes.append(alias(names.get(value.name, value.name), output))
    return initializers, nodes


class LoopBody:
    """The body of a `Loop`, to be copied once a round. What a round computes from nothing is copied once in all.

    Attributes:
        carried: number of values that a round hands to the next one.
        initializers: constants of the body, under names of their own.
        fixed: nodes without operands, whose results all rounds share.

    Raises:
        WorkloadError: the body is missing, or has another number of inputs or outputs.
    """

    def __init__(self, node: NodeProto, meter: Meter) -> None:
        body = next((attribute.g for attribute in node.attribute if attribute.name == "body"), None)
        self.carried = len(node.input) - 2
        fits = body is not None and (len(body.input), len(body.output)) == (len(node.input), len(node.output) + 1)
        if body is None or not fits or not 0 <= self.carried <= len(node.output):
            raise WorkloadError(f"The body of {describe(node)} is missing or has other inputs; the file is damaged.")
        self._meter = meter
        self._prefix = _prefix(node)
        self._inputs = [value.name for value in body.input]
        self._outputs = [value.name for value in body.output]
        constants = [tensor.name for tensor in body.initializer]
        nodes = schedule(body.node, self._outputs, {*self._inputs, *constants, *captured(body)})
        fixed = [inner for inner in nodes if _is_fixed(inner)]
        self._nodes = [inner for inner in nodes if not _is_fixed(inner)]
        self._inner_nodes = _inner_nodes(self._nodes)
        self._own = [name for inner in self._nodes for name in inner.output if name]
        self._shared = _prefixed(self._prefix, [*constants, *chain.from_iterable(inner.output for inner in fixed)])
        self.initializers = [_stored(tensor, self._shared) for tensor in body.initializer]
        self.fixed = [_renamed(inner, self._shared) for inner in fixed]

    def round(self, number: int, given: Sequence[str]) -> tuple[list[NodeProto], list[str]]:
        """Return the nodes of a round and the names of its results, for the names of what the body is `given`.

        Raises:
            WorkloadError: there are too many rounds.
        """
        self._meter.add("nodes", 1)
        self._meter.add("nodes in branches within branches", self._inner_nodes)
        names = {**self._shared, **dict(zip(self._inputs, given, strict=True))}
        names |= _prefixed(f"{self._prefix}/{number}", self._own)
        return [_renamed(inner, names) for inner in self._nodes], [names.get(name, name) for name in self._outputs]


def alias(source: str, name: str) -> NodeProto:
    """Return the node that gives a value another name."""
    return helper.make_node("Identity", [source], [name])


def stacked(node: NodeProto, sequence: str, name: str) -> NodeProto:
    """Return the node that stacks the values of a sequence along a new first axis, for an output of `node`."""
    return helper.make_node("ConcatFromSequence", [sequence], [name], name=node.name, axis=0, new_axis=1)


def _is_fixed(node: NodeProto) -> bool:
    return not node.input and operator_of(node).value is not None


def _prefix(node: NodeProto) -> str:
    """Return the prefix of the names of all copies, as two graphs may use the same names."""
    return stem(next(filter(None, node.output)))


def _prefixed(prefix: str, names: Collection[str]) -> dict[str, str]:
    return {name: f"{prefix}/{name}" for name in names if name}


def _inner_nodes(nodes: Sequence[NodeProto]) -> int:
    """Return the number of nodes within those nodes."""
    return sum(1 for _ in all_nodes(nodes)) - len(nodes)


def _stored(tensor: TensorProto, names: MutableMapping[str, str]) -> TensorProto:
    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.name = names[tensor.name]
    return copy


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

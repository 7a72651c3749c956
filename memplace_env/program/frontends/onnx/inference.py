"""The forward pass: infers every shape and small constant, and chooses `If` branches. No tensor is materialised."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.foreign import shown
from memplace_env.program.frontends.onnx.control_flow import BRANCHES, LoopBody, alias, inlined_branch, stacked
from memplace_env.program.frontends.onnx.dims import (
    Binding,
    dim_names,
    how_to_pass,
    inner_dims,
    named_dims,
)
from memplace_env.program.frontends.onnx.node_checks import (
    MisfitError,
    NodeChecker,
    NodeShapes,
    check_attributes,
    check_elements,
    check_sizes,
    standard_opset,
)
from memplace_env.program.frontends.onnx.onnx_constants import folded, known_value, stored_value
from memplace_env.program.frontends.onnx.operator_lookup import operator_of, read_node
from memplace_env.program.frontends.onnx.rules.sequences import SequenceSite, Unrolled
from memplace_env.program.frontends.onnx.topology import describe, reads, schedule, subgraphs
from memplace_env.program.lowering.graph_values import INTEGER_BITS, Array, Value, as_bool, checked_value
from memplace_env.program.lowering.lower_graph import work_of
from memplace_env.program.lowering.node_graph import ErrorsOfRules, Node, NodeGraph, Operator
from memplace_env.program.lowering.rules import vector_ops
from memplace_env.program.model_file import LONGEST, Meter, stem


def infer(model: ModelProto, binding: Binding) -> NodeGraph:
    """Return the model's graph with all shapes known, in execution order, for the given graph inputs.

    Raises:
        MisfitError: shapes contradict each other.
        WorkloadError: something else in the graph has no static shape; the message names the node.
    """
    return _ForwardPass(model, binding).run()


class _ForwardPass:
    def __init__(self, model: ModelProto, binding: Binding) -> None:
        self._graph = model.graph
        self._opset = standard_opset(model)
        self._shapes = NodeShapes(self._opset)
        self._checker = NodeChecker(model.ir_version, self._opset)
        self._values = binding.values
        self._meter = Meter()
        self._binding = binding
        self._declared = inner_dims(model.graph)
        self._asked: set[str] = set()
        self._sequences: dict[str, tuple[str, ...]] = {}
        self._known = ChainMap[str, Any](self._values, self._sequences)
        self._nodes: list[Node] = []
        self._unknown: dict[str, str] = {}
        self._trips_needed = False
        self._assumed: dict[str, Mapping[str, NodeGraph]] = {}
        self._notes: dict[str, str] = {}
        if (dim := binding.assumed) is not None:
            self._notes[dim] = f"The leading dim {dim!r} of an input is taken as 1; pass {how_to_pass({dim: '...'})}."
        self._layers: tuple[dict[str, Any], ...] = self._values, self._sequences, self._assumed, self._notes

    def run(self) -> NodeGraph:
        graph = self._graph
        if graph.sparse_initializer:
            name = graph.sparse_initializer[0].values.name
            raise WorkloadError(f"The initialiser {name!r} is sparse, which is not supported; store it densely.")
        self._add_initializers(graph.initializer)
        outputs = tuple(value.name for value in graph.output)
        given = self._values.keys() | {value.name for value in graph.input}
        self._run_nodes(graph.node, outputs, given)
        for name in outputs:
            self._value(name, "a graph output")
        self._binding.check_used(dim_names(self._declared), self._asked)
        if self._binding.trips is not None and not self._trips_needed:
            raise WorkloadError("No loop of the model needs a number of rounds, so trips cannot apply; leave it out.")
        return NodeGraph(
            tuple(self._nodes), self._values, outputs, choices=self._assumed, notes=(*self._notes.values(),)
        )

    def _add_initializers(self, tensors: Iterable[TensorProto]) -> None:
        for tensor in tensors:
            self._enter(tensor.name, stored_value(f"The initialiser {tensor.name!r}", tensor))

    def _enter(self, name: str, value: Value) -> None:
        if name in self._known:
            raise WorkloadError(f"The file contains the value {name!r} twice; it is damaged.")
        self._values[name] = value

    def _run_nodes(self, nodes: Sequence[NodeProto], outputs: Iterable[str], given: Container[str]) -> None:
        for node in schedule(nodes, outputs, given):
            self._run_node(node)

    def _run_node(self, node: NodeProto) -> None:
        with ErrorsOfRules(f"Attributes and operands of {describe(node)}"):
            self._run_kind(node)

    def _run_kind(self, node: NodeProto) -> None:
        self._meter.add("nodes", 1)
        self._meter.add("operands and results", len(node.input) + len(node.output))
        self._checker.check(node)
        operator = operator_of(node)
        if operator.branches:
            self._run_branches(node)
        elif operator.loops:
            self._run_loop(node)
        elif any(subgraphs(node)):
            raise WorkloadError(
                f"Control flow as in {describe(node)} is not supported; export the model with it unrolled."
            )
        elif operator.value is not None:
            inputs = [self._value(name, f"an input of {describe(node)}") for name in node.input]
            self._enter(node.output[0], operator.value(node, inputs))
        elif operator.sequence is not None:
            self._run_sequence(node, operator.sequence)
        else:
            self._run_ordinary(node, operator)

    def _value(self, name: str, user: str) -> Value:
        value = self._values.get(name)
        if value is None:
            raise self._missing(name, user)
        return value

    def _missing(self, name: str, user: str) -> WorkloadError:
        if name in self._sequences:
            return WorkloadError(f"{name!r}, {user}, is a sequence of tensors; only tensors are supported there.")
        reason = self._unknown.get(name, "it has no shape")
        return WorkloadError(f"The size of {name!r}, {user}, cannot be known before the model runs: {reason}.")

    def _inputs(self, node: NodeProto) -> list[Value | None]:
        """Return the operands by position, None where one is absent."""
        values = [self._values.get(name) if name else None for name in node.input]
        for name, value in zip(node.input, values, strict=True):
            if name and value is None:
                raise self._missing(name, f"an input of {describe(node)}")
        return values

    def _run_branches(self, node: NodeProto) -> None:
        """Run the branch that is known to be taken, else keep the one with most work."""
        condition = next(iter(node.input), "")
        taken = as_bool(self._value(condition, f"the condition of {describe(node)}").data)
        decided = self._decide(node, [condition], reads(node))
        if taken is not None:
            self._run_branch(node, taken)
        else:
            tried = {taken: self._tried(node, taken) for taken in (True, False)}
            taken = self._chosen(node, tried)
            kept = tried[taken]
            self._nodes += kept.nodes
            for items, added in zip(self._layers, kept.added, strict=True):
                items |= added
            outputs = tuple(filter(None, node.output))
            if all(branch.misfit is None for branch in tried.values()):
                self._assumed[describe(node)] = {
                    BRANCHES[branch]: NodeGraph(
                        tuple(tried[branch].nodes), ChainMap(tried[branch].added[0], self._values), outputs
                    )
                    for branch in (taken, not taken)
                }
        if decided:
            self._unsettle(node)

    def _decide(self, node: NodeProto, decisive: Iterable[str], captured: Iterable[str]) -> bool:
        """Add the op that reads what decides over a branch or a round, and return whether anything but constants does.

        What the node captures is computed whatever is decided.
        """
        subject = f"the condition of {describe(node)}"
        read = tuple(name for name in decisive if name and not self._value(name, subject).constant)
        if read:
            operator = Operator(node.op_type, vector_ops=vector_ops.nothing)
            name = node.name or f"{node.op_type}_{len(self._nodes)}"
            known = chain.from_iterable(self._sequences.get(other, (other,)) for other in captured)
            self._nodes.append(Node(operator, name, read, (), {}, tuple(known)))
        return bool(read)

    def _unsettle(self, node: NodeProto) -> None:
        """Make results no constants, as the data decide over them; small integers stay, as sizes follow from them."""
        for name in filter(self._values.__contains__, node.output):
            value = self._values[name]
            if value.data is None or len(value.shape) > 1 or value.element_type not in INTEGER_BITS:
                self._values[name] = replace(value, constant=False)

    def _chosen(self, node: NodeProto, tried: Mapping[bool, _Tried]) -> bool:
        """Return the branch whose shapes fit, with a note why the other one is not taken, or that of most work."""
        for taken, branch in tried.items():
            if branch.misfit is None:
                continue
            if tried[not taken].misfit is not None:
                raise branch.misfit
            reason = shown(branch.misfit, LONGEST)
            self._notes[describe(node)] = (
                f"The {BRANCHES[not taken]} of {describe(node)} is taken, as the other one does not hold: {reason}"
            )
            return not taken
        return tried[True].work >= tried[False].work

    def _tried(self, node: NodeProto, taken: bool) -> _Tried:
        """Run a branch, and undo it."""
        nodes, sizes, misfit = len(self._nodes), list(map(len, self._layers)), None
        try:
            self._run_branch(node, taken)
        except MisfitError as error:
            misfit = error
        run = self._nodes[nodes:]
        work = sum(work_of(inner, self._values) for inner in run) if misfit is None else 0
        del self._nodes[nodes:]
        added = [_taken_off(items, size) for items, size in zip(self._layers, sizes, strict=True)]
        return _Tried(work, run, added, misfit)

    def _run_branch(self, node: NodeProto, taken: bool) -> None:
        initializers, nodes = inlined_branch(node, taken, self._meter)
        self._add_initializers(initializers)
        self._run_nodes(nodes, list(filter(None, node.output)), self._known)

    def _run_loop(self, node: NodeProto) -> None:
        """Run the rounds of a loop one after the other, each as nodes of its own."""
        body = LoopBody(node, self._meter)
        self._add_initializers(body.initializers)
        for inner in body.fixed:
            self._run_node(inner)
        prefix = stem(next(filter(None, node.output)))
        limit, goes_on, *state = node.input
        most = self._value(limit, f"an input of {describe(node)}").data if limit else None
        if not goes_on:
            goes_on = f"{prefix}/goes_on"
            self._enter(goes_on, known_value(goes_on, np.array(True)))
        scanned: list[list[str]] = [[] for _ in node.output[body.carried :]]
        rounds = 0
        decided = self._decide(node, [limit, goes_on], reads(node))
        while self._goes_on(node, rounds, limit, most, goes_on):
            index = f"{prefix}/{rounds}/round"
            self._enter(index, known_value(index, np.array(rounds)))
            nodes, (goes_on, *results) = body.round(rounds, [index, goes_on, *state])
            for inner in nodes:
                self._run_node(inner)
            state = results[: body.carried]
            for values, name in zip(scanned, results[body.carried :], strict=True):
                values.append(name)
            rounds += 1
            decided |= self._decide(node, [goes_on], ())
        for name, source in zip(node.output, state, strict=False):
            self._rename(source, name)
        for name, values in zip(node.output[body.carried :], scanned, strict=True):
            if not name:
                continue
            if not values:
                raise WorkloadError(f"{describe(node)} runs no round, so {name!r} has no size; pass --trips 1 or more.")
            sequence = f"{prefix}/{name}/rounds"
            self._sequences[sequence] = tuple(values)
            self._run_node(stacked(node, sequence, name))
        if decided:
            self._unsettle(node)

    def _goes_on(self, node: NodeProto, rounds: int, limit: str, most: Array | None, condition: str) -> bool:
        """Return whether a loop runs one more round; where the data decide it, `trips` does."""
        goes_on = as_bool(self._value(condition, f"the condition of {describe(node)}").data)
        if goes_on is False or (most is not None and rounds >= int(most.reshape(-1)[0])):
            return False
        if goes_on and (most is not None or not limit):
            return True
        self._trips_needed = True
        if self._binding.trips is None:
            raise WorkloadError(
                f"The data determine how often {describe(node)} runs; pass its number of rounds as trips= (--trips)."
            )
        return rounds < self._binding.trips

    def _rename(self, source: str, name: str) -> None:
        """Give a value, or a sequence, another name."""
        if name and source in self._sequences:
            self._sequences[name] = self._sequences[source]
        elif name:
            self._run_node(alias(source, name))

    def _run_sequence(self, node: NodeProto, rule: Callable[[SequenceSite], Unrolled]) -> None:
        def read(name: str) -> Value | tuple[str, ...]:
            elements = self._sequences.get(name)
            return self._value(name, f"an input of {describe(node)}") if elements is None else elements

        inputs = tuple(read(name) if name else None for name in node.input)
        unrolled = rule(SequenceSite(node, inputs, self._opset))
        self._add_initializers(unrolled.constants)
        for inner in unrolled.nodes:
            self._run_node(inner)
        if unrolled.elements is not None:
            self._meter.add("operands and results", len(unrolled.elements))
            self._sequences[node.output[0]] = unrolled.elements

    def _run_ordinary(self, node: NodeProto, operator: Operator) -> None:
        inputs = self._inputs(node)
        check_attributes(node, inputs)
        inferred = self._shapes.inferred(node, inputs)
        read = read_node(node, operator, len(self._nodes), self._opset)
        outputs = self._shapes.values(node, read, inputs, inferred)
        if not operator.random and all(value is None or value.constant for value in inputs):
            outputs = folded(read, inputs, outputs, self._meter)
        for position, (name, type_) in enumerate(zip_longest(node.output, inferred.types)):
            if not name:
                continue
            value = outputs.get(name) or self._sized_by_hand(node, read, inputs, position, type_)
            if value is not None:
                outputs[name] = value
                self._enter(name, value)
        check_elements(node, operator, inputs, outputs)
        self._nodes.append(read)

    def _sized_by_hand(
        self, node: NodeProto, read: Node, inputs: Sequence[Value | None], position: int, type_: TypeProto | None
    ) -> Value | None:
        """An output whose size the data decide, if the file or `dims` give that; else None, and a note of why."""
        name, stays = node.output[position], read.operator.stays
        dims = named_dims(name, type_.tensor_type, self._declared) if type_ is not None and stays else ()
        sizes = {dim: self._binding.size_of(dim) for dim in dims if isinstance(dim, str)}
        missing = {dim: "..." for dim, size in sizes.items() if size is None}
        self._unknown[name] = f"it comes from {describe(node)}, whose output size depends on the data"
        if missing:
            self._unknown[name] += f"; pass {how_to_pass(missing)}"
        if type_ is None or not dims or missing:
            return None
        self._asked |= sizes.keys()
        known = {dim: size for dim, size in sizes.items() if size is not None}
        check_sizes(node, read, inputs, position, dims, known)
        shape = tuple(known[dim] if isinstance(dim, str) else dim for dim in dims)
        return checked_value(f"{name!r}, made by {describe(node)},", shape, type_.tensor_type.elem_type)


@dataclass(frozen=True, slots=True)
class _Tried:
    """A branch that was run: its work, its nodes, what it added to each of the layers, and where shapes do not fit."""

    work: int
    nodes: Sequence[Node]
    added: Sequence[dict[str, Any]]
    misfit: MisfitError | None


def _taken_off(items: dict[str, Any], size: int) -> dict[str, Any]:
    """Remove what was added to a dictionary since it had this size, and return it; dictionaries keep that order."""
    return dict(items.popitem() for _ in range(len(items) - size))

"""The forward pass: infers every shape and small constant, and chooses `If` branches. No tensor is materialised."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, TypeProto, defs, helper, numpy_helper, shape_inference

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.lowered.graph_values import Shape, Value, as_bool, checked_value
from memplace_env.program.frontends.lowered.node_graph import Node, NodeGraph, Operator
from memplace_env.program.frontends.lowered.rule_errors import errors_of_rules, one_line
from memplace_env.program.frontends.onnx.control_flow import inlined_branch
from memplace_env.program.frontends.onnx.dims import (
    Binding,
    how_to_pass,
    inner_dims,
    input_shapes,
    named_dims,
    symbolic_dims,
)
from memplace_env.program.frontends.onnx.node_checks import (
    MisfitError,
    NodeChecker,
    check_attributes,
    check_elements,
    standard_opset,
)
from memplace_env.program.frontends.onnx.onnx_constants import folded, stored_value
from memplace_env.program.frontends.onnx.onnx_operators import operator_of
from memplace_env.program.frontends.onnx.rules.sequences import SequenceSite, Unrolled
from memplace_env.program.frontends.onnx.topology import describe, reads, schedule, subgraphs
from memplace_env.program.limits import Meter


def live_inputs(model: ModelProto) -> set[str]:
    """Return the names of the graph inputs and initialisers that the outputs depend on, dead nodes ignored."""
    graph = model.graph
    given = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    outputs = [value.name for value in graph.output]
    live = schedule(graph.node, outputs, given)
    return given & set(outputs).union(*map(reads, live))


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
        self._imports = [helper.make_opsetid("", self._opset)]
        self._checker = NodeChecker(model.ir_version, self._opset)
        self._values = binding.values
        self._meter = Meter()
        self._sizes = binding.sizes
        self._unasked = binding.sizes.keys() - symbolic_dims(input_shapes(model.graph))
        self._declared = inner_dims(model.graph)
        self._sequences: dict[str, tuple[str, ...]] = {}
        self._known = ChainMap[str, Any](self._values, self._sequences)
        self._nodes: list[Node] = []
        self._unknown: dict[str, str] = {}

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
        for name in sorted(self._unasked):
            raise WorkloadError(f"The model needs no size for the dim {name!r}, as others determine it; leave it out.")
        return NodeGraph(tuple(self._nodes), self._values, outputs)

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
        with errors_of_rules(f"Attributes and operands of {describe(node)}"):
            self._run_kind(node)

    def _run_kind(self, node: NodeProto) -> None:
        self._meter.add("nodes", 1)
        self._meter.add("operands and results", len(node.input) + len(node.output))
        self._checker.check(node)
        operator = operator_of(node.op_type)
        if operator.branches:
            self._run_branch(node)
        elif operator.loops or any(subgraphs(node)):
            _refuse_control_flow(node)
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

    def _run_branch(self, node: NodeProto) -> None:
        condition = next(iter(node.input), "")
        taken = as_bool(self._value(condition, f"the condition of {describe(node)}").data)
        if taken is None:
            raise WorkloadError(
                f"The condition of {describe(node)} depends on the data; only control flow that shapes determine is "
                "supported, so export the model without it."
            )
        initializers, nodes = inlined_branch(node, taken, self._meter)
        self._add_initializers(initializers)
        self._run_nodes(nodes, list(filter(None, node.output)), self._known)

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
        types = self._inferred(node)
        outputs = self._shaped(node, operator, inputs, types)
        read = _node(node, operator, len(self._nodes), self._opset)
        if not operator.random and all(value is None or value.constant for value in inputs):
            outputs = folded(read, inputs, outputs, self._meter)
        for name in filter(None, node.output):
            value = outputs.get(name) or self._sized_by_hand(node, operator, name, types.get(name))
            if value is not None:
                outputs[name] = value
                self._enter(name, value)
        check_elements(node, operator, inputs, outputs)
        self._nodes.append(read)

    def _inferred(self, node: NodeProto) -> dict[str, TypeProto]:
        """Return the types that ONNX infers for the outputs, by name."""
        inputs = {name: self._values[name] for name in node.input if name}
        types = {name: _tensor_type(value.element_type, value.shape) for name, value in inputs.items()}
        data = {name: numpy_helper.from_array(value.data) for name, value in inputs.items() if value.data is not None}
        schema = defs.get_schema(node.op_type, self._opset, "")
        try:
            return dict(shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=self._imports))
        except Exception as error:  # the inference functions' C++ raises more than InferenceError
            raise self._misfit(node, error) from error

    def _shaped(
        self, node: NodeProto, operator: Operator, inputs: Sequence[Value | None], types: Mapping[str, TypeProto]
    ) -> dict[str, Value]:
        """Return the outputs whose shape is known, by name."""
        outputs = {name: _static(f"{name!r}, made by {describe(node)},", type_) for name, type_ in types.items()}
        static = {name: value for name, value in outputs.items() if value is not None}
        if not static and operator.fallback_shape is not None:
            try:
                result = operator.fallback_shape(*(value for value in inputs if value is not None))
            except (TypeError, ValueError) as error:  # TypeError: operands are missing
                raise self._misfit(node, error) from error
            subject = f"{node.output[0]!r}, made by {describe(node)},"
            static[node.output[0]] = checked_value(subject, result.shape, result.element_type)
        return static

    def _misfit(self, node: NodeProto, error: Exception) -> MisfitError:
        message = f"Shapes do not fit together at {describe(node)}: {one_line(error)}"
        return MisfitError(message, [self._values.get(name) for name in node.input])

    def _sized_by_hand(self, node: NodeProto, operator: Operator, name: str, type_: TypeProto | None) -> Value | None:
        """An output whose size the data decide, if the file or `dims` give that; else None, and a note of why."""
        dims = () if type_ is None or not operator.stays else named_dims(name, type_.tensor_type, self._declared)
        self._unknown[name] = f"it comes from {describe(node)}, whose output size depends on the data"
        missing = {dim: "..." for dim in dims if isinstance(dim, str) and dim not in self._sizes}
        if missing:
            self._unknown[name] += f"; pass {how_to_pass(missing)}"
        if type_ is None or not dims or missing:
            return None
        self._unasked -= set(dims)
        shape = tuple(self._sizes[dim] if isinstance(dim, str) else dim for dim in dims)
        return checked_value(f"{name!r}, made by {describe(node)},", shape, type_.tensor_type.elem_type)


@lru_cache(maxsize=4096)
def _tensor_type(element_type: int, shape: Shape) -> TypeProto:
    """Return a type that must not be changed: it is cached, as a model uses few different types."""
    return helper.make_tensor_type_proto(element_type, shape)


@cache
def _default_axis(op_type: str, opset: int) -> Mapping[str, Any]:
    """Return the attribute `axis` as an operator has it where a node does not give it, nothing if there is none."""
    axis = defs.get_schema(op_type, opset, "").attributes.get("axis")
    if axis is None or not axis.default_value.name:
        return {}
    return {"axis": helper.get_attribute_value(axis.default_value)}


def _refuse_control_flow(node: NodeProto) -> None:
    raise WorkloadError(
        f"Control flow as in {describe(node)} is not supported; export the model with the loop unrolled."
    )


def _static(subject: str, type_: TypeProto) -> Value | None:
    """Return a tensor type as a value, None if a dim is unknown."""
    kind = type_.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        raise WorkloadError(f"{subject} is a {str(kind).removesuffix('_type')}; only tensors are supported.")
    tensor = type_.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
    if not tensor.HasField("shape") or min(dims, default=0) < 0:
        return None
    return checked_value(subject, tuple(dims), tensor.elem_type)


def _node(proto: NodeProto, operator: Operator, index: int, opset: int) -> Node:
    """Return a node of the file, named after its type and `index` if it has no name.

    It always has its `axis`, as versions of an operator differ in what that is without the attribute.
    """
    given = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
    name = proto.name or f"{proto.op_type}_{index}"
    return Node(
        operator, name, tuple(proto.input), tuple(proto.output), {**_default_axis(proto.op_type, opset), **given}
    )

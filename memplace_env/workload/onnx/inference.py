"""The forward pass: every shape, every small constant, `If` branches chosen. No tensor is ever materialised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnx import ModelProto, NodeProto, TensorProto, TypeProto, defs, helper, numpy_helper, shape_inference

from memplace_env.errors import WorkloadError
from memplace_env.workload.onnx.constants import folded, stored_value
from memplace_env.workload.onnx.control_flow import inlined_branch
from memplace_env.workload.onnx.graph import Graph, Node
from memplace_env.workload.onnx.node_checks import (
    NodeChecker,
    check_attributes,
    check_elements,
    one_line,
    standard_opset,
)
from memplace_env.workload.onnx.operator import Operator
from memplace_env.workload.onnx.operator_table import operator_of
from memplace_env.workload.onnx.topology import describe, reads, schedule, subgraphs
from memplace_env.workload.onnx.values import Value, as_bool, checked_value


def live_inputs(model: ModelProto) -> set[str]:
    """Names of the graph inputs and initialisers that the outputs depend on, dead nodes ignored."""
    graph = model.graph
    given = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    outputs = [value.name for value in graph.output]
    live = schedule(graph.node, outputs, given)
    return given & set(outputs).union(*map(reads, live))


def infer(model: ModelProto, inputs: Mapping[str, Value]) -> Graph:
    """The model's graph with all shapes known, in execution order, for the given graph inputs.

    Raises:
        WorkloadError: anything in the graph that cannot be given a static shape; names the node.
    """
    return _ForwardPass(model, inputs).run()


class _ForwardPass:
    def __init__(self, model: ModelProto, inputs: Mapping[str, Value]) -> None:
        self._graph = model.graph
        self._imports = model.opset_import
        self._opset = standard_opset(model)
        self._checker = NodeChecker(model.ir_version, self._opset)
        self._values = dict(inputs)
        self._nodes: list[Node] = []
        self._unknown: dict[str, str] = {}

    def run(self) -> Graph:
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
        return Graph(tuple(self._nodes), self._values, outputs)

    def _add_initializers(self, tensors: Iterable[TensorProto]) -> None:
        for tensor in tensors:
            self._values[tensor.name] = stored_value(f"The initialiser {tensor.name!r}", tensor)

    def _run_nodes(self, nodes: Sequence[NodeProto], outputs: Iterable[str], given: set[str]) -> None:
        for node in schedule(nodes, outputs, given):
            self._checker.check(node)
            operator = operator_of(node.op_type)
            if operator.value is not None:
                inputs = [self._input(node, name) for name in node.input]
                self._values[node.output[0]] = operator.value(node, inputs)
            elif operator.branches:
                self._run_branch(node)
            elif operator.loops:
                _refuse_control_flow(node)
            else:
                self._run_ordinary(node, operator)

    def _value(self, name: str, user: str) -> Value:
        value = self._values.get(name)
        if value is None:
            reason = self._unknown.get(name, "it has no shape")
            raise WorkloadError(f"The size of {name!r}, {user}, cannot be known before the model runs: {reason}.")
        return value

    def _input(self, node: NodeProto, name: str) -> Value:
        return self._value(name, f"an input of {describe(node)}")

    def _run_branch(self, node: NodeProto) -> None:
        condition = next(iter(node.input), "")
        taken = as_bool(self._value(condition, f"the condition of {describe(node)}").data)
        if taken is None:
            raise WorkloadError(
                f"The condition of {describe(node)} depends on the data; only control flow that shapes decide is "
                "supported, so export the model without it."
            )
        initializers, nodes = inlined_branch(node, taken)
        self._add_initializers(initializers)
        self._run_nodes(nodes, list(filter(None, node.output)), set(self._values))

    def _run_ordinary(self, node: NodeProto, operator: Operator) -> None:
        inputs = [self._input(node, name) if name else None for name in node.input]
        if any(subgraphs(node)):
            _refuse_control_flow(node)
        check_attributes(node, inputs)
        outputs = self._inferred(node, operator)
        check_elements(node, operator, inputs, outputs)
        if not operator.random and all(value is None or value.constant for value in inputs):
            outputs = folded(node, operator, inputs, outputs, self._opset)
        for name in filter(None, node.output):
            if name in outputs:
                self._values[name] = outputs[name]
            else:
                self._unknown[name] = f"it comes from {describe(node)}, whose output size depends on the data"
        self._nodes.append(Node.from_proto(node, operator, len(self._nodes)))

    def _inferred(self, node: NodeProto, operator: Operator) -> dict[str, Value]:
        """The outputs whose shape is static, by name."""
        known = {name: self._values[name] for name in node.input if name}
        types = {name: helper.make_tensor_type_proto(value.element_type, value.shape) for name, value in known.items()}
        data = {name: numpy_helper.from_array(value.data) for name, value in known.items() if value.data is not None}
        schema = defs.get_schema(node.op_type, self._opset, "")
        try:
            made = shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=self._imports)
        except Exception as error:  # the inference functions' C++ raises more than InferenceError
            raise _misfit(node, error) from error
        outputs = {name: _static(f"{name!r}, made by {describe(node)},", type_) for name, type_ in made.items()}
        static = {name: value for name, value in outputs.items() if value is not None}
        if not static and operator.fallback_shape is not None:
            try:
                static[node.output[0]] = operator.fallback_shape(*(self._values[name] for name in node.input))
            except ValueError as error:
                raise _misfit(node, error) from error
        return static


def _misfit(node: NodeProto, error: Exception) -> WorkloadError:
    return WorkloadError(f"Shapes do not fit together at {describe(node)}: {one_line(error)}")


def _refuse_control_flow(node: NodeProto) -> None:
    raise WorkloadError(
        f"Control flow as in {describe(node)} is not supported; export the model with the loop unrolled."
    )


def _static(what: str, type_: TypeProto) -> Value | None:
    """A tensor type as a value, None if a dim is unknown."""
    kind = type_.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        raise WorkloadError(f"{what} is a {str(kind).removesuffix('_type')}; only tensors are supported.")
    tensor = type_.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
    if not tensor.HasField("shape") or min(dims, default=0) < 0:
        return None
    return checked_value(what, tuple(dims), tensor.elem_type)

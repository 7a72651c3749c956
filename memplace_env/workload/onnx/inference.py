"""The forward pass: every shape, every small constant, `If` branches chosen. No tensor is ever materialised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, checker, defs, helper, numpy_helper
from onnx import shape_inference as onnx_shapes

from memplace_env.errors import WorkloadError
from memplace_env.workload.onnx.constants import evaluate
from memplace_env.workload.onnx.control_flow import inlined_branch
from memplace_env.workload.onnx.graph import MAX_KNOWN_ELEMENTS, Array, Graph, Node, Value, as_bool, checked_value
from memplace_env.workload.onnx.reader import drop_payload
from memplace_env.workload.onnx.topology import describe, reads, schedule, subgraphs

RANDOM: Final = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
)
"""Operators whose result is no constant even if their inputs are."""

SIZED_BY_DATA: Final = frozenset(("NonZero", "Unique", "Compress", "StringSplit"))
"""Operators whose output sizes are only known once they are computed; bounded by their inputs."""

STANDARD_DOMAINS: Final = ("", "ai.onnx")

LITERALS: Final[Mapping[str, type[np.generic]]] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}
"""Attributes of `Constant` other than a whole tensor, and the type of what they make."""


def _like_first(first: Value, *others: Value) -> Value:
    return Value(first.shape, first.element_type)


def _comparison(a: Value, b: Value) -> Value:
    return Value(np.broadcast_shapes(a.shape, b.shape), TensorProto.BOOL)


UNINFERRED: Final[Mapping[str, Callable[..., Value]]] = {
    "GreaterOrEqual": _comparison,
    "GroupNormalization": _like_first,
    "LessOrEqual": _comparison,
    "MeanVarianceNormalization": _like_first,
}
"""Operators of which some versions are defined by a function only, so that ONNX infers nothing for one node."""


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
        self._opset = _opset(model)
        self._values = dict(inputs)
        self._nodes: list[Node] = []
        self._unknown: dict[str, str] = {}
        self._context = checker.C.CheckerContext()
        self._context.ir_version = model.ir_version
        self._context.opset_imports = {"": self._opset}
        self._special: Mapping[str, Callable[[NodeProto], None]] = {
            "Constant": self._constant,
            "Shape": self._shape,
            "Size": self._size,
            "If": self._if,
            "Loop": self._unsupported_control_flow,
            "Scan": self._unsupported_control_flow,
        }

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
        return Graph(tuple(self._nodes), self._values, outputs, self._opset)

    def _add_initializers(self, tensors: Iterable[TensorProto]) -> None:
        for tensor in tensors:
            self._values[tensor.name] = _stored(f"The initialiser {tensor.name!r}", tensor)

    def _run_nodes(self, nodes: Sequence[NodeProto], outputs: Iterable[str], given: set[str]) -> None:
        for node in schedule(nodes, outputs, given):
            self._check(node)
            self._special.get(node.op_type, self._ordinary)(node)

    def _check(self, node: NodeProto) -> None:
        if node.domain not in STANDARD_DOMAINS:
            raise WorkloadError(
                f"The operator {node.op_type!r} of domain {node.domain!r} in {describe(node)} is unknown; "
                "export the model with standard ONNX operators only."
            )
        if not defs.has(node.op_type):
            raise WorkloadError(
                f"The operator {node.op_type!r} of domain 'ai.onnx' in {describe(node)} is not in ONNX; "
                "export the model with standard ONNX operators only."
            )
        node.ClearField("domain")
        if any(subgraphs(node)):
            return  # the checker, given a node alone, takes what its subgraphs capture for undefined
        try:
            checker.check_node(node, self._context)
        except Exception as error:  # the checker's C++ raises more than ValidationError on damaged files
            raise WorkloadError(f"ONNX rejects {describe(node)}: {_one_line(error)}") from error

    def _value(self, name: str, user: str) -> Value:
        value = self._values.get(name)
        if value is None:
            reason = self._unknown.get(name, "it has no shape")
            raise WorkloadError(f"The size of {name!r}, {user}, cannot be known before the model runs: {reason}.")
        return value

    def _constant(self, node: NodeProto) -> None:
        what = f"The constant {node.output[0]!r}"
        if len(node.attribute) != 1:
            raise WorkloadError(f"{what} has {len(node.attribute)} contents instead of one; the file is damaged.")
        attribute = node.attribute[0]
        if attribute.name == "value":
            drop_payload(attribute.t)
            value = _stored(what, attribute.t)
        elif attribute.name in LITERALS:
            content = helper.get_attribute_value(attribute)
            value = _known(what, np.asarray(content, dtype=LITERALS[attribute.name]))
        else:
            raise WorkloadError(f"{what} is given as {attribute.name!r}; only dense tensors of numbers are supported.")
        self._values[node.output[0]] = value

    def _shape(self, node: NodeProto) -> None:
        attributes = {a.name: a.i for a in node.attribute}
        shape = self._value(node.input[0], f"an input of {describe(node)}").shape
        part = shape[attributes.get("start", 0) : attributes.get("end", len(shape))]
        self._values[node.output[0]] = _known("A shape", np.array(part, dtype=np.int64))

    def _size(self, node: NodeProto) -> None:
        elements = self._value(node.input[0], f"an input of {describe(node)}").elements
        self._values[node.output[0]] = _known("A size", np.array(elements, dtype=np.int64))

    def _if(self, node: NodeProto) -> None:
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

    def _unsupported_control_flow(self, node: NodeProto) -> None:
        raise WorkloadError(
            f"Control flow as in {describe(node)} is not supported; export the model with the loop unrolled."
        )

    def _ordinary(self, node: NodeProto) -> None:
        inputs = [self._value(name, f"an input of {describe(node)}") if name else None for name in node.input]
        if any(subgraphs(node)):
            self._unsupported_control_flow(node)
        _check_attributes(node, inputs)
        outputs, problem = self._inferred(node)
        _check_reshape(node, inputs, outputs)
        constant = node.op_type not in RANDOM and all(value is None or value.constant for value in inputs)
        if constant:
            outputs = self._folded(node, inputs, outputs)
        for name in filter(None, node.output):
            if name in outputs:
                self._values[name] = outputs[name]
            else:
                self._unknown[name] = f"it comes from {describe(node)}, {problem}"
        self._nodes.append(Node.from_proto(node, len(self._nodes)))

    def _inferred(self, node: NodeProto) -> tuple[dict[str, Value], str]:
        """Outputs whose shape is static, and why the others are not."""
        known = {name: self._values[name] for name in node.input if name}
        data = {name: numpy_helper.from_array(v.data) for name, v in known.items() if v.data is not None}
        schema = defs.get_schema(node.op_type, self._opset, "")
        try:
            types = onnx_shapes.infer_node_outputs(
                schema,
                node,
                {name: _type_of(value) for name, value in known.items()},
                data,
                opset_imports=self._imports,
            )
        except Exception as error:  # the inference functions' C++ raises more than InferenceError
            raise WorkloadError(f"Shapes do not fit together at {describe(node)}: {_one_line(error)}") from error
        outputs = {name: _static(f"{name!r}, made by {describe(node)},", type_) for name, type_ in types.items()}
        static = {name: value for name, value in outputs.items() if value is not None}
        if not static and node.op_type in UNINFERRED:
            static[node.output[0]] = UNINFERRED[node.op_type](*(self._values[name] for name in node.input))
        return static, "whose output size depends on the data"

    def _folded(
        self, node: NodeProto, inputs: Sequence[Value | None], outputs: Mapping[str, Value]
    ) -> dict[str, Value]:
        """The outputs of a node of constants: constant too, with contents if they are small and can be computed."""
        folded = {name: Value(value.shape, value.element_type, constant=True) for name, value in outputs.items()}
        small = len(outputs) == len(list(filter(None, node.output))) and all(
            value.elements <= MAX_KNOWN_ELEMENTS for value in outputs.values()
        )
        if not (small or node.op_type in SIZED_BY_DATA):
            return folded
        if any(value is not None and value.data is None for value in inputs):
            return folded
        results = evaluate(node, [None if value is None else value.data for value in inputs], self._opset)
        for name, data in zip(filter(None, node.output), results or (), strict=False):
            expected = folded.get(name)
            if expected is None and data.size <= MAX_KNOWN_ELEMENTS:
                folded[name] = _known(f"The constant {name!r}", data)
            elif expected is not None and data.shape == expected.shape:
                folded[name] = Value(expected.shape, expected.element_type, constant=True, data=data)
        return folded


def _opset(model: ModelProto) -> int:
    versions = [entry.version for entry in model.opset_import if entry.domain in STANDARD_DOMAINS]
    if not versions or versions[0] < 1:
        raise WorkloadError("The model imports no version of the standard ONNX operators; export it again.")
    if versions[0] > defs.onnx_opset_version():
        raise WorkloadError(
            f"The model uses opset {versions[0]}, but the installed onnx knows up to {defs.onnx_opset_version()}; "
            "update onnx or export with an older opset."
        )
    return int(versions[0])


def _stored(what: str, tensor: TensorProto) -> Value:
    value = checked_value(what, tuple(tensor.dims), tensor.data_type, constant=True)
    if tensor.data_location == TensorProto.EXTERNAL or value.elements > MAX_KNOWN_ELEMENTS:
        return value
    try:
        data = numpy_helper.to_array(tensor)
    except Exception:  # a weight without its bytes is fine: what needs the contents says so
        return value
    return Value(value.shape, value.element_type, constant=True, data=data)


def _known(what: str, data: Array) -> Value:
    element_type = int(helper.np_dtype_to_tensor_dtype(data.dtype))
    return checked_value(what, data.shape, element_type, constant=True, data=data)


def _type_of(value: Value) -> TypeProto:
    return helper.make_tensor_type_proto(value.element_type, value.shape)


def _check_attributes(node: NodeProto, inputs: Sequence[Value | None]) -> None:
    """Checks that ONNX's shape inference leaves out and then crashes on, taking the process with it."""
    rank = max((len(value.shape) for value in inputs if value is not None), default=0)
    allowed = {
        "axis": range(-rank - 1, rank + 1),
        "batch_dims": range(rank + 1),
        "num_outputs": range(len(node.output), len(node.output) + 1),
    }
    for attribute in node.attribute:
        if attribute.name in allowed and attribute.i not in allowed[attribute.name]:
            raise WorkloadError(f"{attribute.name}={attribute.i} of {describe(node)} is out of range; fix the model.")


def _check_reshape(node: NodeProto, inputs: Sequence[Value | None], outputs: Mapping[str, Value]) -> None:
    """ONNX's inference takes a target shape without a -1 at its word."""
    if node.op_type == "Reshape" and inputs[0] is not None and node.output[0] in outputs:
        before, after = inputs[0], outputs[node.output[0]]
        if before.elements != after.elements:
            raise WorkloadError(f"{describe(node)} cannot turn shape {list(before.shape)} into {list(after.shape)}.")


def _static(what: str, type_: TypeProto) -> Value | None:
    kind = type_.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        raise WorkloadError(f"{what} is a {str(kind).removesuffix('_type')}; only tensors are supported.")
    tensor = type_.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
    if not tensor.HasField("shape") or min(dims, default=0) < 0:
        return None
    return checked_value(what, tuple(dims), tensor.elem_type)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if text.endswith(".") else text + "."

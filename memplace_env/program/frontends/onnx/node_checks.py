"""Checks and inferred shapes of single nodes: ONNX's own, those that it leaves out, and rules of operators."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from onnx import AttributeProto, ModelProto, NodeProto, TypeProto, checker, defs, helper, numpy_helper, shape_inference

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.onnx_constants import PAYLOADS
from memplace_env.program.frontends.onnx.operator_lookup import RUNTIME, STANDARD, domain_of
from memplace_env.program.frontends.onnx.runtime_operators import RUNTIME_ATTRIBUTES
from memplace_env.program.frontends.onnx.topology import describe, subgraphs
from memplace_env.program.lowering.graph_values import REMEMBERED, Shape, Value, checked_value
from memplace_env.program.lowering.node_graph import Node, Operator, Site, one_line

_LAYOUTS: Final = "com.microsoft.nchwc"
"""Domain of the operators that ONNX Runtime writes for the layout of one processor's vector unit."""


def standard_opset(model: ModelProto) -> int:
    """Return the version of the standard operator set that a model uses.

    Raises:
        WorkloadError: it uses none, or a newer one than the installed onnx supports.
    """
    versions = [entry.version for entry in model.opset_import if entry.domain in (STANDARD, "ai.onnx")]
    if not versions or versions[0] < 1:
        raise WorkloadError("The model imports no version of the standard ONNX operators; export it again.")
    if versions[0] > defs.onnx_opset_version():
        raise WorkloadError(
            f"The model uses opset {versions[0]}, but the installed onnx supports up to {defs.onnx_opset_version()}; "
            "update onnx or export with an older opset."
        )
    return int(versions[0])


class MisfitError(WorkloadError):
    """Shapes that contradict each other.

    Attributes:
        pairs: sizes at the same axis of the node's first operand and of the shape that it must agree with. That is the
            target shape that the second operand stores, leading dims first, as a reshape keeps those; or else the shape
            of that operand, trailing dims that are not 1, as broadcasting pairs those.
    """

    def __init__(self, message: str, inputs: Sequence[Value | None]) -> None:
        super().__init__(message)
        self.pairs: tuple[tuple[int, int], ...] = ()
        first, second, *_ = *inputs, None, None
        if first is None or second is None:
            return
        if second.data is not None and second.data.ndim == 1 and second.data.dtype.kind == "i":
            target = [int(size) for size in second.data]
            leading = len(target) >= len(first.shape)
            self.pairs = tuple(zip(first.shape, target, strict=False) if leading else _trailing(first.shape, target))
        else:
            self.pairs = tuple(pair for pair in _trailing(first.shape, second.shape) if 1 not in pair)


class NodeChecker:
    """ONNX's own checker, for the nodes of one model."""

    def __init__(self, ir_version: int, opset: int) -> None:
        self._context = checker.C.CheckerContext()
        self._context.ir_version = ir_version
        self._context.opset_imports = {STANDARD: opset}
        self._opset = opset

    def check(self, node: NodeProto) -> None:
        """Check a node, and set its domain to `STANDARD` or `RUNTIME`.

        Raises:
            WorkloadError: the operator is in neither domain, ONNX rejects the node, or an attribute of one of the
                runtime's operators has another type than rules read.
        """
        domain = domain_of(node, self._opset)
        if domain is None:
            raise _unknown(node)
        node.domain = domain
        if domain == RUNTIME:
            _check_types(node)
        if domain == RUNTIME or any(subgraphs(node)) or _is_emptied_constant(node):
            # ONNX has no schema of the runtime's operators. For a node alone the checker reports values that its
            # subgraphs capture as undefined, and constants whose contents were dropped as invalid.
            return
        try:
            checker.check_node(node, self._context)
        except Exception as error:  # the checker's C++ raises more than ValidationError on damaged files
            raise WorkloadError(f"ONNX rejects {describe(node)}: {one_line(error)}") from error


def _check_types(node: NodeProto) -> None:
    for attribute in node.attribute:
        kind = RUNTIME_ATTRIBUTES.get(attribute.name, attribute.type)
        if attribute.type != kind:
            given, needed = map(AttributeProto.AttributeType.Name, (attribute.type, kind))
            raise WorkloadError(
                f"The attribute {attribute.name!r} of {describe(node)} is of type {given}, not {needed}; export the "
                "model again."
            )


def _unknown(node: NodeProto) -> WorkloadError:
    operator = f"The operator {node.op_type!r} of domain {node.domain or 'ai.onnx'!r} in {describe(node)}"
    if node.domain == _LAYOUTS:
        return WorkloadError(
            f"{operator} is for the layout of one processor; save the optimised model with ORT_ENABLE_EXTENDED, or "
            "pass the model that it came from."
        )
    if node.domain in (STANDARD, "ai.onnx"):
        return WorkloadError(f"{operator} is not in ONNX; export the model with standard ONNX operators only.")
    return WorkloadError(f"{operator} is unknown; export the model with standard ONNX operators only.")


def _is_emptied_constant(node: NodeProto) -> bool:
    if node.input or len(node.attribute) != 1:
        return False
    only = node.attribute[0]
    contents = {field.name for field, _ in only.t.ListFields()}.intersection(PAYLOADS)
    return only.name == "value" and only.type == AttributeProto.TENSOR and not contents


def check_attributes(node: NodeProto, inputs: Sequence[Value | None]) -> None:
    """Check the ranges of attributes with which ONNX's shape inference crashes the process.

    Raises:
        WorkloadError: an attribute is out of range.
    """
    if not node.attribute:
        return
    rank = max((len(value.shape) for value in inputs if value is not None), default=0)
    allowed = {
        "axis": range(-rank - 1, rank + 1),
        "batch_dims": range(rank + 1),
        "num_outputs": range(len(node.output), len(node.output) + 1),
    }
    for attribute in node.attribute:
        if attribute.name in allowed and attribute.i not in allowed[attribute.name]:
            raise WorkloadError(f"{attribute.name}={attribute.i} of {describe(node)} is out of range; fix the model.")


def check_elements(
    node: NodeProto, operator: Operator, inputs: Sequence[Value | None], outputs: Mapping[str, Value]
) -> None:
    """Check the number of elements of reshapes, as ONNX's inference does not check a target shape without -1.

    Raises:
        MisfitError: an operator with `keeps_elements` would change their number.
    """
    if operator.keeps_elements and inputs[0] is not None and node.output[0] in outputs:
        before, after = inputs[0], outputs[node.output[0]]
        if before.elements != after.elements:
            message = f"{describe(node)} cannot turn shape {list(before.shape)} into {list(after.shape)}."
            raise MisfitError(message, inputs)


def check_sizes(
    node: NodeProto,
    read: Node,
    inputs: Sequence[Value | None],
    position: int,
    dims: Sequence[int | str],
    sizes: Mapping[str, int],
) -> None:
    """Check the sizes that were passed for the named ones of an output's dims.

    Raises:
        WorkloadError: the operator cannot make an output as large as that.
    """
    rule = read.operator.largest
    largest = rule(Site(read, tuple(inputs), (), None, False))[position] if rule is not None else ()
    for dim, most in zip(dims, largest, strict=False):
        if isinstance(dim, str) and sizes[dim] > most:
            raise WorkloadError(
                f"The size passed for {dim!r} is {sizes[dim]}, but {describe(node)} makes at most {most} from its "
                "operands; pass no more than that."
            )


def _trailing(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of sizes at the same axis, counted from the last."""
    return list(zip(reversed(a), reversed(b), strict=False))[::-1]


class Inferred(NamedTuple):
    """Types and values that ONNX infers for the outputs of a node, by position; empty for an operator not of ONNX.

    Attributes:
        types: None where it infers none, or the output is absent.
        values: the outputs whose shape is known; None for others.
    """

    types: tuple[TypeProto | None, ...]
    values: tuple[Value | None, ...]


class NodeShapes:
    """Inference for the nodes of one model.

    Args:
        opset: version of the standard operator set.
    """

    def __init__(self, opset: int) -> None:
        self._opset = opset
        self._imports = [helper.make_opsetid(STANDARD, opset)]
        self._known: dict[Hashable, Inferred] = {}

    def inferred(self, node: NodeProto, inputs: Sequence[Value | None]) -> Inferred:
        """Return what ONNX infers for the outputs; nothing for an operator that is not of ONNX.

        Answers for operands without contents are remembered, as layers are alike.

        Raises:
            MisfitError: the operands do not fit together.
            WorkloadError: no accelerator could hold an output, or it is no tensor.
        """
        if node.domain != STANDARD:
            return Inferred((), ())
        if any(value is not None and value.data is not None for value in inputs):
            return self._inferred(node, inputs)
        attributes = tuple(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
        operands = tuple(value and (value.element_type, value.shape) for value in inputs)
        kind = (node.op_type, attributes, operands, tuple(map(bool, node.output)))
        if kind not in self._known:
            self._known[kind] = self._inferred(node, inputs)
        return self._known[kind]

    def _inferred(self, node: NodeProto, inputs: Sequence[Value | None]) -> Inferred:
        types = self._types(node, inputs)
        by_position = [types.get(name) if name else None for name in node.output]
        values = [
            None if type_ is None else _static(_subject(node, name), type_)
            for name, type_ in zip(node.output, by_position, strict=True)
        ]
        return Inferred(tuple(by_position), tuple(values))

    def _types(self, node: NodeProto, inputs: Sequence[Value | None]) -> dict[str, TypeProto]:
        """Return the types that ONNX infers for the outputs, by name."""
        given = {name: value for name, value in zip(node.input, inputs, strict=True) if value is not None}
        types = {name: tensor_type(value.element_type, value.shape) for name, value in given.items()}
        data = {name: numpy_helper.from_array(value.data) for name, value in given.items() if value.data is not None}
        schema = defs.get_schema(node.op_type, self._opset, STANDARD)
        try:
            return dict(shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=self._imports))
        except Exception as error:  # the inference functions' C++ raises more than InferenceError
            raise _misfit(node, inputs, error) from error

    def values(
        self, node: NodeProto, read: Node, inputs: Sequence[Value | None], inferred: Inferred
    ) -> dict[str, Value]:
        """Return the outputs whose shape is known, by name; `read` is the node with its attributes read.

        Raises:
            MisfitError: the operands do not fit together.
            WorkloadError: no accelerator could hold an output.
        """
        site, operator = Site(read, tuple(inputs), (), None, False), read.operator
        shaped = {name: value for name, value in zip(node.output, inferred.values, strict=False) if value is not None}
        if not shaped and operator.shapes is not None:
            try:
                ruled = operator.shapes(site)
            except Exception as error:  # as above, and whatever a rule raises where operands or attributes are missing
                raise _misfit(node, inputs, error) from error
            shaped = {
                name: checked_value(_subject(node, name), value.shape, value.element_type)
                for name, value in zip(node.output, ruled, strict=False)
                if name and value is not None
            }
        if operator.pooled is None:
            return shaped
        return {name: replace(value, shape=operator.pooled(site, value.shape)) for name, value in shaped.items()}


@lru_cache(REMEMBERED)
def tensor_type(element_type: int, shape: Shape) -> TypeProto:
    """Return a type that must not be changed: it is cached, as a model uses few different types."""
    return helper.make_tensor_type_proto(element_type, shape)


def _misfit(node: NodeProto, inputs: Sequence[Value | None], error: Exception) -> MisfitError:
    return MisfitError(f"Shapes do not fit together at {describe(node)}: {one_line(error)}", inputs)


def _subject(node: NodeProto, name: str) -> str:
    return f"{name!r}, made by {describe(node)},"


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

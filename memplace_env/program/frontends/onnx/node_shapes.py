"""Shapes and types of the results of single nodes: ONNX's inference, or the rule of the operator's row."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from onnx import NodeProto, TypeProto, defs, helper, numpy_helper, shape_inference

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.node_checks import MisfitError
from memplace_env.program.frontends.onnx.operator_lookup import STANDARD
from memplace_env.program.frontends.onnx.topology import describe
from memplace_env.program.lowering.graph_values import REMEMBERED, Shape, Value, checked_value
from memplace_env.program.lowering.node_graph import Node, Site, one_line


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

"""Nodes read with the row of their operator, in the table of ONNX or in that of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from onnx import NodeProto, defs, helper

from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.frontends.onnx.runtime_operators import RUNTIME_OPERATORS
from memplace_env.program.lowering.node_graph import Node, Operator

STANDARD: Final = ""
"""Domain of ONNX's operators, as nodes carry it once they are checked."""

RUNTIME: Final = "com.microsoft"
"""Domain of the operators that ONNX Runtime writes into files that it optimised."""

_STANDARD_DOMAINS: Final = (STANDARD, "ai.onnx")


def domain_of(node: NodeProto, opset: int) -> str | None:
    """Return the domain whose table has the node's operator, None if there is none.

    ONNX Runtime also writes operators into the standard domain that are not in it, or only in newer versions of it.
    """
    if node.domain in _STANDARD_DOMAINS:
        if node.op_type in RUNTIME_OPERATORS and not defs.has(node.op_type, opset, STANDARD):
            return RUNTIME
        return STANDARD if defs.has(node.op_type) else None
    return RUNTIME if node.domain == RUNTIME and node.op_type in RUNTIME_OPERATORS else None


def operator_of(node: NodeProto) -> Operator:
    """Return the row of a checked node's operator, or a row with nothing but the name if there is none."""
    table = RUNTIME_OPERATORS if node.domain == RUNTIME else OPERATORS
    return table.get(node.op_type) or Operator(node.op_type)


def read_node(proto: NodeProto, operator: Operator, index: int, opset: int) -> Node:
    """Return a node with its attributes read, named after its type and `index` if it has no name.

    It always has its `axis`, as versions of an operator differ in what that is without the attribute.
    """
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in proto.attribute}
    default = _default_axis(proto.op_type, opset) if proto.domain == STANDARD else {}
    name = proto.name or f"{proto.op_type}_{index}"
    return Node(operator, name, tuple(proto.input), tuple(proto.output), {**default, **given})


@cache
def _default_axis(op_type: str, opset: int) -> Mapping[str, Any]:
    """Return the attribute `axis` as an operator has it where a node does not give it, nothing if there is none."""
    axis = defs.get_schema(op_type, opset, STANDARD).attributes.get("axis")
    if axis is None or not axis.default_value.name:
        return {}
    return {"axis": helper.get_attribute_value(axis.default_value)}

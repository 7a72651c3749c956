"""Checks of single nodes: what ONNX's checker finds, and what it and ONNX's shape inference leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from onnx import AttributeProto, ModelProto, NodeProto, checker, defs

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.operator import Operator
from memplace_env.workload.lowered.values import Value
from memplace_env.workload.onnx.constants import PAYLOADS
from memplace_env.workload.onnx.topology import describe, subgraphs

_STANDARD_DOMAINS: Final = ("", "ai.onnx")


def standard_opset(model: ModelProto) -> int:
    """Version of the standard operator set that a model uses.

    Raises:
        WorkloadError: it uses none, or a newer one than the installed onnx knows.
    """
    versions = [entry.version for entry in model.opset_import if entry.domain in _STANDARD_DOMAINS]
    if not versions or versions[0] < 1:
        raise WorkloadError("The model imports no version of the standard ONNX operators; export it again.")
    if versions[0] > defs.onnx_opset_version():
        raise WorkloadError(
            f"The model uses opset {versions[0]}, but the installed onnx knows up to {defs.onnx_opset_version()}; "
            "update onnx or export with an older opset."
        )
    return int(versions[0])


class MisfitError(WorkloadError):
    """Shapes that contradict each other.

    Attributes:
        pairs: sizes at the same axis of the node's first operand and of what it must agree with. That is the target
            shape that the second operand stores, as a reshape keeps leading dims, or else the shape of that operand,
            as broadcasting pairs trailing dims that are not 1.
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
        self._context.opset_imports = {"": opset}

    def check(self, node: NodeProto) -> None:
        """Checks a node, and spells its domain as "".

        Raises:
            WorkloadError: an operator that is not in the standard domain, or that ONNX rejects.
        """
        if node.domain not in _STANDARD_DOMAINS:
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
        if any(subgraphs(node)) or _is_emptied_constant(node):
            # The checker, given a node alone, takes what its subgraphs capture for undefined, and it wants the contents
            # of large constants that were dropped.
            return
        try:
            checker.check_node(node, self._context)
        except Exception as error:  # the checker's C++ raises more than ValidationError on damaged files
            raise WorkloadError(f"ONNX rejects {describe(node)}: {one_line(error)}") from error


def _is_emptied_constant(node: NodeProto) -> bool:
    if node.input or len(node.attribute) != 1:
        return False
    only = node.attribute[0]
    contents = {field.name for field, _ in only.t.ListFields()}.intersection(PAYLOADS)
    return only.name == "value" and only.type == AttributeProto.TENSOR and not contents


def check_attributes(node: NodeProto, inputs: Sequence[Value | None]) -> None:
    """Checks that ONNX's shape inference leaves out and then crashes on, taking the process with it.

    Raises:
        WorkloadError: an attribute is out of range.
    """
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
    """ONNX's inference takes a target shape at its word if it has no -1.

    Raises:
        MisfitError: an operator that keeps its elements has another number of them after the inference.
    """
    if operator.keeps_elements and inputs[0] is not None and node.output[0] in outputs:
        before, after = inputs[0], outputs[node.output[0]]
        if before.elements != after.elements:
            message = f"{describe(node)} cannot turn shape {list(before.shape)} into {list(after.shape)}."
            raise MisfitError(message, inputs)


def _trailing(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes at the same axis, counted from the last."""
    return list(zip(reversed(a), reversed(b), strict=False))[::-1]


def one_line(error: Exception) -> str:
    """An error's text as the end of a message."""
    text = " ".join(str(error).split())
    return text if text.endswith(".") else text + "."

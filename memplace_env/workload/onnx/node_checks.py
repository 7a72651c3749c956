"""Checks of single nodes: what ONNX's checker finds, and what it and ONNX's shape inference leave out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from onnx import ModelProto, NodeProto, checker, defs

from memplace_env.errors import WorkloadError
from memplace_env.workload.onnx.operator import Operator
from memplace_env.workload.onnx.topology import describe, subgraphs
from memplace_env.workload.onnx.values import Value

_STANDARD_DOMAINS: Final = ("", "ai.onnx")
_LONGEST_SHAPE: Final = 8


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
        sizes: numbers that other dims may have been meant to have: those stored in the node's operands if there are
            any, else the operands' dims without those of size 1, which fit everything.
    """

    def __init__(self, message: str, inputs: Iterable[Value | None]) -> None:
        super().__init__(message)
        known = [value for value in inputs if value is not None]
        whole = [value.data for value in known if value.data is not None and value.data.dtype.kind in "iu"]
        stored = [int(size) for data in whole if data.ndim == 1 for size in data[:_LONGEST_SHAPE]]
        self.sizes = tuple(dict.fromkeys(stored or (size for value in known for size in value.shape if size > 1)))


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
        if any(subgraphs(node)):
            return  # the checker, given a node alone, takes what its subgraphs capture for undefined
        try:
            checker.check_node(node, self._context)
        except Exception as error:  # the checker's C++ raises more than ValidationError on damaged files
            raise WorkloadError(f"ONNX rejects {describe(node)}: {one_line(error)}") from error


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


def one_line(error: Exception) -> str:
    """An error's text as the end of a message."""
    text = " ".join(str(error).split())
    return text if text.endswith(".") else text + "."

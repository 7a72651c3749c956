"""Checks of single nodes: by ONNX's checker, and some that it and ONNX's shape inference leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from onnx import AttributeProto, ModelProto, NodeProto, checker, defs

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.onnx_constants import PAYLOADS
from memplace_env.program.frontends.onnx.operator_lookup import RUNTIME, STANDARD, domain_of
from memplace_env.program.frontends.onnx.runtime_operators import RUNTIME_ATTRIBUTES
from memplace_env.program.frontends.onnx.topology import describe, subgraphs
from memplace_env.program.lowering.graph_values import Value
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

"""An op of a network as one function of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import torch
from onnx import NodeProto, TensorProto, helper, numpy_helper
from torch import Tensor

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.cuda.operators import OPERATORS
from memplace_env.backends.cuda.operators.node import Kernel, OperatorNode, tensor_of, torch_dtype
from memplace_env.backends.ort.submodels import OpModel

Lowered = Callable[[Sequence[Tensor]], tuple[Tensor, ...]]
"""Returns an op's results from its operands, both in the order of the model's ports."""

_HOST: Final = "cpu"
_SHAPES: Final = "meta"
"""PyTorch's device whose tensors have shapes but no numbers."""


class _Step(NamedTuple):
    """A node that runs.

    Attributes:
        inputs: names, "" for one that is left out.
        ends: values that no later step needs.
    """

    kernel: Kernel
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ends: tuple[str, ...] = ()


def lower(part: OpModel, torch_device: str) -> Lowered:
    """Return a function of the op's operands, tensors in the device, that returns its results.

    Everything that depends on shapes and constants alone is computed here, once, by a run on tensors without numbers.
    So the function never waits for the device and can be captured in a graph: if a tensor's number had to be known,
    that run fails.

    Args:
        part: the op's model.
        torch_device: PyTorch's name of the device.

    Returns:
        a function whose results have the ports' shapes and types, new or views of operands, contiguous or not.

    Raises:
        ExecutionError: naming a node without a counterpart in PyTorch.
    """
    values = {tensor.name: tensor_of(numpy_helper.to_array(tensor)) for tensor in part.model.graph.initializer}
    for port in part.operands:
        values[port.name] = torch.empty(port.shape, dtype=torch_dtype(port.element_type), device=_SHAPES)
    opset = next(entry.version for entry in part.model.opset_import if entry.domain in ("", "ai.onnx"))
    steps = []
    for proto in part.model.graph.node:
        node, outputs = _evaluated(proto, [values[name] if name else None for name in proto.input], opset)
        if len(outputs) < len(list(filter(None, proto.output))):
            raise node.error(f"PyTorch's function gives {len(outputs)} of its {len(proto.output)} results")
        values.update(zip(proto.output, outputs, strict=False))
        if any(output.is_meta for output in outputs):
            kernel = OPERATORS[node.op_type](node._replace(device=torch_device))
            steps.append(_Step(kernel, tuple(proto.input), tuple(proto.output)))
    _check_results(part, values)
    results = tuple(port.name for port in part.results)
    steps = _needed(steps, results)
    read = {name for step in steps for name in step.inputs if name} | set(results)
    constants = {name: values[name].to(torch_device) for name in read if not values[name].is_meta}
    return _function(steps, constants, tuple(port.name for port in part.operands), results)


def _function(
    steps: Sequence[_Step], constants: dict[str, Tensor], operands: tuple[str, ...], results: tuple[str, ...]
) -> Lowered:
    def run(given: Sequence[Tensor]) -> tuple[Tensor, ...]:
        values: dict[str, Tensor | None] = {"": None, **constants, **dict(zip(operands, given, strict=True))}
        for step in steps:
            outputs = step.kernel(*(values[name] for name in step.inputs))
            values.update(zip(step.outputs, (outputs,) if isinstance(outputs, Tensor) else outputs, strict=False))
            values[""] = None
            for name in step.ends:
                del values[name]
        return tuple(tensor for name in results if (tensor := values[name]) is not None)

    return run


def _evaluated(proto: NodeProto, given: Sequence[Tensor | None], opset: int) -> tuple[OperatorNode, tuple[Tensor, ...]]:
    """Run a node on numbers if all of its inputs are known, else on shapes; return the node and its results."""
    device = _SHAPES if any(tensor is not None and tensor.is_meta for tensor in given) else _HOST
    node = OperatorNode(
        op_type=proto.op_type,
        name=proto.name or next(filter(None, proto.output)),
        attributes={item.name: _attribute(helper.get_attribute_value(item)) for item in proto.attribute},
        constants={at: tensor for at, tensor in enumerate(given) if tensor is not None and not tensor.is_meta},
        shapes=tuple(None if tensor is None else tuple(tensor.shape) for tensor in given),
        outputs=len(proto.output),
        opset=opset,
        device=device,
    )
    if node.op_type not in OPERATORS or proto.domain not in ("", "ai.onnx"):
        raise node.error("PyTorch's functions have no counterpart of that operator here")
    try:
        outputs = OPERATORS[node.op_type](node)(*(None if tensor is None else tensor.to(device) for tensor in given))
    except ExecutionError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError, KeyError) as error:
        raise node.error(f"PyTorch refuses it ({' '.join(str(error).split())[:200]})") from error
    return node, (outputs,) if isinstance(outputs, Tensor) else outputs


def _attribute(value: Any) -> Any:
    """Convert an attribute to plain Python, tensors to PyTorch's."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, TensorProto):
        return tensor_of(numpy_helper.to_array(value))
    if isinstance(value, str | int | float):
        return value
    return [_attribute(item) for item in value] if isinstance(value, Iterable) else value


def _check_results(part: OpModel, values: dict[str, Tensor]) -> None:
    for port in part.results:
        computed, dtype = values[port.name], torch_dtype(port.element_type)
        if tuple(computed.shape) != port.shape or computed.dtype != dtype:
            raise ExecutionError(
                f"{port.name!r} cannot be computed on a device: it would be {computed.dtype} {list(computed.shape)} "
                f"there and is {dtype} {list(port.shape)} in the model."
            )


def _needed(steps: Sequence[_Step], results: Sequence[str]) -> list[_Step]:
    """Return the steps that the results depend on, each with the values that end there."""
    wanted, kept = set(results), []
    for step in reversed(steps):
        if wanted.isdisjoint(step.outputs):
            continue
        touched = {name for name in (*step.inputs, *step.outputs) if name}
        kept.append(step._replace(ends=tuple(touched - wanted)))
        wanted |= touched
    return kept[::-1]

"""An op of a network as one function of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import torch
from onnx import NodeProto, TensorProto, helper, numpy_helper
from torch import Tensor

from memplace_env.device.dtypes import tensor_of, torch_dtype
from memplace_env.device.operators import OPERATORS
from memplace_env.device.operators.node import Kernel, Node
from memplace_env.errors import ExecutionError
from memplace_env.execution.submodels import OpModel

Lowered = Callable[[Sequence[Tensor]], tuple[Tensor, ...]]
"""An op's results of its operands, both in the order of the model's ports."""

_HOST: Final = "cpu"
_SHAPES: Final = "meta"
"""PyTorch's device whose tensors have shapes but no numbers."""


class _Step(NamedTuple):
    """A node that runs.

    Attributes:
        inputs: names, "" for one that is left out.
        ends: values that nothing needs any more behind it.
    """

    kernel: Kernel
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ends: tuple[str, ...] = ()


def lower(part: OpModel, torch_device: str) -> Lowered:
    """A function of the op's operands, tensors in the device, that gives its results.

    Whatever depends on shapes and constants alone is found out here, once, by a run on tensors without numbers. So the
    function never waits for the device and can be captured in a graph: where a number of a tensor had to be known, that
    run fails.

    Args:
        part: the op.
        torch_device: PyTorch's name of the device.

    Returns:
        what gives tensors of the ports' shapes and types, new ones or views of operands, contiguous or not.

    Raises:
        ExecutionError: naming a node that PyTorch has no counterpart of.
    """
    known = {tensor.name: tensor_of(numpy_helper.to_array(tensor)) for tensor in part.model.graph.initializer}
    for port in part.operands:
        known[port.name] = torch.empty(port.shape, dtype=torch_dtype(port.element_type), device=_SHAPES)
    opset = next(each.version for each in part.model.opset_import if each.domain in ("", "ai.onnx"))
    steps = []
    for proto in part.model.graph.node:
        node, made = _tried(proto, [known[name] if name else None for name in proto.input], opset)
        if len(made) < len(list(filter(None, proto.output))):
            raise node.error(f"PyTorch's function gives {len(made)} of its {len(proto.output)} results")
        known.update(zip(proto.output, made, strict=False))
        if any(each.is_meta for each in made):
            kernel = OPERATORS[node.op_type](node._replace(device=torch_device))
            steps.append(_Step(kernel, tuple(proto.input), tuple(proto.output)))
    _check_results(part, known)
    results = tuple(port.name for port in part.results)
    steps = _needed(steps, results)
    read = {name for step in steps for name in step.inputs if name} | set(results)
    constants = {name: known[name].to(torch_device) for name in read if not known[name].is_meta}
    return _function(steps, constants, tuple(port.name for port in part.operands), results)


def _function(
    steps: Sequence[_Step], constants: dict[str, Tensor], operands: tuple[str, ...], results: tuple[str, ...]
) -> Lowered:
    def run(given: Sequence[Tensor]) -> tuple[Tensor, ...]:
        values: dict[str, Tensor | None] = {"": None, **constants, **dict(zip(operands, given, strict=True))}
        for step in steps:
            made = step.kernel(*(values[name] for name in step.inputs))
            values.update(zip(step.outputs, (made,) if isinstance(made, Tensor) else made, strict=False))
            values[""] = None
            for name in step.ends:
                del values[name]
        return tuple(tensor for name in results if (tensor := values[name]) is not None)

    return run


def _tried(proto: NodeProto, given: Sequence[Tensor | None], opset: int) -> tuple[Node, tuple[Tensor, ...]]:
    """A node, and what it makes: numbers if it needs no others than are known, else shapes."""
    device = _SHAPES if any(each is not None and each.is_meta for each in given) else _HOST
    node = Node(
        op_type=proto.op_type,
        name=proto.name or next(filter(None, proto.output)),
        attributes={each.name: _attribute(helper.get_attribute_value(each)) for each in proto.attribute},
        constants={at: each for at, each in enumerate(given) if each is not None and not each.is_meta},
        shapes=tuple(None if each is None else tuple(each.shape) for each in given),
        outputs=len(proto.output),
        opset=opset,
        device=device,
    )
    if node.op_type not in OPERATORS or proto.domain not in ("", "ai.onnx"):
        raise node.error("PyTorch's functions have no counterpart of that operator here")
    try:
        made = OPERATORS[node.op_type](node)(*(None if each is None else each.to(device) for each in given))
    except ExecutionError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError, KeyError) as error:
        raise node.error(f"PyTorch refuses it ({' '.join(str(error).split())[:200]})") from error
    return node, (made,) if isinstance(made, Tensor) else made


def _attribute(value: Any) -> Any:
    """As plain Python, tensors as PyTorch's."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, TensorProto):
        return tensor_of(numpy_helper.to_array(value))
    if isinstance(value, str | int | float):
        return value
    return [_attribute(each) for each in value] if isinstance(value, Iterable) else value


def _check_results(part: OpModel, known: dict[str, Tensor]) -> None:
    for port in part.results:
        made, dtype = known[port.name], torch_dtype(port.element_type)
        if tuple(made.shape) != port.shape or made.dtype != dtype:
            raise ExecutionError(
                f"{port.name!r} cannot be made on a device: it would be {made.dtype} {list(made.shape)} there and is "
                f"{dtype} {list(port.shape)} in the model."
            )


def _needed(steps: Sequence[_Step], results: Sequence[str]) -> list[_Step]:
    """The steps that the results rest on, each with the values that end there."""
    wanted, kept = set(results), []
    for step in reversed(steps):
        if wanted.isdisjoint(step.outputs):
            continue
        touched = {name for name in (*step.inputs, *step.outputs) if name}
        kept.append(step._replace(ends=tuple(touched - wanted)))
        wanted |= touched
    return kept[::-1]

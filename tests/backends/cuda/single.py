"""Models of one node, and what ONNX Runtime makes of them beside what PyTorch makes."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from memplace_env.backends.cuda.operators.node import tensor_of, torch_dtype
from memplace_env.backends.cuda.torch_lowering import lower
from memplace_env.backends.ort.sessions import session_of
from memplace_env.backends.ort.submodels import OpModel, Port

TOLERANCE = 1e-4
"""Tolerance of floating-point results, as a fraction of the largest: sums of millions of products differ in order."""


class Known:
    """An input that stands in the model."""

    def __init__(self, *numbers, dtype=np.int64, array=None) -> None:
        self.array = np.array(numbers, dtype=dtype) if array is None else array


def single(op_type, inputs, outputs=1, opset=20, **attributes):
    """The model of one node, its operands, and its results by ONNX Runtime; an input may be `Known` or None."""
    names = [f"in{at}" if each is not None else "" for at, each in enumerate(inputs)]
    made = [f"out{at}" for at in range(outputs)]
    node = helper.make_node(op_type, names, made, "it", **attributes)
    return part_of([node], {name: each for name, each in zip(names, inputs, strict=True) if name}, made, opset)


def part_of(nodes, inputs, made, opset=20):
    """The same of several nodes, with inputs by name."""
    given = {name: each for name, each in inputs.items() if not isinstance(each, Known)}
    known = [numpy_helper.from_array(each.array, name) for name, each in inputs.items() if isinstance(each, Known)]
    infos = [helper.make_tensor_value_info(name, _type(each), each.shape) for name, each in given.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in made]
    graph = helper.make_graph(nodes, "part", infos, outputs, known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    session = session_of(model, "the part")
    expected = session.run(made, given)
    operands = tuple(Port(name, at, _type(each), each.shape) for at, (name, each) in enumerate(given.items()))
    results = tuple(Port(name, -1, _type(each), each.shape) for name, each in zip(made, expected, strict=True))
    return OpModel(model, session, operands, results), list(given.values()), expected


def agree(op_type, *inputs, outputs=1, opset=20, **attributes) -> None:
    """PyTorch makes what ONNX Runtime makes, without a look at numbers."""
    part, operands, expected = single(op_type, inputs, outputs, opset, **attributes)
    made = lower(part, "cpu")([tensor_of(each) for each in operands])
    for each, right in zip(made, expected, strict=True):
        same(each, right)
    shapes_alone(part)


def shapes_alone(part: OpModel) -> None:
    """The function runs where tensors have no numbers: whatever would read one, and so wait for a device, fails."""
    given = [torch.empty(port.shape, dtype=torch_dtype(port.element_type), device="meta") for port in part.operands]
    made = lower(part, "meta")(given)
    assert [(tuple(each.shape), each.dtype, each.device.type) for each in made] == [
        (port.shape, torch_dtype(port.element_type), "meta") for port in part.results
    ]


def same(made: torch.Tensor, right: np.ndarray) -> None:
    """Whole numbers are equal, others nearly."""
    expected = tensor_of(np.asarray(right))
    assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
    if not expected.is_floating_point():
        assert torch.equal(made, expected)
        return
    found, right = (each.float().numpy() for each in (made, expected))
    finite = np.isfinite(right)
    if not finite.all():
        np.testing.assert_array_equal(found[~finite], right[~finite])
        found, right = found[finite], right[finite]
    if right.size:
        assert np.abs(found - right).max() <= TOLERANCE * np.abs(right).max()


ints = st.integers


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def known(array) -> Known:
    return Known(array=np.asarray(array))


def several(draw, count, least, most) -> list[int]:
    return [draw(ints(least, most)) for _ in range(count)]


def _type(array: np.ndarray) -> int:
    return helper.np_dtype_to_tensor_dtype(array.dtype)

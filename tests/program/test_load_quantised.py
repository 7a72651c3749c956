"""Quantised models: bytes are those of what is stored, and the rate is that of the wider operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto

from memplace_env.program.program import TensorKind
from tests.offenders import every
from tests.program.models import load, names, node, operand_names, tensor, weight

FLOATS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
NARROW = {TensorProto.INT8: 8, TensorProto.UINT8: 8, TensorProto.INT4: 4, TensorProto.UINT4: 4,
          TensorProto.FLOAT8E4M3FN: 8}  # fmt: skip
SCALARS = {"one": np.float32(1), "zero": np.int8(0)}


def through_int8(source: str, result: str) -> list[NodeProto]:
    return [node("QuantizeLinear", f"{source} one zero", f"{result}_q"),
            node("DequantizeLinear", f"{result}_q one zero", result)]  # fmt: skip


@every("activations", FLOATS)
@every("stored", NARROW)
@every(("scale", "attributes"), [((), {}), ((48,), {"axis": 1}), ((4, 48), {"block_size": 16})])
@every("fusion", ["none", "epilogue"])
def test_weight_only_quantisation_computes_in_floats(
    activations: str, stored: int, scale: tuple[int, ...], attributes: dict[str, int], fusion: str
) -> None:
    if "block_size" in attributes:
        attributes = {**attributes, "axis": 0}
    wide = FLOATS[activations]
    nodes = [node("DequantizeLinear", "q s", "w", **attributes), node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    constants = {"q": weight("q", (64, 48), stored), "s": weight("s", scale, wide)}
    settings: dict[str, Any] = {"constants": constants, "types": {"x": wide, "y": wide}, "opset": 21, "fusion": fusion}
    program = load(nodes, {"x": [2, 64]}, **settings)
    assert program.dtype == activations
    assert operand_names(program, 0) == ["x", "q"]
    assert program.bytes_of(TensorKind.WEIGHT) == 64 * 48 * NARROW[stored] // 8
    for dtype in ("float32", "float16"):
        retyped = load(nodes, {"x": [2, 64]}, dtype=dtype, **settings)
        assert retyped.dtype == dtype
        assert retyped.bytes_of(TensorKind.WEIGHT) == program.bytes_of(TensorKind.WEIGHT)


def test_quantised_weights_that_are_transposed_or_gathered_stay_quantised() -> None:
    nodes = [
        node("DequantizeLinear", "q s", "w", axis=0),
        node("Gather", "w i", "a"),
        node("Transpose", "w", "wt", perm=[1, 0]),
        node("MatMul", "a wt", "y"),
    ]
    constants = {"q": weight("q", (100, 8), TensorProto.INT8), "s": (100,)}
    program = load(nodes, {"i": [5]}, constants=constants, types={"i": TensorProto.INT64})
    assert names(program, TensorKind.WEIGHT) == {"q"}
    assert program.use_bytes[0] == 5 * 8
    assert program.dtype == "float32"


CONV = {"kernel_shape": [1, 1]}


@pytest.mark.parametrize("fusion", ["none", "conv", "epilogue"])
def test_both_operands_quantised_compute_in_integers(fusion: str) -> None:
    nodes = [
        *through_int8("x", "a"),
        node("DequantizeLinear", "q s", "w", axis=0),
        node("Conv", "a w bias", "c", **CONV),
        node("Add", "c residual", "d"),
        *through_int8("d", "e"),
        node("Conv", "e w", "y", **CONV),
    ]
    constants = {**SCALARS, "q": weight("q", (8, 8, 1, 1), TensorProto.INT8), "s": (8,), "bias": (8,)}
    inputs = {"x": [1, 8, 32, 32], "residual": [1, 8, 32, 32]}
    program = load(nodes, inputs, constants=constants, fusion=fusion)
    assert program.dtype == "int8"


@pytest.mark.parametrize(("columns", "dtype"), [(63, "float32"), (65, "int8")])
def test_a_mixed_model_computes_in_what_most_of_its_work_is_in(columns: int, dtype: str) -> None:
    nodes = [
        *through_int8("x", "a"),
        node("DequantizeLinear", "q one zero", "w"),
        node("MatMul", "a w", "y"),
        node("MatMul", "x v", "z"),
    ]
    constants = {**SCALARS, "q": weight("q", (16, columns), TensorProto.INT8), "v": (16, 64)}
    assert load(nodes, {"x": [4, 16]}, "y z", constants=constants).dtype == dtype


def test_without_products_the_dtype_is_that_of_most_bytes() -> None:
    assert load([node("Relu", "x", "y")], {"x": [4]}, types=dict.fromkeys("xy", TensorProto.FLOAT16)).dtype == "float16"


@pytest.mark.parametrize("behind", [[], [node("Reshape", "b flat", "y")]], ids=["itself", "a view of it"])
@pytest.mark.parametrize("dtype", [None, "float16"])
def test_a_dequantised_graph_output_is_there_in_floats(behind: Sequence[NodeProto], dtype: str | None) -> None:
    last = "b" if behind else "y"
    nodes = [node("QuantizeLinear", "x one zero", "a"), node("DequantizeLinear", "a one zero", last), *behind]
    program = load(nodes, {"x": [2, 8]}, constants={**SCALARS, "flat": np.array([16])}, dtype=dtype)
    assert program.op_type == ("QuantizeLinear", "DequantizeLinear")
    assert program.vector_ops.tolist() == [16, 16]
    assert names(program, TensorKind.OUTPUT) == {last}
    assert program.bytes_of(TensorKind.OUTPUT) == 16 * (4 if dtype is None else 2)
    assert program.tensor_bytes[tensor(program, "a")] == 16


def test_a_dequantised_graph_output_joins_what_makes_it() -> None:
    nodes = [node("Conv", "x w", "c", **CONV), *through_int8("c", "y")]
    program = load(nodes, {"x": [1, 8, 4, 4]}, constants={**SCALARS, "w": (8, 8, 1, 1)}, fusion="conv")
    assert program.op_type == ("Conv",)
    assert program.bytes_of(TensorKind.OUTPUT) == 4 * 8 * 16


def test_a_dequantised_constant_that_is_delivered_is_still_read_as_it_is_stored() -> None:
    nodes = [node("DequantizeLinear", "q one zero", "w"), node("MatMul", "x w", "y")]
    constants = {**SCALARS, "q": weight("q", (16, 16), TensorProto.INT8)}
    program = load(nodes, {"x": [4, 16]}, "y w", constants=constants)
    assert program.op_type == ("MatMul",)
    assert program.bytes_of(TensorKind.WEIGHT) == 256


def test_a_cast_between_kinds_of_narrow_floats_is_no_view_of_a_wide_one() -> None:
    nodes = [node("Cast", "x", "a", to=TensorProto.FLOAT8E4M3FN), node("Cast", "a", "b", to=TensorProto.FLOAT),
             node("Relu", "b", "y")]  # fmt: skip
    program = load(nodes, {"x": [8]}, dtype="float16")
    assert program.op_type == ("Cast", "Cast", "Relu")
    assert program.tensor_bytes.tolist() == [16, 8, 16, 16]

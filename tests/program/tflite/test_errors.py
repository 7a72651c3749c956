"""Models that cannot become a Program raise a WorkloadError that names the reason."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import memplace_env
from memplace_env._lib.errors import WorkloadError
from memplace_env.placement.workloads import resolve_workload
from tests.offenders import every
from tests.program.models import load as load_onnx_nodes
from tests.program.models import node
from tests.program.tflite.writer import Graph, Op, T, load, op, write

IMAGE = T([1, 4, 6, 8])
PLAIN = {"x": IMAGE, "y": IMAGE}
WEIGHTS = {"w": T([8, 3, 3, 8]), "b": T([8], "INT32")}
CONV = "x w b"

CASES: dict[str, tuple[list[Op], dict[str, T], str]] = {
    "no such cost": (
        [op("TANH", "x", "h"), op("WHERE", "h", "y")], {**PLAIN, "h": IMAGE}, r"operator 1 \(WHERE\).*without.*--cut",
    ),
    "custom": ([op("Detection_PostProcess", "x", "y")], PLAIN, r"operator 0 .custom operator 'Detection.*--cut"),
    "control flow": ([op("WHILE", "x", "y")], PLAIN, r"operator 0 \(WHILE\) runs; pass .*--trips"),
    "branches": ([op("IF", "x x", "y", ThenSubgraphIndex=3)], PLAIN, r"0 \(IF\).*graph 3 of the file is missing"),
    "no handle": ([op("READ_VARIABLE", "x", "y")], PLAIN, r"operands of operator 0 \(READ_V"),
    "strings": ([op("TANH", "x", "y")], {"x": T([2], "STRING"), "y": T([2])}, "'x' holds STRING"),
    "resources": ([op("TANH", "x", "y")], {"x": T([2], "RESOURCE"), "y": T([2])}, "'x' holds UNDEFINED"),
    "sparse": ([op("ADD", "x s", "y")], {**PLAIN, "s": T([8], sparse=True)}, "'s' is sparse"),
    "dynamic": ([op("TANH", "x", "y")], {"x": T([1, -1, 2]), "y": IMAGE}, "dynamic shape .1, -1, 2.*fixed"),
    "dynamic later": (
        [op("TANH", "x", "y")], {"x": T([1, 1, 2], signature=[-1, -1, 2]), "y": IMAGE}, "dynamic shape .-1, -1, 2",
    ),
    "absurd": ([op("TANH", "x", "y")], {"x": T([2**31 - 1] * 3), "y": IMAGE}, "absurd shape"),
    "no order": (
        [op("TRANSPOSE", "x a", "y")], {**PLAIN, "a": T([4], "INT32")}, r"0 \(TRANSPOSE\).*contents of input 1",
    ),
    "wrong order": ([op("TRANSPOSE", "x a", "y")], {**PLAIN, "a": T([4], "INT32", [0, 1, 1, 2])}, "order of dims"),
    "no stride": ([op("CONV_2D", CONV, "y", StrideH=0)], {**PLAIN, **WEIGHTS}, r"operator 0 \(CONV_2D\).*StrideH"),
    "filters": ([op("CONV_2D", CONV, "y")], {**PLAIN, **WEIGHTS, "w": T([7, 3, 3, 8])}, "filters do not fit"),
    "depthwise filters": ([op("DEPTHWISE_CONV_2D", CONV, "y")], {**PLAIN, **WEIGHTS}, "filters do not fit"),
    "transposed filters": (
        [op("TRANSPOSE_CONV", "b w x", "y")], {**PLAIN, **WEIGHTS, "w": T([8, 3, 3, 7])}, "filters do not fit",
    ),
    "rank": ([op("CONV_2D", CONV, "y")], {**PLAIN, **WEIGHTS, "w": T([8, 8])}, "do not fit together"),
    "no weights": ([op("CONV_2D", "x _ b", "y")], {**PLAIN, **WEIGHTS}, "input 1 is missing"),
    "no operands": ([op("CONV_2D", "", "y")], PLAIN, "input . is missing"),
    "elements": ([op("RESHAPE", "x", "y")], {"x": IMAGE, "y": T([7])}, "cannot be .7"),
    "columns": ([op("FULLY_CONNECTED", "x w _", "y")], {"x": T([5, 6]), "w": T([3, 6]), "y": T([5, 4])}, "do not fit"),
    "groups": ([op("CONV_2D", "x w _", "y")], {**PLAIN, "w": T([7, 3, 3, 4]), "y": T([1, 4, 6, 7])}, "do not fit"),
    "rows": ([op("FULLY_CONNECTED", "x w _", "y")], {"x": T([5, 7]), "w": T([3, 6]), "y": T([5, 3])}, "cannot be"),
    "made later": ([op("ADD", "x h", "y"), op("TANH", "x", "h")], {**PLAIN, "h": IMAGE}, "'h' is read before"),
    "made twice": ([op("TANH", "x", "y"), op("EXP", "x", "y")], PLAIN, "'y' is made although"),
    "no work": ([op("RESHAPE", "x", "y")], PLAIN, "does no work"),
}  # fmt: skip


@every("case", CASES)
def test_named_errors(case: str) -> None:
    ops, tensors, message = CASES[case]
    with pytest.raises(WorkloadError, match=message) as caught:
        load(ops, tensors)
    assert str(caught.value).startswith("model.tflite: ")


def test_several_graphs() -> None:
    """Graphs that nothing calls are left out, with a warning."""
    with pytest.warns(UserWarning, match="nothing in it calls 2 of the others"):
        program = load(
            [op("TANH", "x", "y")], {**PLAIN, "a": IMAGE, "b": IMAGE}, graphs=[Graph([], "a"), Graph([], "b")]
        )
    assert program.op_type == ("Tanh",)


@every(
    ("settings", "message"),
    [
        ({"batch": 3}, "batch at 1.*batch=3"),
        ({"dims": {"n": 3}}, "no symbolic dims.*n cannot"),
        ({"dtype": "int4"}, "dtype is 'int4'"),
        ({"fusion": "all"}, "fusion is 'all'.*activation, chain"),
    ],
)
def test_settings_that_do_not_apply(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        load([op("TANH", "x", "y")], PLAIN, **settings)


def test_the_batch_of_the_file() -> None:
    tensors = {"x": T([2, 8], signature=[-1, 8]), "y": T([2, 8], signature=[-1, 8])}
    assert load([op("TANH", "x", "y")], tensors, batch=2, dims={}).geometry[0, 0] == 2


def test_files_that_are_none(tmp_path: Path) -> None:
    folder, empty, other = tmp_path / "a.tflite", tmp_path / "b.tflite", tmp_path / "c.tflite"
    folder.mkdir()
    empty.touch()
    other.write_bytes(b"PK\3\4 something else")
    expected = {
        folder: "directory",
        empty: "empty",
        other: "not a TensorFlow Lite model",
        tmp_path / "d.tflite": "no file",
    }
    for path, message in expected.items():
        with pytest.raises(WorkloadError, match=message):
            memplace_env.load_tflite(path)


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(WorkloadError, match=r'run: pip install "memplace\[tflite\]"'):
        load([op("TANH", "x", "y")], PLAIN)


def test_paths_are_told_by_their_suffix(tmp_path: Path) -> None:
    path = tmp_path / "Net.TFLITE"
    path.write_bytes(write([op("TANH", "x", "y")], PLAIN))
    assert resolve_workload(path).sha256 == resolve_workload(str(path)).sha256 == memplace_env.load_tflite(path).sha256
    assert resolve_workload(path).name == "Net"


def test_a_single_number_as_filter() -> None:
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c b b b b", "y")]
    program = load_onnx_nodes(nodes, {"x": [1, 1, 4, 4]}, constants={"w": (1, 1, 1, 1), "b": (1,)}, fusion="conv")
    assert program.op_type == ("Conv",)

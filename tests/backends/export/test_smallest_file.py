"""Files in the smallest arena: nothing is lost by the file's order, and the runtime's own interpreter agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import ExecutionError, MemPlaceError, PlanError
from memplace_env.backends.export import micro_runtime
from memplace_env.backends.export.smallest_file import smallest_file
from memplace_env.backends.export.tflite_file import with_offsets
from tests.backends.export.test_tflite import NETWORKS, VIEWS, metadata_in, require_nothing_is_lost
from tests.program.tflite.writer import Graph, T, op, write
from tests.thorough import examples

with_micro = pytest.mark.skipif(not micro_runtime.find_spec("tflite_micro"), reason="tflite-micro is not installed")


def numbers(*shape: int) -> T:
    """A constant of floats."""
    data = np.random.default_rng(0).normal(size=shape).astype("<f4").view("<i4").reshape(-1)
    return T(shape, "FLOAT32", data.tolist())


@st.composite
def models(draw: st.DrawFn) -> bytes:
    """Graphs of five operators over rows of floats; some results are read by nobody."""
    widths, ops, tensors = {"x": 8}, [], {"x": T([1, 8], "FLOAT32")}
    for step in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["FULLY_CONNECTED", "LOGISTIC", "ADD", "CONCATENATION", "RESHAPE"]))
        one, two = (draw(st.sampled_from([*widths])) for _ in range(2))
        name, width, operands, options = f"v{step}", widths[one], one, dict[str, Any]()
        if kind == "FULLY_CONNECTED":
            width = draw(st.integers(1, 40))
            tensors |= {f"w{step}": numbers(width, widths[one]), f"b{step}": numbers(width)}
            operands = f"{one} w{step} b{step}"
        elif kind == "CONCATENATION":
            width, operands, options = width + widths[two], f"{one} {two}", {"Axis": 1}
        elif kind == "ADD":
            operands = f"{one} {one}"
        ops.append(op(kind, operands, name, **options))
        widths[name], tensors[name] = width, T([1, width], "FLOAT32")
    made = [*widths][1:]
    return write(ops, tensors, outputs=" ".join({made[-1]: None, draw(st.sampled_from(made)): None}))


@given(model=models())
@examples(80)
def test_nothing_is_lost_and_no_arena_is_below_the_bound(model: bytes) -> None:
    written, counts = smallest_file(model, check=False)
    assert counts["bound_bytes"] <= counts["arena_bytes"]
    assert counts["kept"] == (counts["arena_bytes"] >= counts["runtime_bytes"])
    assert written == model if counts["kept"] else model in written
    if not counts["kept"]:
        offsets = metadata_in(written)[3:]
        assert counts["planned"] == sum(offset >= 0 for offset in offsets)
        assert max(offsets) < counts["arena_bytes"]
        require_nothing_is_lost(model, offsets)


@with_micro
@given(model=models())
@examples(12, fewest=3)
def test_the_runtime_takes_what_was_computed(model: bytes) -> None:
    written, counts = smallest_file(model, check=True)
    assert counts["recorded_before"] == counts["runtime_bytes"]
    assert counts["recorded_after"] == counts["arena_bytes"]
    assert counts["kept"] == (written == model) == (counts["arena_bytes"] >= counts["runtime_bytes"])


@with_micro
def test_an_older_plan_counts_by_what_is_recorded() -> None:
    wide = T([1, 256], "FLOAT32")
    model = write([op("LOGISTIC", "x", "a"), op("LOGISTIC", "a", "y")], dict.fromkeys("xay", wide))
    spread = with_offsets(model, [0, 1024, 8192])
    for check in (False, True):
        written, counts = smallest_file(spread, check=check)
        assert not counts["kept"]
        assert max(metadata_in(written)[3:]) == 1024
    assert (counts["recorded_before"], counts["recorded_after"]) == (9216, 2048)
    assert smallest_file(model, check=True)[1]["kept"]


def test_blocks() -> None:
    """A view in place has its operand's offset, that of a constant its own; half bytes take whole ones."""
    offsets = metadata_in(smallest_file(with_offsets(VIEWS, [0] * 9), check=False)[0])[3:]
    assert offsets[1] == offsets[2]
    tensors = {"x": T([3]), "c": numbers(1, 4), "r": T([4, 1], "FLOAT32"), "i": T([40], "INT4"), "y": T([3])}
    tensors |= {"v": T([1, 8], variable=True), "h": T([1], "RESOURCE")}
    ops = [op("LOGISTIC", "x", "y"), op("RESHAPE", "c", "r"), op("VAR_HANDLE", "", "h"), op("LOGISTIC", "v", "i")]
    written, counts = smallest_file(with_offsets(write(ops, tensors), [0] * 7), check=False)
    assert [offset >= 0 for offset in metadata_in(written)[3:]] == [True, False, True, True, True, False, False]
    assert counts["at_run_time"] == {"variable": 1, "without a size": 1}
    assert counts["arena_bytes"] == 48 + 16
    with pytest.raises(PlanError, match="nothing to plan"):
        smallest_file(
            write([op("VAR_HANDLE", "", "h")], {"h": T([1], "RESOURCE")}, inputs="", outputs="h"), check=False
        )


def test_damaged_files_are_refused_or_written_whole() -> None:
    rng, refused = np.random.default_rng(0), 0
    for _ in range(200):
        damaged = bytearray(VIEWS)
        for place in rng.integers(0, len(VIEWS), 2):
            damaged[place] = rng.integers(256)
        try:
            written, _ = smallest_file(bytes(damaged), check=False)
        except MemPlaceError:
            refused += 1
        else:
            assert bytes(damaged) in written
    assert 0 < refused < 200
    huge = write([op("LOGISTIC", "x", "y")], dict.fromkeys("xy", T([1, 2**30], "FLOAT32")))
    with pytest.raises(PlanError, match="32 bits"):
        smallest_file(huge, check=False)


def test_what_cannot_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    network = (NETWORKS / "resnet8.tflite").read_bytes()
    with pytest.raises(ExecutionError, match="lacks the contents of 16 constants, as of 'w1'"):
        smallest_file(network, check=True)
    runs = iter([micro_runtime.MicroRun((np.zeros(2),), 9), micro_runtime.MicroRun((np.ones(2),), 8)])
    monkeypatch.setattr(micro_runtime, "run_in_micro", lambda data: next(runs))
    with pytest.raises(ExecutionError, match="nothing is written"):
        smallest_file(VIEWS, check=True)
    monkeypatch.undo()
    monkeypatch.setattr(micro_runtime, "find_spec", lambda name: None)
    with pytest.raises(ExecutionError, match=r"memplace\[micro\]"):
        smallest_file(VIEWS, check=True)


def test_what_makes_the_arena_larger_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    same = (np.zeros(2),)
    runs = iter([micro_runtime.MicroRun(same, 1024), micro_runtime.MicroRun(same, 2048)])
    monkeypatch.setattr(micro_runtime, "run_in_micro", lambda data: next(runs))
    written, counts = smallest_file(VIEWS, check=True)
    assert written == VIEWS
    assert counts["kept"]


@with_micro
def test_what_the_runtime_cannot_run_is_named() -> None:
    model = write([op("LOGISTIC", "x", "a"), op("GELU", "a", "y")], dict.fromkeys("xay", T([1, 4], "FLOAT32")))
    with pytest.raises(ExecutionError, match=r"cannot run the model: .*GELU\.$"):
        smallest_file(model, check=True)


@with_micro
def test_offsets_of_several_graphs_follow_each_other() -> None:
    row = T([1, 64], "FLOAT32")
    tensors = dict.fromkeys("xay", row) | {"c": numbers(1, 64)} | dict.fromkeys("tu", row)
    ops = [op("CALL_ONCE", "", "", InitSubgraphIndex=1), op("LOGISTIC", "x", "a"), op("LOGISTIC", "a", "y")]
    once = Graph([op("LOGISTIC", "c", "t"), op("LOGISTIC", "t", "u")], "", "u")
    model = write(ops, tensors, graphs=[once])
    for offset in (-1, 4096):
        written = with_offsets(model, [0, 256, 512, -1, offset, -1])
        assert micro_runtime.run_in_micro(written).head == (4352 if offset > 0 else 768)
    written, counts = smallest_file(with_offsets(model, [0, 256, 8192, -1, -1, -1]), check=True)
    assert (counts["tensors"], counts["planned"], counts["at_run_time"]) == (6, 3, {"in another graph": 3})
    assert metadata_in(written)[3:][3:] == [-1, -1, -1]


@with_micro
def test_variables_cannot_be_planned() -> None:
    """The runtime places what it plans by itself over a planned variable after its last reader, so they get -1."""
    names = {"x": T([1, 16], "FLOAT32"), "f": numbers(16, 16), "h": numbers(16, 4), "b": numbers(16)}
    names |= {"state": T([1, 64], "FLOAT32", variable=True)} | dict.fromkeys("zy", T([1, 16], "FLOAT32"))
    model = write([op("SVDF", "x f h b state", "z", Rank=1), op("LOGISTIC", "z", "y")], names)
    plain = micro_runtime.run_in_micro(model)
    for of_y, equal in ((-1, False), (256, True)):
        planned = micro_runtime.run_in_micro(with_offsets(model, [256, -1, -1, -1, 0, 320, of_y]))
        same = [one.tobytes() == two.tobytes() for one, two in zip(planned.outputs, plain.outputs, strict=True)]
        assert all(same) == equal
    assert smallest_file(model, check=False)[1]["at_run_time"] == {"variable": 1}

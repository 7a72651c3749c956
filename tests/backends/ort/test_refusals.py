"""Refusals: one sentence names what cannot be executed."""

import io
import json
import zipfile

import numpy as np
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

from memplace_env._lib.errors import ExecutionError, PlanError
from memplace_env.backends.ort import Executor, course
from memplace_env.cli.app import app
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.program import Program
from tests.backends.ort.models import FLOAT, INT64, attentive, chip, convolutional, quantised, task_of, written


def test_programs_from_no_onnx_file(tmp_path):
    for task in (
        resolve_task("synthetic:chain?ops=5", "nnp-i"),
        resolve_task("DLRM-train", "tpu-v4i"),
        resolve_task(resolve_workload("synthetic:chain?ops=5"), "nnp-i"),
    ):
        with pytest.raises(ExecutionError, match=r"does not come from an ONNX file.*JAX"):
            Executor(task)


def model(path, op_type, **attributes):
    inputs, outputs = {"x": (FLOAT, [2, 8])}, {"y": (FLOAT, [2, 8])}
    return written(path, [helper.make_node(op_type, ["x"], ["y"], "it", **attributes)], inputs, outputs, {})


def test_random_operators(tmp_path):
    with pytest.raises(ExecutionError, match=r"'it' \(RandomNormalLike\) draws random numbers"):
        Executor(task_of(model(tmp_path / "m.onnx", "RandomNormalLike")))


def test_operators_that_onnx_runtime_lacks(tmp_path):
    node = helper.make_node("Conv", ["x", "w"], ["y"], "it")
    shape = [TensorProto.DOUBLE, [1, 2, 1, 1]]
    path = written(tmp_path / "m.onnx", [node], {"x": shape, "w": shape}, {"y": (TensorProto.DOUBLE, [1, 1, 1, 1])}, {})
    with pytest.raises(
        ExecutionError, match=r"ONNX Runtime cannot execute op 0 of 'm' \(Conv, nodes it\): .*IMPLEMENT"
    ):
        Executor(task_of(path))


def test_branches_that_the_data_decide(tmp_path):
    branch = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"], "inner")], "branch", [],
        [helper.make_tensor_value_info("r", FLOAT, [2, 8])],
    )  # fmt: skip
    nodes = [
        helper.make_node("Cast", ["yes"], ["condition"], "cast", to=TensorProto.BOOL),
        helper.make_node("If", ["condition"], ["y"], "choice", then_branch=branch, else_branch=branch),
    ]
    inputs = {"x": (FLOAT, [2, 8]), "yes": (INT64, [])}
    path = written(tmp_path / "m.onnx", nodes, inputs, {"y": (FLOAT, [2, 8])}, {})
    with pytest.warns(match="most work"), pytest.raises(ExecutionError, match=r"belongs to an If that the data decide"):
        Executor(task_of(path))


def test_a_plain_run_without_finite_results(tmp_path):
    with pytest.raises(ExecutionError, match=r"not finite in 'y'.*numbers of the usual size for 'x' with --inputs"):
        Executor(task_of(model(tmp_path / "m.onnx", "Log")))


def test_inputs(tmp_path):
    task = task_of(attentive(tmp_path / "m.onnx"))
    good = np.zeros((1, 6), dtype=np.int64)
    for inputs, message in (
        ({}, "'ids' is missing"),
        ({"ids": good, "more": good}, "no input 'more'"),
        ({"ids": good.astype(np.int32)}, r"'ids' is int32 \[1, 6\]; the model takes int64 \[1, 6\]"),
        ({"ids": good + 99}, "cannot execute m.onnx as a whole"),
        (tmp_path / "none.npz", "No such file"),
        (tmp_path / "m.onnx", "it is not an .npz file"),
    ):
        with pytest.raises(ExecutionError, match=message):
            Executor(task, inputs=inputs)
    np.savez(tmp_path / "ids.npz", ids=good)
    executor = Executor(task, inputs=tmp_path / "ids.npz")
    assert executor.run(native_plan(task)).right
    with pytest.raises(ExecutionError, match="at least 1"):
        executor.run(native_plan(task), inferences=0)


def packed(path, member=None, **options):
    """An archive with the float32 input that `quantised` has, or with another member."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.zeros((1, 3, 8, 8), np.float32))
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr(*member or ("x.npy", file.getvalue()))
    return path.read_bytes()


def changed(content, *places):
    """Set these bytes of a member's two headers, the one before it and the one in the directory, set."""
    directory = content.find(b"PK\x01\x02")
    damaged = bytearray(content)
    for before, behind, value in places:
        damaged[before] = damaged[directory + behind] = value
    return bytes(damaged)


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "x.npz"


def test_archives_that_cannot_be_unpacked(archive, tmp_path):
    task = task_of(quantised(tmp_path / "m.onnx"))
    packed(archive, compression=zipfile.ZIP_LZMA)
    assert Executor(task, inputs=archive).plain_seconds > 0
    lzma = bytearray(archive.read_bytes())
    lzma[60:80] = bytes(20)
    header = np.lib.format.magic(1, 0) + b"\x76\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (2**40,)}"
    shape = header.replace(b"2**40", str(2**40).encode()).ljust(127) + b"\n"
    for content in (
        bytes(lzma),
        changed(packed(archive), (6, 8, 1)),  # encrypted
        changed(packed(archive), (8, 10, 99)),  # compressed in a way that nobody knows
        packed(archive, ("x", b"no array")),
        packed(archive, ("x.npy", shape)),  # which says that it has terabytes
        shape,
    ):
        archive.write_bytes(content)
        with pytest.raises(ExecutionError, match=r"Cannot read the inputs .*: it is not an \.npz file of arrays"):
            Executor(task, inputs=archive)


def test_archives_that_unpack_to_too_much(archive, tmp_path, monkeypatch):
    task = task_of(quantised(tmp_path / "m.onnx"))
    packed(archive, compression=zipfile.ZIP_DEFLATED)
    size = 3 * 8 * 8 * 4 + 128
    monkeypatch.setattr("memplace_env.backends.ort.inputs.MOST_BYTES", size)
    assert archive.stat().st_size < size / 2
    assert Executor(task, inputs=archive).plain_seconds > 0
    monkeypatch.setattr("memplace_env.backends.ort.inputs.MOST_BYTES", size - 1)
    with pytest.raises(ExecutionError, match=f"unpacks to {size} bytes; the limit is {size - 1}"):
        Executor(task, inputs=archive)


def test_lists_are_inputs_too(tmp_path):
    task = task_of(attentive(tmp_path / "m.onnx"))
    executor = Executor(task, inputs={"ids": [[0, 1, 2, 3, 4, 5]]})
    assert executor.run(native_plan(task), inferences=1).right
    for given, message in (([1, 2], r"is int64 \[2\]; the model"), ([[1], [1, 2]], "'ids' is not an array")):
        with pytest.raises(ExecutionError, match=message):
            Executor(task, inputs={"ids": given})


def test_seeds(tmp_path):
    task = task_of(attentive(tmp_path / "m.onnx"))
    with pytest.raises(ExecutionError, match="seed must be at least 0, not -1"):
        Executor(task, seed=-1)
    with pytest.raises(ExecutionError, match="seed must be at least 0, not -2"):
        Executor(task).run(native_plan(task), copies="random", seed=-2)


def test_arguments_of_a_run(tmp_path):
    executor = Executor(task_of(attentive(tmp_path / "m.onnx")))
    plan = native_plan(executor.task)
    for given, message in (
        ({"copies": "all"}, "copies is 'all'; it must be one of: earliest, latest, random"),
        ({"copies": np.array(["latest", "x"])}, "copies is array"),
        ({"inferences": 0}, "inferences must be at least 1, not 0"),
        ({"inferences": 1.5}, "inferences must be a whole number, not 1.5"),
        ({"seed": "3"}, "seed must be a whole number, not '3'"),
    ):
        with pytest.raises(ExecutionError, match=message):
            executor.run(plan, **given)
    assert executor.run(plan, inferences=np.int64(1), seed=np.uint8(2)).right


def test_a_stranger_s_plan_is_never_executed(tmp_path):
    executor = Executor(task_of(attentive(tmp_path / "m.onnx")))
    plan = native_plan(task_of(convolutional(tmp_path / "other.onnx")))
    with pytest.raises(PlanError, match="made for another program"):
        executor.run(plan, even_if_invalid=True)
    nowhere = native_plan(executor.task)
    nowhere.use_level[0] = 9
    with pytest.raises(PlanError, match="level"):
        executor.run(nowhere, even_if_invalid=True)


def test_a_file_that_has_changed(tmp_path):
    path = attentive(tmp_path / "m.onnx")
    task = task_of(path)
    convolutional(path)
    with pytest.raises(ExecutionError, match="its ops or sizes are no longer those of 'm'"):
        Executor(task)


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(ExecutionError, match=r'run: pip install "memplace\[execute\]"'):
        Executor(task_of(convolutional(tmp_path / "m.onnx")))


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def solved(tmp_path, monkeypatch):
    """A model and a plan for it, as files."""
    monkeypatch.chdir(tmp_path)
    convolutional(tmp_path / "m.onnx")
    task = resolve_task("m.onnx", "ethos-u65")
    native_plan(task).save("plan.json")
    return "m.onnx", "plan.json"


def test_command(solved):
    result = run("execute", *solved)
    assert result.exit_code == 0, result.stderr
    assert "All results and outputs are those of the plain run." in result.stdout
    assert [word in result.stdout for word in ("earliest", "latest", "random")] == [True] * 3
    document = json.loads(run("execute", *solved, "--copies", "latest", "--inferences", 1, "--json").stdout)
    assert document["right"]
    assert document["bytes_per_planned_byte"] == 4
    assert [(each["copies"], each["bit_equal"]) for each in document["runs"]] == [("latest", document["ops"])]


def test_command_ends_with_1_if_a_result_is_wrong(solved, monkeypatch):
    monkeypatch.setattr(course, "same_bits", lambda found, expected: False)
    result = run("execute", *solved)
    assert result.exit_code == 1
    assert "WRONG:" in result.stdout
    assert json.loads(run("execute", *solved, "--json").stdout)["right"] is False


def test_command_refuses(solved, tmp_path):
    text = (tmp_path / "plan.json").read_text().replace('"start": 0', '"start": 1', 1)
    (tmp_path / "bad.json").write_text(text)
    for arguments, message in (
        (("m.onnx", "bad.json"), "The plan cannot run"),
        (("m.onnx", "none.json"), "none.json"),
        ((*solved, "--inputs", "none.npz"), "none.npz"),
    ):
        result = run("execute", *arguments)
        assert result.exit_code == 2, result.stdout
        assert message in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_a_program_says_which_nodes_its_ops_cover(tmp_path):
    path = convolutional(tmp_path / "m.onnx")
    program = resolve_workload(path)
    assert program.op_nodes == (
        ("conv0", "norm0", "relu0"), ("conv1", "add1", "relu1"), ("pool",), ("average",), ("gemm",),
    )  # fmt: skip
    assert set(program.tensor_value) >= {"x", "w0", "r0", "w1", "b1", "r1", "p", "g", "w2", "b2", "y"}
    unfused = resolve_workload(path, fusion="none")
    assert [name for nodes in unfused.op_nodes for name in nodes] == [
        "conv0", "norm0", "relu0", "conv1", "add1", "relu1", "pool", "average", "gemm",
    ]  # fmt: skip
    program.save(tmp_path / "m.program")
    loaded = Program.load(tmp_path / "m.program")
    assert loaded.op_nodes == () == loaded.tensor_value
    assert loaded.sha256 == program.sha256
    with pytest.raises(ExecutionError, match="does not come from an ONNX file"):
        Executor(resolve_task(tmp_path / "m.program", chip()))


def test_ids_stay_in_the_tables_rows(tmp_path):
    """Whatever the seed: rows behind the table would end the run."""
    path = attentive(tmp_path / "m.onnx")
    values = [Executor(task_of(path), seed=seed)._network.inputs for seed in range(3)]
    drawn = [next(iter(each.values())) for each in values]
    assert all(array.max() < 20 and len(np.unique(array)) > 1 for array in drawn)
    assert drawn[0].dtype == np.int64
    assert INT64 == 7

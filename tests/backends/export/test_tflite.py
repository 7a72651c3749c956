"""Offline plans in .tflite files: read back they are the plan, the rest of the model is as before, and running the
model's operators in the arena loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite

from benchmarks.experiments.vela import networks
from memplace_env._lib.errors import MemPlaceError, PlanError, WorkloadError
from memplace_env.backends.export.tflite_file import NAME, with_offline_plan
from memplace_env.backends.export.tflite_offsets import tensor_count
from memplace_env.placement.compiler import native_plan, place_levels
from memplace_env.placement.compiler.density import density_greedy
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.task import Task
from memplace_env.program.blocks import aligned
from memplace_env.program.program import TensorKind
from memplace_env.program.slicing import sliced
from tests.by_hand import machine
from tests.program.tflite.writer import T, load_bytes, op, write

NETWORKS = networks() / "vela-more"

Where = dict[str, tuple[int, int, int]]
"""Blocks by name of a tensor: offset, first and last op of its block in fast memory."""


def metadata_in(data: bytes) -> list[int]:
    """The numbers of the one offline plan in a file."""
    root = tflite.Model.GetRootAs(data, 0)
    (entry,) = [root.Metadata(i) for i in range(root.MetadataLength()) if root.Metadata(i).Name() == NAME]
    buffer = root.Buffers(entry.Buffer())
    content = buffer.DataAsNumpy().tobytes()
    assert data.index(content) % 16 == 0, "aligned, as other buffers are"
    return list(np.frombuffer(content, "<i4").tolist())


def said(table: Any) -> Any:
    """All that a table of the schema says, by its accessors, vectors and tables within it included."""
    if isinstance(table, np.ndarray):
        return table.tolist()
    if not type(table).__module__.startswith("tflite."):
        return table
    found: dict[str, Any] = {}
    for name in dir(type(table)):
        if (
            name[0] == "_"
            or name.startswith(("GetRoot", "Init"))
            or name.endswith(("HasIdentifier", "AsNumpy", "IsNone"))
        ):
            continue
        if f"{name}Length" in dir(type(table)):
            length = getattr(table, f"{name}Length")()
            numbers = f"{name}AsNumpy"
            if hasattr(table, numbers):
                found[name] = said(getattr(table, numbers)()) if length else []
            else:
                found[name] = [said(getattr(table, name)(i)) for i in range(length)]
        elif isinstance(value := getattr(table, name)(), flatbuffers.table.Table):
            found[name] = "a union"
        else:
            found[name] = said(value)
    return found


def require_the_same_model(before: bytes, after: bytes) -> None:
    """Only one more buffer and one more entry of the metadata."""
    old, new = (said(tflite.Model.GetRootAs(data, 0)) for data in (before, after))
    assert new["Buffers"][:-1] == old["Buffers"]
    assert new["Metadata"][:-1] == [entry for entry in old["Metadata"] if entry["Name"] != NAME]
    assert new["Metadata"][-1] == {"Name": NAME, "Buffer": len(old["Buffers"])}
    changed = {"Buffers", "BuffersLength", "Metadata", "MetadataLength"}
    assert {key: new[key] for key in new if key not in changed} == {key: old[key] for key in old if key not in changed}
    assert before in after, "operators' options too"


def blocks_of(task: Task, plan: MemoryPlan) -> Where:
    """The blocks in fast memory of tensors that have one there."""
    rows = [row for row in plan.allocations.tolist() if row[1] == 0]
    return {task.program.tensor_name[tensor]: (offset, start, end) for tensor, _, offset, start, end in rows}


def require_nothing_is_lost(data: bytes, offsets: list[int]) -> None:
    """Every operator finds in the arena what was written there, run in the file's order, results before operands."""
    graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    size, root = {}, {}
    for index in range(graph.TensorsLength()):
        tensor = graph.Tensors(index)
        width = {"INT8": 1, "UINT8": 1, "INT16": 2, "INT32": 4, "FLOAT32": 4, "INT64": 8}
        names = {value: key for key, value in vars(tflite.TensorType).items() if isinstance(value, int)}
        size[index] = int(np.prod(tensor.ShapeAsNumpy())) * width[names[tensor.Type()]]
        root[index] = index
    arena = np.full(max(offsets) + max(size.values()) + 1, -1)

    def check(index: int) -> None:
        if index >= 0 and offsets[index] >= 0:
            assert (arena[offsets[index] :][: size[index]] == root[index]).all(), f"tensor {index} is overwritten"

    for index in graph.InputsAsNumpy().tolist():
        if offsets[index] >= 0:
            arena[offsets[index] :][: size[index]] = root[index]
    for number in range(graph.OperatorsLength()):
        call = graph.Operators(number)
        inputs, outputs = call.InputsAsNumpy().tolist(), call.OutputsAsNumpy().tolist()
        for index in outputs:
            if offsets[index] >= 0:
                for source in inputs:
                    in_place = source >= 0 and offsets[index] == offsets[source]
                    if in_place and root[source] in arena[offsets[index] :][: size[index]]:
                        assert size[index] == size[source]
                        root[index] = root[source]
                arena[offsets[index] :][: size[index]] = root[index]
        for index in inputs + outputs:
            check(index)
    for index in graph.OutputsAsNumpy().tolist():
        check(index)


def plans(task: Task) -> Iterator[MemoryPlan]:
    """Plans of a careful compiler, and everything asked into fast memory."""
    yield density_greedy(task)
    yield place_levels(task, np.zeros(task.program.num_tensors, dtype=np.int64)).plan


@pytest.mark.parametrize(
    ("name", "fusion"),
    [("resnet8", "none"), ("resnet8", "epilogue"), ("ds_cnn", "conv"), ("unet", "none"), ("mobilenet_v3s", "epilogue")],
)
def test_networks(name: str, fusion: str) -> None:
    path = NETWORKS / f"{name}.tflite"
    data = path.read_bytes()
    task = resolve_task(str(path), "ethos-u65", fusion=fusion)
    graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    names = [graph.Tensors(index).Name().decode() for index in range(graph.TensorsLength())]
    for plan in plans(task):
        written, offline = with_offline_plan(data, task, plan)
        version, subgraph, count, *offsets = metadata_in(written)
        assert (version, subgraph, count) == (1, 0, len(names)) == (1, 0, len(offsets))
        assert offsets == list(offline.offsets)
        blocks = blocks_of(task, plan)
        number = {name: tensor for tensor, name in enumerate(task.program.tensor_name)}
        for tensor_name, offset in zip(names, offsets, strict=True):
            tensor = number.get(tensor_name)
            if tensor is None:
                continue
            if tensor_name in blocks and task.program.tensor_kind[tensor] == TensorKind.ACTIVATION:
                assert offset == (blocks[tensor_name][0] if blocks[tensor_name][0] % 16 == 0 else -1)
            else:
                assert offset == -1
        assert offline.planned >= 4
        require_nothing_is_lost(written, offsets)
        again = load_bytes(written, fusion=fusion, in_place=task.accelerator.inplace)
        assert aligned(again, task.program.alignment).sha256 == task.program.sha256
    require_the_same_model(data, written)


@pytest.mark.parametrize("name", ["resnet8", "unet"])
def test_aligned_plans_with_inputs_and_outputs_lose_no_tensor(name: str) -> None:
    path = NETWORKS / f"{name}.tflite"
    data, graph = path.read_bytes(), tflite.Model.GetRootAs(path.read_bytes(), 0).Subgraphs(0)
    task = resolve_task(str(path), "ethos-u65", fusion="none", alignment=16, io_level="any")
    ends = [graph.Tensors(index).Name().decode() for index in (graph.Inputs(0), graph.Outputs(0))]
    for plan in plans(task):
        _, offline = with_offline_plan(data, task, plan)
        blocks = blocks_of(task, plan)
        assert "unaligned" not in offline.left
        require_nothing_is_lost(data, list(offline.offsets))
        for index, of_end in ((graph.Inputs(0), ends[0]), (graph.Outputs(0), ends[1])):
            assert offline.offsets[index] == blocks.get(of_end, (-1,))[0]


IMAGE, FLAT = T([1, 4, 4, 16]), T([1, 256])
NAMES = ("x", "a", "r", "s", "b", "c", "d", "dead", "y")
VIEWS = write(
    [
        op("LOGISTIC", "x", "a"),  # op 0 of the program
        op("RESHAPE", "a", "r"),
        op("SQUEEZE", "a", "s"),
        op("LOGISTIC", "r", "b"),  # op 1
        op("LOGISTIC", "s", "c"),  # op 2
        op("ADD", "b c", "d"),  # op 3
        op("LOGISTIC", "a", "dead"),
        op("ADD", "d x", "y"),  # op 4
    ],
    dict(zip(NAMES, (IMAGE, IMAGE, FLAT, FLAT, FLAT, FLAT, FLAT, IMAGE, FLAT), strict=True)),
)


def views_task() -> Task:
    """`VIEWS` on a chip with room for everything."""
    fast, slow = machine().levels
    return make_task(load_bytes(VIEWS, fusion="none"), machine(levels=(replace(fast, capacity_bytes=4096), slow)))


def planned(task: Task, *copies: tuple[str, int, int], **blocks: tuple[int, int, int]) -> MemoryPlan:
    """A plan with these tensors in fast memory, by name: offset, first and last op; copies into it: first, last op."""
    number = {name: tensor for tensor, name in enumerate(task.program.tensor_name)}
    use_level = np.ones(task.program.num_uses, dtype=np.int64)
    for name in blocks:
        use_level[task.program.use_tensor == number[name]] = 0
    for name, _, last in copies:
        use_level[(task.program.use_tensor == number[name]) & (task.program.use_op <= last)] = 1
    rows = [[number[name], 0, *block] for name, block in blocks.items()]
    trips = [[number[name], 1, 0, first, last] for name, first, last in copies]
    return task.make_plan(use_level, np.array(rows).reshape(-1, 5), np.array(trips).reshape(-1, 5))


def exported(task: Task, plan: MemoryPlan) -> tuple[dict[str, int], dict[str, int]]:
    """Offsets by name of those that have one, and why others have none."""
    written, offline = with_offline_plan(VIEWS, task, plan)
    require_nothing_is_lost(written, list(offline.offsets))
    named = zip(NAMES, offline.offsets, strict=True)
    return {name: offset for name, offset in named if offset >= 0}, dict(offline.left)


def test_a_view_in_place_shares_the_offset_and_others_do_not() -> None:
    task = views_task()
    offsets, left = exported(task, planned(task, a=(256, 0, 2), b=(512, 1, 3), c=(0, 2, 3)))
    assert offsets == {"a": 256, "r": 256, "b": 512, "c": 0}
    assert left == {"not in the plan": 2, "elsewhere": 3}


def test_slices_are_refused() -> None:
    task = views_task()
    program = replace(
        task.program, tensor_rows=np.stack([np.ones_like(task.program.tensor_bytes), task.program.tensor_bytes], 1)
    )
    cut = make_task(sliced(program, 100), task.accelerator)
    assert cut.program.slices is not None
    with pytest.raises(PlanError, match="places slices of tensors, and TensorFlow Lite Micro gives each tensor one"):
        with_offline_plan(VIEWS, cut, native_plan(cut))


def test_an_operator_that_the_plan_leaves_out_keeps_a_tensor_alive() -> None:
    """Nobody reads `dead`, so the plan gives the bytes of a to d; but the runtime runs it, and after d was made."""
    task = views_task()
    offsets, left = exported(task, planned(task, a=(0, 0, 2), b=(256, 1, 3), d=(0, 3, 4)))
    assert offsets == {"a": 0, "r": 0, "b": 256}
    assert left["conflict"] == 1


def test_an_input_has_an_offset_only_if_its_block_is_there_from_the_start() -> None:
    task = views_task()
    assert exported(task, planned(task, ("x", 0, 0), x=(16, 0, 4)))[0] == {"x": 16}
    late = planned(task, ("x", 1, 2), x=(16, 1, 4), b=(512, 1, 3))
    assert exported(task, late)[0] == {"b": 512}


def test_an_input_that_is_read_late_is_there_from_the_start_too() -> None:
    ops = [op("LOGISTIC", "x", "a"), op("LOGISTIC", "a", "b"), op("ADD", "b z", "y")]
    data = write(ops, dict.fromkeys("xzaby", FLAT), inputs="x z")
    fast, slow = machine().levels
    task = make_task(load_bytes(data, fusion="none"), machine(levels=(replace(fast, capacity_bytes=4096), slow)))
    for first, expected in ((0, 512), (1, -1)):
        plan = planned(task, ("z", first, 1), z=(512, first, 2), a=(0, 0, 1))
        assert with_offline_plan(data, task, plan)[1].offsets == (-1, expected, 0, -1, -1)


def test_a_result_that_leaves_fast_memory_early_has_no_offset() -> None:
    task = views_task()
    plan = planned(task, a=(256, 0, 1), b=(512, 1, 3))
    a, last_read = task.program.tensor_name.index("a"), 2
    use_level = plan.use_level.copy()
    use_level[(task.program.use_tensor == a) & (task.program.use_op == last_read)] = 1
    saved = replace(plan, use_level=use_level, transfers=np.array([[a, 0, 1, 1, 1]]))
    assert exported(task, saved)[0] == {"b": 512}


def test_offsets_are_multiples_of_16() -> None:
    task = views_task()
    offsets, left = exported(task, planned(task, a=(8, 0, 2), b=(512, 1, 3)))
    assert offsets == {"b": 512}
    assert left["unaligned"] == 2


def test_a_plan_of_which_nothing_is_left_is_refused() -> None:
    task = views_task()
    with pytest.raises(PlanError, match=r"2 not in the plan, 5 elsewhere, 2 unaligned"):
        with_offline_plan(VIEWS, task, planned(task, a=(8, 0, 2)))


def test_a_plan_that_cannot_run_is_refused() -> None:
    task = views_task()
    with pytest.raises(PlanError, match="cannot run"):
        with_offline_plan(VIEWS, task, planned(task, a=(0, 0, 1)))


def test_a_plan_for_other_types_is_refused() -> None:
    floats = write([op("LOGISTIC", "x", "a"), op("LOGISTIC", "a", "y")], dict.fromkeys("xay", T([64], "FLOAT32")))
    task = make_task(load_bytes(floats, fusion="none", dtype="int8"), machine())
    with pytest.raises(PlanError, match="'x' has 64 bytes in the plan and 256 in the file"):
        with_offline_plan(floats, task, planned(task, a=(0, 0, 1)))


def test_an_older_plan_is_replaced() -> None:
    task = views_task()
    first, _ = with_offline_plan(VIEWS, task, planned(task, b=(512, 1, 3)))
    second, offline = with_offline_plan(first, task, planned(task, b=(16, 1, 3)))
    assert metadata_in(second)[3:] == list(offline.offsets)
    require_the_same_model(first, second)
    assert load_bytes(second, fusion="none").sha256 == task.program.sha256


def test_variables_outlive_an_inference() -> None:
    tensors = {
        "x": T([1, 16]), "f": T([16, 16]), "h": T([16, 4]), "state": T([1, 64], variable=True), "z": T([1, 16]),
        "y": T([1, 16]),
    }  # fmt: skip
    data = write([op("SVDF", "x f h _ state", "z"), op("LOGISTIC", "z", "y")], tensors)
    fast, slow = machine().levels
    task = make_task(load_bytes(data, fusion="none"), machine(levels=(replace(fast, capacity_bytes=4096), slow)))
    assert "state" in task.program.tensor_name
    kept = planned(task, ("state", 0, 0), z=(0, 0, 1), state=(256, 0, 1))
    _, offline = with_offline_plan(data, task, kept)
    assert dict(zip(tensors, offline.offsets, strict=True)) == dict.fromkeys(tensors, -1) | {"z": 0}


def test_files_of_over_two_gigabytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their buffers say where in the file they lie, counted from its start."""
    task = views_task()
    monkeypatch.setattr(tflite.Buffer, "Offset", lambda self: 2**31)
    with pytest.raises(WorkloadError, match="after its tables"):
        with_offline_plan(VIEWS, task, planned(task, b=(512, 1, 3)))


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"\x10\0\0\0TFL3"])
def test_tensors_of_a_damaged_file_are_not_counted(data: bytes) -> None:
    with pytest.raises(WorkloadError, match="get the file again"):
        tensor_count(data)


def test_damaged_files_are_refused_or_written_whole() -> None:
    """Bytes of the buffers and the metadata, which reading the graph alone does not look at."""
    task = views_task()
    plan = planned(task, b=(512, 1, 3))
    file, _ = with_offline_plan(VIEWS, task, plan)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        damaged = bytearray(file)
        for place in rng.integers(0, len(file), 3):
            damaged[place] = rng.integers(256)
        try:
            written, _ = with_offline_plan(bytes(damaged), task, plan)
        except MemPlaceError:
            refused += 1
        else:
            assert bytes(damaged) in written
    assert 0 < refused < 200

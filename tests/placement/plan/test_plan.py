"""MemoryPlan as a file: exact round trip, whole files only, one sentence for each way to be broken."""

import json
import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import PlanError
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from tests.by_hand import all_fast, three_op_task
from tests.strategies import tasks, tensor_levels

GOOD = all_fast(three_op_task())


@given(tasks(), st.data())
def test_json_round_trip(task, data):
    plan = place_levels(task, data.draw(tensor_levels(task))).plan
    assert MemoryPlan.from_json(plan.to_json()) == plan


def test_save_and_load(tmp_path):
    path = GOOD.save(tmp_path / "new" / "plan.json")
    assert MemoryPlan.load(path) == GOOD
    assert [file.name for file in path.parent.iterdir()] == ["plan.json"]


@given(st.integers(0, len(GOOD.to_json()) - 3))
def test_truncated_plans_are_refused(length):
    with pytest.raises(PlanError):
        MemoryPlan.from_json(GOOD.to_json()[:length])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d.update(schema=2), "schema"),
        (lambda d: d.update(schema=True), "schema"),
        (lambda d: d.update(schema=1.0), "schema"),
        (lambda d: d.update(program="a\x1b[2J"), "'program' is missing or not a line"),
        (lambda d: d.update(accelerator="a" * 5000), "'accelerator' is missing or not a line"),
        (lambda d: d["settings"].update(dtype="\a"), "setting 'dtype'"),
        (lambda d: d["settings"].update(batch=2**63), "setting 'batch'"),
        (lambda d: d["settings"].update(dims={"a": {"b": 1}}), "setting 'dims'"),
        (lambda d: d["settings"].update({"\x1b": 1}), "setting"),
        (lambda d: d.pop("program_sha256"), "program_sha256"),
        (lambda d: d.update(accelerator=3), "accelerator"),
        (lambda d: d.update(settings=[]), "settings"),
        (lambda d: d.update(use_level="fast"), "use_level"),
        (lambda d: d["use_level"].append(0.5), "use_level"),
        (lambda d: d["use_level"].append(True), "use_level"),
        (lambda d: d["use_level"].append(1000), "use_level"),
        (lambda d: d.pop("allocations"), "allocations"),
        (lambda d: d["allocations"][1].pop("offset"), r"allocations\[1\]"),
        (lambda d: d["allocations"][1].update(offset=2**63), "allocations"),
        (lambda d: d["transfers"][0].update(colour=1), r"transfers\[0\]"),
        (lambda d: d["transfers"].append(None), r"transfers\[2\]"),
    ],
)
def test_wrong_fields_are_named(change, sentence):
    document = json.loads(GOOD.to_json())
    change(document)
    with pytest.raises(PlanError, match=sentence):
        MemoryPlan.from_json(json.dumps(document))


def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "list").write_text("[1]")
    for path in (tmp_path, tmp_path / "absent", tmp_path / "binary", tmp_path / "list"):
        with pytest.raises(PlanError, match="plan"):
            MemoryPlan.load(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"schema": ' + "1" * 5000 + "}", "too many digits"),
        ("[" * 100_000, "nested too deeply"),
        ('{"schema": 1, "schema": 1}', "'schema' occurs twice in it"),
        ('{"schema": NaN}', "NaN is not a number"),
    ],
)
def test_json_that_is_none(text, sentence):
    with pytest.raises(PlanError, match=sentence):
        MemoryPlan.from_json(text)


def test_only_regular_files_below_a_size_are_read(tmp_path, monkeypatch):
    path = GOOD.save(tmp_path / "plan.json")
    monkeypatch.setattr("memplace_env.placement.memory_plan.FILE_BYTES", path.stat().st_size - 1)
    with pytest.raises(PlanError, match=r"Cannot read the plan .*plan\.json: it has .*; the limit is .*; pass"):
        MemoryPlan.load(path)
    with pytest.raises(PlanError, match="it is a device, not a regular file"):
        MemoryPlan.load("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PlanError, match="it is a pipe, not a regular file"):
        MemoryPlan.load(tmp_path / "pipe")
    with pytest.raises(PlanError, match="null"):
        MemoryPlan.load("a\0b")


def test_a_strange_name_is_saved_so_that_it_can_be_loaded():
    task = three_op_task()
    named = replace(task, program=replace(task.program, name="a\x1b[2J" + "b" * 9000))
    plan = named.make_plan(GOOD.use_level, GOOD.allocations)
    assert MemoryPlan.from_json(plan.to_json()) == plan

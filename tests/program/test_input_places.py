"""Outputs that are written in the place of an input, as a decoder's caches are: `aliases` of ONNX models."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from memplace_env._lib.errors import MemPlaceError, WorkloadError
from memplace_env.backends.ort import Executor
from memplace_env.cli.model_flags import ModelFlags
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.validation import violations
from memplace_env.program.program import Program
from tests.backends.ort.models import FLOAT, normal, written
from tests.offenders import every
from tests.program.models import load, node
from tests.thorough import examples

LONG, ROWS, WIDTH = 64, 4, 8
CACHE, NEW = 4 * LONG * WIDTH, 4 * ROWS * WIDTH
TYPES = {"at": TensorProto.INT64}
INPUTS = {"past": [LONG, WIDTH], "at": [ROWS, 1], "new": [ROWS, WIDTH]}
UPDATE = node("ScatterND", "past at new", "present")


def loaded(*nodes, outputs="present", at=(ROWS, 1), **settings) -> Program:
    return load([*nodes], {**INPUTS, "at": at}, outputs, **{"aliases": {"present": "past"}, "types": TYPES, **settings})


def moved(program: Program, *names: str) -> list[int]:
    return [int(program.use_bytes[program.use_tensor == program.tensor_name.index(name)].sum()) for name in names]


@every("fusion", ["none", "epilogue"])
@every(("reduction", "old"), [("none", 4), ("add", NEW)])
def test_an_update_moves_its_rows_only(fusion, reduction, old):
    program = loaded(node("ScatterND", "past at new", "present", reduction=reduction), fusion=fusion)
    assert moved(program, "past", "new", "present") == [old, NEW, NEW]
    assert program.tensor_name[program.alias_of.max()] == "past"


@every(("name", "opset"), [("ScatterElements", 20), ("Scatter", 9)])
def test_other_operators_update_too(name, opset):
    program = loaded(node(name, "past at new", "present", axis=0), at=[ROWS, WIDTH], opset=opset)
    assert moved(program, "past", "present") == [4, NEW]


def test_whole_results_take_a_place_and_move_all():
    """Also where two updates follow each other: that the first lies in place is up to the plan."""
    twice = [node("ScatterND", "past at new", "inner"), node("ScatterND", "inner at new", "present")]
    for nodes in ([node("Relu", "past", "present")], twice):
        program = loaded(*nodes)
        assert (program.alias_of >= 0).sum() == 1
        assert moved(program, "past") == [CACHE]


@every(
    ("nodes", "said"),
    [
        ([UPDATE, node("Sum", "past present", "y")], "the op 'n_y' still reads"),
        ([node("CumSum", "past axis", "present")], "the op 'n_present' still reads"),
        ([node("ScatterND", "past at past", "present")], "the op 'n_present' still reads"),
        ([node("Slice", "past begin end", "present")], "other bytes"),
        ([node("Reshape", "past shape", "present")], "not computed"),
    ],
)
def test_what_is_still_read_keeps_its_place(nodes, said):
    constants = {"axis": np.array(0), "begin": np.zeros(2, int), "end": np.full(2, 8), "shape": np.array([WIDTH, LONG])}
    outputs = " ".join(node.output[0] for node in nodes)
    with pytest.raises(WorkloadError, match=said):
        loaded(*nodes, outputs=outputs, at=(LONG, 1), constants=constants)


@every(
    ("aliases", "said"),
    [
        ({"present*": "past"}, "one \\* in the output"),
        ({"presnt": "past"}, "no output 'presnt'; did you mean 'present'"),
        ({"x*": "past*"}, "no output"),
        ({"*present": "*pst"}, "no input 'pst'; did you mean 'past'"),
        ({"present": "y"}, "no input"),
        ({"present": "past", "y": "past"}, "to two outputs"),
    ],
)
def test_names_that_do_not_fit(aliases, said):
    with pytest.raises(WorkloadError, match=said):
        loaded(UPDATE, node("Neg", "new", "y"), outputs="present y", aliases=aliases)


def test_a_pattern_pairs_all_caches():
    nodes = [node("ScatterND", f"past.{n}.k at new", f"present.{n}.k") for n in (0, 1)]
    inputs = {"past.0.k": [LONG, WIDTH], "past.1.k": [LONG, WIDTH], **INPUTS}
    program = load(nodes, inputs, "present.0.k present.1.k", types=TYPES, aliases={"present.*": "past.*"})
    assert moved(program, "past.0.k", "past.1.k") == [4, 4]


def decoder(path: Path, rows: list[int]) -> Path:
    """A decoder's step: keys of new tokens go into a cache that is read at once."""
    constants = {"w": normal(np.random.default_rng(1), WIDTH, WIDTH), "at": np.array(rows)[:, None]}
    steps = [("MatMul", "x w", "new"), ("ScatterND", "past at new", "present"), ("Transpose", "present", "turned"),
             ("MatMul", "x turned", "scores"), ("Softmax", "scores", "y")]  # fmt: skip
    nodes = [node(*step) for step in steps]
    inputs = {"x": (FLOAT, [len(rows), WIDTH]), "past": (FLOAT, [LONG, WIDTH])}
    return written(path, nodes, inputs, {"y": (FLOAT, [len(rows), LONG]), "present": (FLOAT, [LONG, WIDTH])}, constants)


@given(st.lists(st.integers(0, LONG - 1), min_size=1, max_size=9, unique=True))
@examples(10)
def test_a_cache_is_updated_in_its_place(tmp_path_factory, rows):
    path = decoder(tmp_path_factory.mktemp("decoder") / "net.onnx", rows)
    apart, task = (resolve_task(str(path), aliases=aliases) for aliases in (None, {"present": "past"}))
    plan = native_plan(task)
    assert not violations(task, plan)
    executor = Executor(task)
    past, present = (
        executor._layout.behind(plan)[task.program.tensor_name.index(name)] for name in ("past", "present")
    )
    assert past == present
    assert executor.run(plan, inferences=2).right
    assert moved(task.program, "past") == [1] < moved(apart.program, "past")
    assert moved(task.program, "present") == [(len(rows) + LONG) * WIDTH], "its rows are written, all of it is read"
    assert task.program.footprint < apart.program.footprint


def test_a_plan_makes_its_program_again(tmp_path):
    path = str(decoder(tmp_path / "net.onnx", [3]))
    task = ModelFlags.parse(alias=["present=past"]).task(path)
    plan = native_plan(task)
    assert plan.settings["aliases"] == {"present": "past"}
    assert ModelFlags().with_defaults_of(plan).task(path).program.sha256 == task.program.sha256
    for wrong in (["present"], ["present="], ["a=b=c"], ["a=b", "a=c"]):
        with pytest.raises(MemPlaceError, match="--alias takes OUTPUT=INPUT"):
            ModelFlags.parse(alias=wrong)
    for names in ([1], {"present": 1}):
        with pytest.raises(WorkloadError, match="aliases are a dictionary"):
            resolve_task(path, aliases=names)  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="aliases cannot apply"):
        resolve_task(task.program, aliases={"present": "past"})

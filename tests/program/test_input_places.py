"""Outputs that are written in the place of an input, as a decoder's caches are: `aliases` of ONNX models."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

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


def loaded(*nodes, outputs="present", **settings) -> Program:
    return load([*nodes], INPUTS, outputs, types=TYPES, aliases={"present": "past"}, **settings)


def moved(program: Program, *names: str) -> list[int]:
    return [int(program.use_bytes[program.use_tensor == program.tensor_name.index(name)].sum()) for name in names]


@every("fusion", ["none", "epilogue"])
@every(("reduction", "old"), [("none", 4), ("add", NEW)])
def test_an_update_moves_its_rows_only(fusion, reduction, old):
    program = loaded(node("ScatterND", "past at new", "present", reduction=reduction), fusion=fusion)
    assert moved(program, "past", "new", "present") == [old, NEW, NEW]
    assert program.tensor_name[program.alias_of.max()] == "past"


def test_other_operators_update_too():
    inputs = {**INPUTS, "at": [ROWS, WIDTH]}
    for name in ("ScatterElements", "Scatter"):
        update = node(name, "past at new", "present", axis=0)
        program = load([update], inputs, "present", types=TYPES, aliases={"present": "past"},
                       opset=9 if name == "Scatter" else 20)  # fmt: skip
        assert moved(program, "past", "present") == [4, NEW], name


@every(
    ("nodes", "read"),
    [
        ([node("Neg", "past", "kept"), UPDATE], CACHE + 4),
        ([node("Relu", "past", "present")], CACHE),
        ([node("ScatterND", "past at new", "inner"), node("ScatterND", "inner at new", "present")], CACHE),
    ],
)
def test_whole_results_take_a_place_and_move_all(nodes, read):
    """Also where two updates follow each other: that the first lies in place is up to the plan."""
    outputs = "present kept" if len(nodes[0].input) == 1 and nodes[0].output[0] == "kept" else "present"
    program = loaded(*nodes, outputs=outputs)
    assert (program.alias_of >= 0).sum() == 1
    assert moved(program, "past") == [read]


@every(
    ("nodes", "said"),
    [
        ([UPDATE, node("Sum", "past present", "y")], "still reads"),
        ([node("ReduceMax", "past", "m", keepdims=0), node("Sum", "past m", "z"), UPDATE, node("Sum", "z past", "y")],
         "still reads"),
        ([node("CumSum", "past axis", "present"), node("Neg", "new", "y")], "the op 'n_present' still reads"),
        ([node("ScatterND", "past at past_rows", "present"), node("Neg", "new", "y")], None),
        ([node("Slice", "past begin end", "present"), node("Neg", "new", "y")], "other bytes"),
        ([node("Reshape", "past shape", "present"), node("Neg", "new", "y")], "not computed"),
    ],
)  # fmt: skip
def test_what_is_still_read_keeps_its_place(nodes, said):
    constants = {"axis": np.array(0), "begin": np.array([0, 0]), "end": np.array([9, 9]), "past_rows": (ROWS, WIDTH),
                 "shape": np.array([WIDTH, LONG])}  # fmt: skip
    if said is None:
        assert moved(loaded(*nodes, outputs="present y", constants=constants), "present") == [NEW]
        return
    with pytest.raises(WorkloadError, match=said):
        loaded(*nodes, outputs="present y", constants=constants)


def test_an_operand_that_is_read_twice_is_read_whole():
    """Its rows are the updates, too: they would be read where they have been overwritten."""
    with pytest.raises(WorkloadError, match="still reads"):
        load([node("ScatterND", "past at past", "present")], {"past": [4, 8], "at": [4, 1]}, "present",
             types=TYPES, aliases={"present": "past"})  # fmt: skip


PAIR = [node("ScatterND", f"past.{n}.k at new", f"present.{n}.k") for n in (0, 1)]
CACHES = {"past.0.k": [LONG, WIDTH], "past.1.k": [LONG, WIDTH], "at": [ROWS, 1], "new": [ROWS, WIDTH]}


@every(
    ("aliases", "said"),
    [
        ({"present.*": "past.*"}, None),
        ({"present.0.k": "past.1.k", "present.1.k": "past.0.k"}, "still reads"),
        ({"present.*": "past"}, "one \\* in the output"),
        ({"presnt.0.k": "past.0.k"}, "no output 'presnt.0.k'; did you mean 'present.0.k'"),
        ({"out.*": "past.*"}, "no output"),
        ({"present.*.k": "pst.*.k"}, "no input 'pst.0.k'; did you mean 'past.0.k'"),
        ({"present.0.k": "present.1.k"}, "no input"),
        ({"present.0.k": "past.0.k", "present.1.k": "past.0.k"}, "to two outputs"),
    ],
)
def test_names_and_patterns(aliases, said):
    def pair() -> Program:
        return load(PAIR, CACHES, "present.0.k present.1.k", types=TYPES, aliases=aliases)

    if said is None:
        program = pair()
        assert moved(program, "past.0.k", "past.1.k") == [4, 4]
        return
    with pytest.raises(WorkloadError, match=said):
        pair()


def decoder(path: Path, rows: list[int]) -> Path:
    """A decoder's step: keys of new tokens go into a cache that is read at once."""
    constants = {"w": normal(np.random.default_rng(1), WIDTH, WIDTH), "at": np.array(rows)[:, None]}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["new"], "keys"),
        helper.make_node("ScatterND", ["past", "at", "new"], ["present"], "update"),
        helper.make_node("Transpose", ["present"], ["turned"], "turn"),
        helper.make_node("MatMul", ["x", "turned"], ["scores"], "scores"),
        helper.make_node("Softmax", ["scores"], ["y"], "weights"),
    ]
    inputs = {"x": (FLOAT, [len(rows), WIDTH]), "past": (FLOAT, [LONG, WIDTH])}
    return written(path, nodes, inputs, {"y": (FLOAT, [len(rows), LONG]), "present": (FLOAT, [LONG, WIDTH])}, constants)


@given(st.lists(st.integers(0, LONG - 1), min_size=1, max_size=9, unique=True))
@examples(10)
def test_a_cache_is_updated_in_its_place(tmp_path_factory, rows):
    path = decoder(tmp_path_factory.mktemp("decoder") / "net.onnx", rows)
    apart, task = (resolve_task(str(path), aliases=aliases) for aliases in (None, {"present": "past"}))
    plan = native_plan(task)
    assert not violations(task, plan)
    assert Executor(task).run(plan, inferences=2).right
    assert moved(task.program, "past") < moved(task.program, "present") < moved(apart.program, "past")
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

"""Measured costs: equal to exact fractions, number by number; keys that differ where ops do."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import CostError, WorkloadError
from memplace_env.machine.accelerator import MeasuredTimes
from memplace_env.machine.accelerator.schema import MAX_KEY
from memplace_env.machine.costs import Costs, Measured, op_key
from memplace_env.placement.compiler import all_backing, native_plan
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import GEOMETRY, TensorKind
from memplace_env.testing import check_cost_model
from tests.by_hand import NS, all_fast, machine, three_ops
from tests.offenders import every
from tests.references.reference_costs import measured
from tests.strategies import accelerators, programs, programs_with_idle_ops
from tests.thorough import examples

COPY = 3 * NS


def keys(program):
    return [op_key(program, op) for op in range(program.num_ops)]


def timed(chip, program, latency_ps=COPY):
    """The chip with a time for each op of the program: 1 us, and 1 ns more for each other op before it."""
    times = {key: NS * (1000 + index) for index, key in enumerate(dict.fromkeys(keys(program)))}
    return replace(chip, measured=MeasuredTimes(latency_ps, times))


@examples(200)
@given(programs_with_idle_ops(), accelerators(), st.sampled_from([0, 1, 12_345]))
def test_arrays_equal_the_reference(program, chip, latency_ps):
    chip = timed(chip, program, latency_ps)
    costs, expected = Measured().costs(program, chip), measured(program, chip)
    for field in Costs._fields:
        assert np.array_equal(getattr(costs, field), getattr(expected, field)), field


@given(programs(), accelerators())
def test_it_keeps_to_the_contract(program, chip):
    check_cost_model("measured", program, timed(chip, program))


def test_plans_by_hand():
    """Ops take 1000, 1001 and 1002 ns; the bus 1 ns for each byte and 3 ns for each copy."""
    program = three_ops()
    chip = replace(timed(machine(), program), cost_model="measured")
    task = make_task(program, chip)
    everything = [1000 + 13 + 23, 1001 + 23 + 33, 1002 + 33 + 43 + 13]
    assert evaluate_plan(task, all_backing(task)).op_time_ps.tolist() == [NS * time for time in everything]
    report = evaluate_plan(task, all_fast(task))
    assert report.op_time_ps.tolist() == [1_013_001, 1_001_002, 1_002_003], "a picosecond for each use of fast memory"
    assert report.latency_ps - report.op_time_ps.sum() == 13 * NS, "the output is brought back behind the last op"
    assert evaluate_plan(task, native_plan(task)).energy_j == 0


def test_ops_that_were_not_measured_are_named():
    program, chip = three_ops(), machine()
    with pytest.raises(CostError, match=r"^Accelerator 'plain' has no measured time of op 0 \(.*'A int8 1x50x1x1 MAC"):
        Measured().costs(program, chip)
    other = timed(chip, program)
    del other.measured.op_ps[op_key(program, 1)]
    with pytest.raises(CostError, match=r"op 1 .*'three': run `memplace calibrate --device cuda --model MODEL`"):
        Measured().costs(program, other)


def test_unsupported_dtypes_are_refused():
    program = replace(three_ops(), dtype="float32")
    with pytest.raises(WorkloadError, match=r"no float32 unit.*'int8'"):
        Measured().costs(program, timed(machine(), program))
    with pytest.raises(WorkloadError, match="whose dtype is fixed"):
        make_task(program, timed(machine(), program), costs="measured")


# Keys


def one_op(op_type="Conv", dtype="float32", macs=(1, 2, 3, 4), vector=5, sizes=(8, 24, 16), used=8, kernel=3, name="x"):
    builder = ProgramBuilder(name, dtype)
    first, second = (builder.tensor(f"{name}{size}", size, TensorKind.WEIGHT) for size in sizes[:2])
    result = builder.tensor(f"{name} made", sizes[2], TensorKind.OUTPUT)
    builder.op(op_type, [first, second], [result], gemm=macs, vector_ops=vector, name=name)
    program = builder.build()
    geometry = np.zeros((1, len(GEOMETRY)), dtype=np.int64)
    geometry[0, GEOMETRY.index("kernel_x")] = kernel
    return replace(program, geometry=geometry, use_bytes=np.array([used, *sizes[1:]]))


def test_a_key_can_be_read():
    assert op_key(one_op(), 0) == "Conv float32 1x2x3x4 MAC 5 vec 8+24>16 B 0:0x0x0:0x0x0:0:3x0:0:0:0:0"
    assert op_key(one_op(used=4, macs=(0, 0, 0, 0), kernel=0), 0) == "Conv float32 5 vec 4/8+24>16 B"


def test_names_and_positions_take_no_part():
    program = three_ops()
    assert op_key(one_op(name="y"), 0) == op_key(one_op(), 0)
    renamed = replace(program, op_name=("x", "y", "z"), tensor_name=tuple("abcde"), name="other")
    assert keys(renamed) == keys(program)


@every(
    "change",
    [
        {"op_type": "Gemm"},
        {"dtype": "float16"},
        {"macs": (1, 2, 4, 3)},
        {"vector": 6},
        {"sizes": (8, 16, 24)},
        {"sizes": (8, 32, 16)},
        {"sizes": (9, 24, 16)},
        {"used": 7},
        {"kernel": 5},
    ],
)
def test_whatever_else_a_program_says_tells_ops_apart(change):
    assert op_key(one_op(**change), 0) != op_key(one_op(), 0)


@given(st.text("ab\"\\é'", min_size=1, max_size=190))
def test_keys_are_lines_of_bounded_length(op_type):
    key, other = op_key(one_op(op_type), 0), op_key(one_op(op_type, sizes=(8, 24, 17)), 0)
    assert len(key) <= MAX_KEY
    assert key.isprintable()
    assert key != other


@pytest.mark.parametrize(("model", "most"), [("ResNet50", 31), ("BERT", 29)])
def test_networks_repeat_their_ops(model, most):
    program = resolve_task(model, "nnp-i", costs="roofline", dtype="float16", patterns="off", fusion="conv").program
    assert len(set(keys(program))) == most < program.num_ops

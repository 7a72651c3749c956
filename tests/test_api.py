"""The public functions that take a program and a chip: what their counterparts say of the task."""

import numpy as np
import pytest

import memplace_env
from memplace_env.compiler import native_plan, place_mapping
from memplace_env.compiler.schedule import ORDERS
from memplace_env.errors import AcceleratorError, ActionError, MemPlaceError, PlanError, WorkloadError
from memplace_env.plan import violations
from memplace_env.simulator import BuiltinSimulator, judge_plan
from tests.by_hand import all_fast, machine, three_op_task, three_ops

PROGRAM, CHIP = three_ops(), machine()


def test_validate_finds_what_the_validator_finds():
    good = all_fast(three_op_task())
    assert memplace_env.validate(PROGRAM, CHIP, good) == []
    other = machine(weights="resident")
    assert memplace_env.validate(PROGRAM, other, good) == violations(three_op_task(weights="resident"), good) != []


def test_simulate_validates_and_judges():
    task = three_op_task()
    plan = all_fast(task)
    for simulator in (None, "builtin", BuiltinSimulator()):
        assert memplace_env.simulate(PROGRAM, CHIP, plan, simulator).latency_ps == judge_plan(task, plan).latency_ps
    with pytest.raises(PlanError, match="another program"):
        memplace_env.simulate(three_ops(work=9), CHIP, plan)


@pytest.mark.parametrize("order", ORDERS)
def test_compile_mapping_places(order):
    mapping = np.zeros(PROGRAM.num_tensors, dtype=np.int64)
    assert memplace_env.compile_mapping(PROGRAM, CHIP, mapping, order) == place_mapping(three_op_task(), mapping, order)
    with pytest.raises(ActionError, match="5 integers, one level for each tensor"):
        memplace_env.compile_mapping(PROGRAM, CHIP, mapping[1:], order)


def test_native_is_by_whoever_judges():
    class Slow(BuiltinSimulator):
        """Likes what others do not."""

        def run(self, program, accelerator, plan):
            report = super().run(program, accelerator, plan)
            return report.__class__(**{**vars(report), "latency_ps": 10**9 - report.latency_ps})

    assert memplace_env.native(PROGRAM, CHIP) == native_plan(three_op_task())
    plans = [place_mapping(three_op_task(), np.zeros(5, dtype=int), order).plan for order in ORDERS[:2]]
    slowest = max(plans, key=lambda plan: judge_plan(three_op_task(), plan).latency_ps)
    assert memplace_env.native(PROGRAM, CHIP, Slow()) == slowest


def test_a_plan_goes_through_a_file(tmp_path):
    plan = memplace_env.native(PROGRAM, CHIP)
    again = memplace_env.MemoryPlan.load(plan.save(tmp_path / "plan.json"))
    assert (
        memplace_env.simulate(PROGRAM, CHIP, again).latency_ps == memplace_env.simulate(PROGRAM, CHIP, plan).latency_ps
    )


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: memplace_env.resolve_task("BERTT"), WorkloadError),
        (lambda: memplace_env.resolve_workload("nothing.onnx"), WorkloadError),
        (lambda: memplace_env.load_accelerator("nnp-j"), AcceleratorError),
        (lambda: memplace_env.MemoryPlan.load("nothing.json"), PlanError),
    ],
)
def test_errors_are_one_sentence_each(call, error):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, MemPlaceError)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)

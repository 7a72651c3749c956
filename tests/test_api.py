"""The public functions that take a program and a chip: equal to their counterparts on the task."""

import re
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import memplace_env
from memplace_env._lib.errors import AcceleratorError, ActionError, CostError, MemPlaceError, PlanError, WorkloadError
from memplace_env.placement.compiler import native_plan, place_levels
from memplace_env.placement.compiler.placing_order import ORDERS
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.simulator import BuiltinSimulator, evaluate_plan
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.validation import violations
from tests.by_hand import all_fast, machine, three_op_task, three_ops
from tests.offenders import every

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
        assert memplace_env.simulate(PROGRAM, CHIP, plan, simulator).latency_ps == evaluate_plan(task, plan).latency_ps
    with pytest.raises(PlanError, match="another program"):
        memplace_env.simulate(three_ops(work=9), CHIP, plan)


@every("order", ORDERS)
def test_compile_mapping_places(order):
    levels = np.zeros(PROGRAM.num_tensors, dtype=np.int64)
    assert memplace_env.compile_levels(PROGRAM, CHIP, levels, order) == place_levels(three_op_task(), levels, order)
    with pytest.raises(ActionError, match="5 integers, one level for each tensor"):
        memplace_env.compile_levels(PROGRAM, CHIP, levels[1:], order)


def test_native_is_by_whoever_judges():
    class Slow(BuiltinSimulator):
        """Likes what others do not."""

        def run(self, program, accelerator, plan):
            report = super().run(program, accelerator, plan)
            return report.__class__(**{**vars(report), "latency_ps": 10**9 - report.latency_ps})

    assert memplace_env.native(PROGRAM, CHIP) == native_plan(three_op_task())
    plans = [place_levels(three_op_task(), np.zeros(5, dtype=int), order).plan for order in ORDERS[:2]]
    slowest = max(plans, key=lambda plan: evaluate_plan(three_op_task(), plan).latency_ps)
    assert memplace_env.native(PROGRAM, CHIP, Slow()) == replace(slowest, settings={"simulator": "Slow"})


def test_costs_that_are_computed_already_are_taken_everywhere():
    task = make_task(PROGRAM, CHIP, costs="roofline")
    costs = task.costs._replace(compute_ps=task.costs.compute_ps * 3)
    plan, tripled = all_fast(task), resolve_task(PROGRAM, CHIP, costs=costs)
    assert (tripled.costs.compute_ps == 3 * task.costs.compute_ps).all()
    assert memplace_env.validate(PROGRAM, CHIP, plan, costs=costs) == []
    slower = memplace_env.simulate(PROGRAM, CHIP, plan, costs=costs)
    assert slower.latency_ps == evaluate_plan(tripled, plan).latency_ps > evaluate_plan(task, plan).latency_ps
    assert memplace_env.native(PROGRAM, CHIP, costs=costs) == native_plan(tripled)
    levels = np.zeros(PROGRAM.num_tensors, dtype=np.int64)
    assert memplace_env.compile_levels(PROGRAM, CHIP, levels, costs=costs) == place_levels(tripled, levels)
    for formulation in ("MemPlace-v0", "MallocGame-v0"):
        env = gym.make(formulation, workload=PROGRAM, accelerator=CHIP, costs=costs).unwrapped
        assert (env.task.costs.compute_ps == costs.compute_ps).all()


def test_costs_of_another_program_are_refused_without_printing_them():
    costs = make_task(bigger := random_dag(3, ops=20, dtype=PROGRAM.dtype), CHIP).costs
    calls = [
        lambda: memplace_env.simulate(PROGRAM, CHIP, all_fast(three_op_task()), costs=costs),
        lambda: gym.make("MemPlace-v0", workload=PROGRAM, accelerator=CHIP, costs=costs),
        lambda: BuiltinSimulator(costs),
        lambda: gym.make("MemPlace-v0", workload=bigger, accelerator=CHIP, costs=list(costs)),
        lambda: gym.make("MemPlace-v0", workload=bigger, accelerator=CHIP, costs=costs.use_ps),
    ]
    sentences = [
        f"The costs: compute_ps must be int64[{PROGRAM.num_ops}], not int64[{bigger.num_ops}].",
        f"The costs: compute_ps must be int64[{PROGRAM.num_ops}], not int64[{bigger.num_ops}].",
        "Costs belong to one program on one chip",
        "an object of list is not a cost model",
        f"an array of shape ({bigger.num_uses}, 2) and dtype int64 is not a cost model",
    ]
    for call, sentence in zip(calls, sentences, strict=True):
        with pytest.raises(CostError, match=re.escape(sentence)) as caught:
            call()
        assert len(str(caught.value)) < 200


def test_a_plan_goes_through_a_file(tmp_path):
    plan = memplace_env.native(PROGRAM, CHIP)
    again = memplace_env.MemoryPlan.load(plan.save(tmp_path / "plan.json"))
    assert (
        memplace_env.simulate(PROGRAM, CHIP, again).latency_ps == memplace_env.simulate(PROGRAM, CHIP, plan).latency_ps
    )


@every(
    ("call", "error"),
    [
        (lambda: memplace_env.resolve_task("BERTT"), WorkloadError),
        (lambda: memplace_env.resolve_workload("nothing.onnx"), WorkloadError),
        (lambda: memplace_env.load_accelerator("nnp-j"), AcceleratorError),
        (lambda: memplace_env.load_accelerator(np.arange(3)), AcceleratorError),
        (lambda: memplace_env.MemoryPlan.load("nothing.json"), PlanError),
        (lambda: memplace_env.validate(PROGRAM, CHIP, np.zeros(3)), PlanError),
        (lambda: memplace_env.simulate(PROGRAM, CHIP, [0] * 3000), PlanError),
        (lambda: memplace_env.compile_levels(PROGRAM, CHIP, np.zeros(5, int), order=np.arange(3)), ActionError),
        (lambda: memplace_env.compile_levels(PROGRAM, CHIP, np.zeros(5, int), order="by-name"), ActionError),
    ],
)
def test_errors_are_one_sentence_each(call, error):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, MemPlaceError)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400

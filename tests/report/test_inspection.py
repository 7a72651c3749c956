"""A program's demands on a chip's memories add up, and agrees with the simulator."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from memplace_env._lib.errors import WorkloadError
from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.machine.costs import Costs, Roofline
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.simulator import Report
from memplace_env.placement.synthetic import planted, random_dag
from memplace_env.placement.task import Task
from memplace_env.program.program import Program
from memplace_env.report.inspection import inspect_task
from memplace_env.report.plans.evaluated_plan import all_backing_baseline
from tests.strategies import accelerators, programs, tasks
from tests.thorough import examples


def test_it_adds_up() -> None:
    program = random_dag(5, ops=20)
    values = inspect_task(make_task(program, load_accelerator("nnp-i")), ("batch",)).to_json()
    assert values["ops"] == 20 == sum(kind["ops"] for kind in values["op_types"])
    assert values["moved_bytes"] == program.use_bytes.sum()
    backing, fastest = values["extremes"]["backing"], values["extremes"]["fastest"]
    assert (backing["level"], fastest["level"]) == ("DRAM", "SRAM")
    assert backing["latency_s"] >= fastest["latency_s"] >= values["compute_s"]
    assert sum(kind["backing"]["memory_bound_ops"] for kind in values["op_types"]) == backing["memory_bound_ops"]
    assert 0 <= backing["memory_bound_share"] <= 1
    json.dumps(values, allow_nan=False)


@examples(40)
@given(programs(), accelerators())
def test_all_in_the_backing_memory_is_what_the_simulator_says(program: Program, chip: Accelerator) -> None:
    task = make_task(program, chip)
    backing, report = inspect_task(task).backing, all_backing_baseline(task).report
    np.testing.assert_array_equal(backing.time_ps, report.op_time_ps)
    np.testing.assert_array_equal(backing.memory_bound, report.bound_by == chip.backing)


def test_a_planted_program() -> None:
    """Its compute time is what its traffic takes, so in the backing memory it is slower and memory-bound."""
    program = planted("chain", ops=12).program
    found = inspect_task(make_task(program, load_accelerator("nnp-i")))
    assert found.backing.memory_bound.any()
    assert found.intensity == pytest.approx(float(program.vector_ops.sum() / found.op_bytes.sum()))


class Wasteful:
    """A unit kept busy a quarter of the time, which reads everything three times and stages a kilobyte."""

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        ideal = Roofline().costs(program, replace(accelerator, systolic=None))
        reserved = np.zeros_like(ideal.reserved_bytes)
        reserved[:, 0] = 1024
        return ideal._replace(compute_ps=4 * ideal.compute_ps, use_ps=ideal.use_ps * [1, 1, 3], reserved_bytes=reserved)


def test_what_a_cost_model_adds_to_the_roofline() -> None:
    found = inspect_task(make_task(random_dag(5, ops=20), load_accelerator("nnp-i"), costs=Wasteful()))
    values = found.to_json(every_op=True)
    assert [op["op"] for op in values["every_op"]] == list(range(20))
    assert values["utilisation"] == 0.25
    for row in [*values["every_op"], *values["op_types"]]:
        assert row["utilisation"] in (0.25, None)
    for op in values["every_op"]:
        assert op["re_reads"] == {"backing": 3.0, "fastest": 1.0}
        assert op["staged_bytes"] == 1024
    assert {kind["backing"]["re_reads"] for kind in values["op_types"]} == {3.0}
    assert "every_op" not in found.to_json()


@examples(40)
@given(tasks())
def test_any_costs_can_be_inspected(task: Task) -> None:
    """The binding resource is the simulator's, and types and ops agree."""
    found = inspect_task(task)
    values = found.to_json(every_op=True)
    json.dumps(values, allow_nan=False)
    report = all_backing_baseline(task).report
    names = [*report.level_names, "compute"]
    assert [op["binds"]["backing"] for op in values["every_op"]] == [names[level] for level in report.bound_by]
    for kind, mask in found.op_types():
        if mask.sum() == 1:
            (op,) = np.flatnonzero(mask)
            assert found.utilisation(mask) == values["every_op"][op]["utilisation"], kind


@examples(40)
@given(programs(), accelerators())
def test_nothing_is_read_twice_on_the_roofline(program: Program, chip: Accelerator) -> None:
    """Only the shape of a systolic array and the overhead of an op keeps its units from their peaks."""
    for op in inspect_task(make_task(program, chip)).to_json(every_op=True)["every_op"]:
        assert set(op["re_reads"].values()) <= {1.0, None}
        assert op["utilisation"] is None or op["utilisation"] <= 1
        assert chip.systolic or chip.op_overhead_ps or op["utilisation"] in (1, None)
        assert op["staged_bytes"] == 0


def test_a_black_box_is_inspected_by_its_costs() -> None:
    program, chip = random_dag(5, ops=20), load_accelerator("nnp-i")
    by_costs, boxed = (make_task(program, chip, simulator=name) for name in (None, Boxed()))
    assert boxed.is_black_box
    assert inspect_task(boxed).to_json(every_op=True) == inspect_task(by_costs).to_json(every_op=True)


class Boxed:
    """A black box that nobody asks."""

    def run(self, *_: object) -> Report:
        raise NotImplementedError


class Anything:
    """Costs that ask the chip for nothing."""

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        return Roofline().costs(replace(program, dtype="int8"), accelerator)


def test_a_chip_without_a_peak_for_the_dtype() -> None:
    task = resolve_task("AlexNet", "edge-tpu", dtype="float32", costs=Anything())
    with pytest.raises(WorkloadError, match="no float32 unit"):
        inspect_task(task)

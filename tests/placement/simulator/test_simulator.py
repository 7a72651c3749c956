"""The built-in simulator: equal to the readable reference, above its bound, right on hand-made cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import PlanError
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan, time_plan
from memplace_env.placement.task import Task
from tests.by_hand import NS, three_op_task
from tests.references import reference_simulator
from tests.strategies import programs_with_idle_ops, tasks, tensor_levels
from tests.thorough import examples


@st.composite
def timings(draw: st.DrawFn, task: Task) -> MemoryPlan:
    """Any levels and any transfers: the simulator's rules are defined for plans that no validator would pass."""
    tensor = st.integers(0, task.program.num_tensors - 1)
    time = st.integers(0, task.program.num_ops)
    transfers = []
    for _ in range(draw(st.integers(0, 12))):
        near = draw(st.integers(0, task.backing - 1))
        ends = (near, task.backing) if draw(st.booleans()) else (task.backing, near)
        transfers.append((draw(tensor), *ends, *sorted((draw(time), draw(time)))))
    levels = st.lists(st.integers(0, task.backing), min_size=task.program.num_uses, max_size=task.program.num_uses)
    no_blocks = np.empty((0, 5), dtype=np.int64)
    return task.make_plan(np.array(draw(levels)), no_blocks, np.array(transfers, dtype=np.int64))


@examples(300)
@given(tasks(programs_with_idle_ops()), st.data())
def test_report_equals_reference(task, data):
    plan = data.draw(timings(task))
    report, expected = time_plan(task, plan), reference_simulator.simulate(task, plan)
    assert report.latency_ps == expected.latency
    assert report.op_time_ps.tolist() == expected.op_times
    assert report.stall_ps.tolist() == expected.stalls
    assert report.tail_ps == expected.tail
    assert (report.op_time_ps >= report.port_ps[:, -1]).all()


@examples(300)
@given(tasks(), st.data())
def test_no_plan_beats_the_lower_bound_or_overfills_a_level(task, data):
    report = evaluate_plan(task, place_levels(task, data.draw(tensor_levels(task))).plan)
    assert 0 < report.traffic_bound_ps <= report.latency_ps
    assert report.energy_j > 0
    assert (report.peak_bytes[:-1] <= [level.capacity_bytes for level in task.accelerator.levels[:-1]]).all()
    assert (report.peak_bytes >= task.costs.reserved_bytes.max(axis=0)).all()


def test_roofline_by_hand():
    task = three_op_task()
    assert evaluate_plan(task, place_levels(task, [1] * 5).plan).op_time_ps.tolist() == [50 * NS, 50 * NS, 80 * NS]
    report = evaluate_plan(task, place_levels(task, [0] * 5).plan)
    # The last op reads 70 bytes at 10 bytes/ns beside 10 bytes at 1 byte/ns: compute is what takes longest.
    assert report.op_time_ps.tolist() == [50 * NS] * 3
    assert report.bound_by.tolist() == [-1, -1, -1]
    serial = three_op_task(ports="serial")
    report = evaluate_plan(serial, place_levels(serial, [1, 1, 0, 0, 1]).plan)
    assert report.op_time_ps.tolist() == [50 * NS, 50 * NS, 53 * NS]
    assert report.memory_loss_ps.tolist() == [0, 0, 3 * NS]


def test_invalid_plans_are_not_timed():
    task = three_op_task()
    with pytest.raises(PlanError, match="does not hold it"):
        evaluate_plan(task, task.make_plan(np.zeros(task.program.num_uses), np.empty((0, 5))))

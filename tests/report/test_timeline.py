"""The replay agrees with the simulator about every copy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.placement.compiler import place_levels
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.timeline.timeline import Timeline, timeline_of
from tests.strategies import accelerators, programs, tensor_levels
from tests.subjects import Subject, subject_of
from tests.thorough import examples


def check(task: Task, evaluated: EvaluatedPlan) -> tuple[Timeline, Ints]:
    """No copy is served beside another, beside the op's own traffic or before its start; returns what each gets."""
    plan, report = evaluated.plan, evaluated.report
    timeline = timeline_of(task, evaluated)
    got = np.zeros(len(plan.transfers), dtype=np.int64)
    clock = 0
    for service in timeline.services:
        assert clock <= service.begin < service.end <= report.latency_ps
        clock = service.end
        got[service.transfer] += service.end - service.begin
        op = int(np.searchsorted(timeline.op_begin[:-1], service.begin, side="right")) - 1
        if service.begin < timeline.op_begin[-1] and service.begin < timeline.op_begin[op] + report.op_time_ps[op]:
            assert service.begin >= timeline.op_begin[op] + report.port_ps[op, -1]
        assert service.begin >= timeline.op_begin[plan.transfers[service.transfer, 3]]
    return timeline, got


def demand_ps(task: Task, evaluated: EvaluatedPlan) -> Ints:
    """int64[M], port time that each copy needs."""
    tensor, source = evaluated.plan.transfers[:, 0], evaluated.plan.transfers[:, 1]
    return np.where(source == task.backing, task.costs.prefetch_ps[tensor], task.costs.writeback_ps[tensor])


def test_handmade_plan(copies: Subject) -> None:
    timeline, got = check(*copies)
    np.testing.assert_array_equal(got, demand_ps(*copies))
    late = timeline.stalled_by(2, int(copies.evaluated.report.stall_ps[2]))
    assert [copies.task.program.tensor_name[copies.evaluated.plan.transfers[copy, 0]] for copy in late] == ["w2"]


@st.composite
def hurried(draw: st.DrawFn) -> Subject:
    """Compiled plans never stall; with their windows cut to one op many do."""
    program, chip = draw(programs()), draw(accelerators(weights="streamed"))
    task = make_task(program, chip)
    plan = place_levels(task, draw(tensor_levels(task))).plan
    transfers = plan.transfers.copy()
    transfers[:, 3] = transfers[:, 4]
    return subject_of(task, replace(plan, transfers=transfers))


@examples(40)
@given(hurried())
def test_every_copy_gets_exactly_its_demand(subject: Subject) -> None:
    _, got = check(*subject)
    np.testing.assert_array_equal(got, demand_ps(*subject))


@examples(40)
@given(hurried(), st.integers(0, 3), st.integers(0, 3))
def test_stalls_of_another_simulator(subject: Subject, stalls: int, tail: int) -> None:
    """Copies stay within the report's own stalls and tail; where those are no shorter, each gets its demand."""
    task, evaluated = subject
    report = evaluated.report
    other = replace(report, stall_ps=report.stall_ps * stalls // 2, tail_ps=report.tail_ps * tail // 2)
    latency = int((other.op_time_ps + other.stall_ps).sum() + other.tail_ps)
    foreign = evaluated._replace(report=replace(other, latency_ps=latency))
    _, got = check(task, foreign)
    assert (got <= demand_ps(task, evaluated)).all()
    if stalls >= 2 and tail >= 2:
        np.testing.assert_array_equal(got, demand_ps(task, evaluated))

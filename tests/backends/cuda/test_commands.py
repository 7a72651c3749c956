"""Waits between the streams: in virtual time, with steps that take any time at all."""

from functools import cache
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from memplace_env._lib.units import PS
from memplace_env.backends.cuda.bench import Steps
from memplace_env.backends.cuda.device_protocol import Stream, Wait, commands_of, copy_order
from memplace_env.backends.ort.plan_steps import CopyTensor, RunOp
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task
from memplace_env.testing.instances import instances, plans_of
from tests.backends.cuda.fake_device import FakeDevice
from tests.backends.ort.test_executor import game_plan
from tests.strategies import game_tasks
from tests.subjects import plan_with_copies


@cache
def subjects():
    """Tasks and plans with copies in all directions."""
    found = [(plan_with_copies().task, plan_with_copies().evaluated.plan)]
    for pair in instances():
        task = make_task(*pair)
        found += [(task, plan) for plan in plans_of(task)]
    return [(task, plan) for task, plan in found if len(plan.transfers)]


def seconds_of(task: Task, plan: MemoryPlan, seed: int):
    """Times drawn for each step, some of them 0, some very long."""
    rng = np.random.default_rng(seed)
    drawn = rng.exponential(1, task.program.num_ops) ** rng.integers(0, 4, task.program.num_ops)
    copies = rng.exponential(1, len(plan.transfers)) ** rng.integers(0, 4, len(plan.transfers))
    drawn[rng.random(len(drawn)) < 0.2] = 0
    return lambda step: float(drawn[step.op] if isinstance(step, RunOp) else copies[step.row])


def played(task: Task, plan: MemoryPlan, device: FakeDevice):
    """The begin and end of each step of one inference, and its seconds."""
    steps = Steps(device, list(commands_of(task, plan)), lambda step: lambda: None)
    first = device.clock(Stream.COMPUTE)
    steps.issue()
    last = device.clock(Stream.COMPUTE)
    device.finish()
    return {step: (begin, end) for step, begin, end in device.log}, device.seconds(first, last)


@given(game_tasks(), st.integers(0, 10**6))
def test_every_step_runs_in_its_window(task, seed):
    plan = game_plan(task, seed)
    when, _ = played(task, plan, FakeDevice(seconds_of(task, plan, seed)))
    assert set(when) == {*map(RunOp, range(task.program.num_ops)), *map(CopyTensor, range(len(plan.transfers)))}
    for row, (_, _, _, start, end) in enumerate(plan.transfers.tolist()):
        begun, done = when[CopyTensor(row)]
        if start:
            assert when[RunOp(start - 1)][1] <= begun
        if end + 1 < task.program.num_ops:
            assert done <= when[RunOp(end + 1)][0]


@given(game_tasks(), st.integers(0, 10**6))
def test_the_time_is_that_of_the_longest_chain(task, seed):
    """A recursion over the plan gives the same: ops in order, copies in order, each behind what its window says."""
    plan = game_plan(task, seed)
    seconds = seconds_of(task, plan, seed)
    _, measured = played(task, plan, FakeDevice(seconds))
    order, ended, behind, now, free = copy_order(task, plan), {}, [0.0], 0.0, 0.0
    waiting = list(order)
    for op in range(task.program.num_ops + 1):
        due = [place for place, row in enumerate(order) if plan.transfers[row, 4] < op or op == task.program.num_ops]
        for row in order[: max(due, default=-1) + 1]:
            if row in waiting:
                waiting.remove(row)
                free = max(free, behind[plan.transfers[row, 3]]) + seconds(CopyTensor(row))
                ended[row] = free
            now = max(now, ended[row])
        if op < task.program.num_ops:
            now += seconds(RunOp(op))
            behind.append(now)
    assert np.isclose(measured, now, rtol=1e-12)


def test_a_host_issues_each_step_before_what_waits_for_it():
    for task, plan in subjects():
        issued = {None}
        for command in commands_of(task, plan):
            if isinstance(command, Wait):
                assert command.step in issued
                assert isinstance(command.step, CopyTensor) == (command.stream is Stream.COMPUTE)
            else:
                assert command not in issued
                issued.add(command)


def test_copies_go_in_the_order_in_which_the_simulator_ends_them():
    """w2 is due first, then w3, then h0 on its way out; h0 comes back, and y leaves last."""
    subject = plan_with_copies()
    assert copy_order(subject.task, subject.evaluated.plan) == [2, 3, 0, 1, 4]


def test_without_copies_ops_just_follow_one_another():
    for pair in instances():
        task = make_task(*pair)
        for plan in plans_of(task):
            if not len(plan.transfers):
                assert list(commands_of(task, plan)) == [RunOp(op) for op in range(task.program.num_ops)]


def test_copies_one_at_a_time_take_no_longer_than_the_simulator_says():
    """A device is at least as fast at the simulator's own times, where copies have only what ops leave of the port."""
    tried = 0
    for task, plan in subjects():
        report = evaluate_plan(task, plan)
        copied = np.where(
            plan.transfers[:, 1] == task.backing,
            task.costs.prefetch_ps[plan.transfers[:, 0]],
            task.costs.writeback_ps[plan.transfers[:, 0]],
        )
        windows = sorted(plan.transfers[:, 3:].tolist())
        if any(end >= start for (_, end), (start, _) in pairwise(windows)):
            continue
        device = FakeDevice(
            lambda step, copied=copied, report=report: float(
                (report.op_time_ps[step.op] if isinstance(step, RunOp) else copied[step.row]) * PS
            )
        )
        _, seconds = played(task, plan, device)
        assert seconds <= report.latency_s * (1 + 1e-9)
        tried += 1
    assert tried

"""The event simulator: equal to a reference that ticks every picosecond, and to `builtin` where nothing is on."""

import pickle
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.accelerator.event_description import (
    NO_MECHANISMS,
    DmaEngines,
    DramBanks,
    Mechanisms,
    Tiles,
)
from memplace_env.machine.costs import Costs, KnownCosts
from memplace_env.placement.compiler import HEURISTICS, place_levels
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import EventSimulator, time_plan
from memplace_env.placement.simulator.event.event_state import COPY, ENGINE, LOAD, UNIT, WRITE
from memplace_env.placement.task import Task
from tests.placement.simulator.test_simulator import timings
from tests.references.reference_events import run_events
from tests.strategies import programs_with_idle_ops, tasks, tensor_levels
from tests.subjects import plan_with_copies, play_randomly, sliced_layers
from tests.thorough import examples

PS = st.integers(0, 6)
MECHANISMS = st.builds(
    Mechanisms,
    st.none() | st.builds(Tiles, st.integers(1, 4), st.integers(1, 2**14), st.integers(1, 2)),
    st.none() | st.builds(DmaEngines, st.integers(1, 3), st.just(10**14), st.integers(1, 2**10), PS),
    st.none() | st.builds(DramBanks, st.integers(1, 4), st.integers(1, 2**10), PS, PS, PS),
)


@st.composite
def small_costs(draw: st.DrawFn, task: Task) -> Task:
    """The same task with costs of a few picoseconds, which a clock can tick through."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    most, costs = draw(st.integers(1, 12)), task.costs
    shapes = {name: array.shape for name, array in costs._asdict().items() if isinstance(array, np.ndarray)}
    small = {name: rng.integers(0, most + 1, size=shapes[name]) for name in shapes}
    small["use_ps"] = np.maximum(small["use_ps"], 1)
    small["reserved_bytes"] = np.zeros_like(costs.reserved_bytes)
    return replace(task, costs=Costs(serial=draw(st.booleans()), **small))


def event(task: Task, on: Mechanisms) -> EventSimulator:
    return EventSimulator(KnownCosts(task.costs, task.program, task.accelerator), on)


def ran(task: Task, on: Mechanisms, plan):
    return event(task, on).run(task.program, task.accelerator, plan)


@examples(400, deadline=None)
@given(tasks(programs_with_idle_ops(max_ops=7)).flatmap(small_costs), MECHANISMS, st.data())
def test_report_equals_the_reference(task, on, data):
    plan = data.draw(timings(task))
    report, expected = ran(task, on, plan), run_events(task, on, plan)
    assert report.latency_ps == expected.finish
    assert report.op_time_ps.tolist() == expected.op_times
    assert report.stall_ps.tolist() == expected.stalls
    assert report.port_ps.tolist() == expected.port_ps
    assert report.tail_ps == expected.tail
    assert report.latency_ps == report.op_time_ps.sum() + report.stall_ps.sum() + report.tail_ps
    assert min(report.op_time_ps.min(), report.stall_ps.min(), report.tail_ps) >= 0


@examples(200, deadline=None)
@given(tasks(programs_with_idle_ops()), st.data())
def test_without_mechanisms_it_is_the_built_in_simulator(task, data):
    plan = data.draw(timings(task))
    assert_same(ran(task, NO_MECHANISMS, plan), time_plan(task, plan))


TILED = ("nnp-i", "nnp-i-streamed", "tpu-v4i", "intel-npu-4000", "ethos-u65")


@pytest.mark.parametrize(
    ("chip", "costs"), [*((chip, "tiled") for chip in TILED), ("tpu-v4i", "roofline"), ("edge-tpu", "roofline")]
)
def test_without_mechanisms_real_plans_take_as_long(chip, costs):
    task = resolve_task("MobileNetV2", chip, costs=costs, slices=0.1 if chip == "tpu-v4i" else None)
    simulator = EventSimulator(costs, NO_MECHANISMS)
    plans = [rule(task) for rule in HEURISTICS.values()]
    if task.streams_weights and task.accelerator.num_levels == 2:
        problem = MallocGameProblem(task)
        plans += [problem.plan(play_randomly(problem, problem.num_decisions, seed)) for seed in range(2)]
    for plan, report in zip(plans, simulator.run_batch(task.program, task.accelerator, plans), strict=True):
        assert_same(report, time_plan(task, plan))


def assert_same(report, expected):
    assert report.summary() == expected.summary()
    for name in ("op_time_ps", "compute_ps", "port_ps", "stall_ps", "bound_by", "bytes_moved", "peak_bytes"):
        assert np.array_equal(getattr(report, name), getattr(expected, name)), name


@examples(150, deadline=None)
@given(tasks().flatmap(small_costs), MECHANISMS, st.data())
def test_nothing_is_faster_than_its_resources(task, on, data):
    plan = place_levels(task, data.draw(tensor_levels(task))).plan
    simulator = event(task, on)
    report = simulator.run(task.program, task.accelerator, plan)
    spans = simulator.spans(task.program, task.accelerator, plan)
    assert report.latency_ps >= max(report.traffic_bound_ps, report.compute_ps.sum() if on.tiles else 0)
    nominal = time_plan(task, plan)
    extra = report.port_ps - nominal.port_ps
    assert (extra[:, :-1] == 0).all()
    assert (extra >= 0).all()
    assert on.dram or not extra.any()
    for level in range(task.accelerator.num_levels):
        copies = (spans.kind == COPY) & (spans.level == level)
        rows = (spans.level == level) & np.isin(spans.kind, (LOAD, WRITE, COPY))
        begin, end = np.sort(spans.begin[rows]), np.sort(spans.end[rows])
        assert (begin[1:] >= end[:-1]).all(), "a port serves one request at a time"
        own = spans.end[rows & ~copies] - spans.begin[rows & ~copies]
        assert own.sum() == report.port_ps[:, level].sum()
    for engine in range(on.dma.engines if on.dma else 0):
        rows = (spans.level == engine) & (spans.kind == ENGINE)
        assert (spans.begin[rows][1:] >= spans.end[rows][:-1]).all(), "an engine runs one descriptor at a time"
    unit = spans.kind == UNIT
    work = task.costs.work_ps if on.tiles else task.costs.compute_ps
    assert (spans.end[unit] - spans.begin[unit]).sum() == work.sum()
    served = np.zeros(len(plan.transfers), dtype=np.int64)
    np.add.at(served, spans.number[spans.kind == COPY], (spans.end - spans.begin)[spans.kind == COPY])
    reads = plan.transfers[:, 1] == task.backing
    moved = plan.transfers[:, 0]
    demand = np.where(reads, task.costs.prefetch_ps[moved], task.costs.writeback_ps[moved])
    assert (served >= demand).all()
    assert (on.dma and on.dram) or (served == demand).all()


def test_batches_copies_and_the_order_of_tasks_change_nothing():
    subject = plan_with_copies()
    on = Mechanisms(Tiles(2, 2**15, 2), DmaEngines(2, 10**9, 2**14, 500), DramBanks(4, 256, 900, 300, 200))
    simulator, task, plan = EventSimulator("roofline", on), subject.task, subject.evaluated.plan
    other = sliced_layers()
    one = simulator.run(task.program, task.accelerator, plan)
    assert one.latency_ps > subject.evaluated.report.latency_ps
    simulator.run(other.task.program, other.task.accelerator, other.evaluated.plan)
    assert_same(simulator.run(task.program, task.accelerator, plan), one)
    assert_same(pickle.loads(pickle.dumps(simulator)).run(task.program, task.accelerator, plan), one)
    for report in simulator.run_batch(task.program, task.accelerator, [plan] * 9):
        assert_same(report, one)
    assert simulator.run_batch(task.program, task.accelerator, []) == []


@pytest.mark.parametrize("env_id", ["MemPlace-v0", "MemPlaceSteps-v0", "MallocGame-v0"])
def test_environments_take_it_by_name(env_id):
    env = gym.make(env_id, workload="MobileNetV2", accelerator="tpu-v4i", simulator="event").unwrapped
    assert isinstance(env.task.simulator, EventSimulator)
    plan = HEURISTICS["all-fastest"](env.task)
    report = env.task.simulator.run(env.task.program, env.task.accelerator, plan)
    assert report.latency_ps != time_plan(env.task, plan).latency_ps


def test_mechanisms_are_no_part_of_the_chips_hash():
    chip = load_accelerator("intel-npu-4000")
    assert chip.mechanisms.tiles
    assert chip.mechanisms.dma
    assert chip.mechanisms.dram
    assert replace(chip, mechanisms=NO_MECHANISMS).sha256 == chip.sha256

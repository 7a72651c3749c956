"""XLA's memory-space assignment: the facts of its own unit tests, hand-made programs, and validity on any program."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.xla_msa import MsaOptions, XlaMsa, assign
from agents.xla_msa.buffers import boundedness, buffers_of, in_order
from agents.xla_msa.copies import CopyEngine
from agents.xla_msa.costs import op_costs
from agents.xla_msa.heap import Heap
from agents.xla_msa.picker import IntervalPicker
from memplace_env.accelerator import Accelerator, MemoryLevel, load_accelerator
from memplace_env.compiler import all_backing_report
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.errors import AgentError
from memplace_env.plan import violations
from memplace_env.resolve import make_task
from memplace_env.simulator import judge_plan
from memplace_env.testing.reference import op_ports, op_time, uses_of
from memplace_env.testing.strategies import accelerators, programs_with_idle_ops, tasks
from memplace_env.workload.builder import ProgramBuilder
from memplace_env.workload.program import TensorKind
from memplace_env.workload.resolve import resolve_workload
from memplace_env.workload.synthetic import planted

NS = 1000
"""Picoseconds. On the hand-made machine a byte of backing memory takes one nanosecond, and so does a vector op."""
OPEN = MsaOptions.open_source()
OPTIONS = {"open-source": OPEN, "tuned": MsaOptions.tuned()}


def machine(capacity=100, **changes):
    levels = tuple(
        MemoryLevel(name, size, rate, rate, latency_ps=0, pj_per_byte=1.0)
        for name, size, rate in [("fast", capacity, 10**10), ("backing", 2**30, 10**9)]
    )
    chip = Accelerator(
        name="hand-made",
        description="",
        ports="serial",
        weights="streamed",
        fusion="none",
        dtype="int8",
        matrix_macs_per_s={"int8": 10**9},
        vector_ops_per_s={"int8": 10**9},
        mac_pj={"int8": 0.1},
        vector_pj={"int8": 0.1},
        op_overhead_ps=0,
        static_power_w=1.0,
        dma_efficiency=1.0,
        systolic=None,
        levels=levels,
    )
    return replace(chip, **changes)


def task_of(program, capacity=100, **changes):
    return make_task(program, machine(capacity, **changes))


def assigned(program, options=OPEN, order=None):
    """The plan on the hand-made machine."""
    return assign(task_of(program), options, order)


@st.composite
def two_levels(draw):
    chip = draw(accelerators())
    return replace(chip, levels=(chip.levels[0], chip.levels[-1]))


def transfers(plan, tensor):
    return [tuple(row[1:]) for row in plan.transfers.tolist() if row[0] == tensor]


def blocks(plan, tensor):
    return [tuple(row[2:]) for row in plan.allocations.tolist() if row[0] == tensor]


def long_chain(gap, *, output=False):
    """A result of 40 bytes, read at op 1 and again after `gap` ops of 100 ns each."""
    b = ProgramBuilder("long-chain", "int8")
    x = b.tensor("x", 1, TensorKind.INPUT)
    kept = b.tensor("kept", 40, TensorKind.OUTPUT if output else TensorKind.ACTIVATION)
    b.op("Make", [x], [kept], vector_ops=100)
    last = b.tensor("h", 1)
    b.op("Read", [kept], [last], vector_ops=100)
    for _ in range(gap):
        following = b.tensor("h", 1)
        b.op("Step", [last], [following], vector_ops=100)
        last = following
    b.op("Join", [last, kept], [b.tensor("y", 1, TensorKind.OUTPUT)], vector_ops=100)
    return b.build(), kept


# Facts from XLA's own unit tests.


def picker():
    return IntervalPicker(np.ones(30, dtype=np.int64), 1, 2, longest=4 * 3)


def test_picker_tries_starts_from_the_preferred_one_outwards():
    assert picker().window(0, 22, 3, 0.5).starts.tolist() == [15, 16, 14, 17, 13, 18, 12, 11, 10, 9]


def test_picker_finds_no_start_in_a_short_window():
    assert picker().window(19, 22, 3, 0.5) is None


def test_engine_takes_and_refuses_copies():
    engine = CopyEngine(np.array([2, 3, 1, 6, 7, 1, 7, 2, 2, 4]))
    for copy, fits in [((-1, 3, 5), 1), ((1, 4, 4), 1), ((5, 9, 10), 1), ((4, 9, 3), 0), ((4, 8, 2), 1)]:
        assert engine.accepts(*copy) == fits
        if fits:
            engine.add(*copy)


def test_engine_pushes_later_copies_back():
    engine = CopyEngine(np.full(10, 2))
    for start in range(6, 0, -1):
        assert engine.accepts(start, start + 4, 2)
        engine.add(start, start + 4, 2)
    assert engine.accepts(0, 4, 3)
    engine.add(0, 4, 3)
    assert engine.remaining().tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 1, 2]
    assert engine.accepts(0, 4, 3)
    engine.add(0, 4, 3)
    assert engine.remaining().tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert not engine.accepts(0, 4, 1)


def test_engine_lets_no_earlier_copy_starve_a_later_one():
    engine = CopyEngine(np.full(5, 2))
    assert engine.accepts(1, 3, 2)
    engine.add(1, 3, 2)
    assert not engine.accepts(0, 4, 4)


# The parts.


def test_engine_forgets_copies_and_counts_those_under_way():
    engine = CopyEngine(np.full(10, 2), most=2)
    engine.add(0, 3, 1, mark=7)
    engine.add(2, 6, 1, mark=8)
    assert engine.is_crowded(3, 4)
    assert not engine.is_crowded(4, 8)
    engine.remove(7)
    assert not engine.is_crowded(3, 4)
    assert engine.remaining().sum() == 19


def test_picker_waits_and_evicts_by_time():
    assert picker().may_stay(0, 12)
    assert not picker().may_stay(0, 13)
    assert picker().eviction_end(0, 25, 3, retry=0) == 7
    assert picker().eviction_end(0, 25, 3, retry=1) == 19
    assert picker().eviction_end(0, 5, 3, retry=0) == 5


def test_heap_takes_the_smallest_gap_and_looks_ahead():
    heap = Heap(0, 100)
    low = heap.place(30, 20, 0, 9, mark=1)
    heap.place(70, 30, 0, 9, mark=2)
    heap.place(50, 10, 8, 9, mark=3)
    assert heap.fit(15, 0, np.array([3])) == 50
    assert heap.fit(15, 0, np.array([3, 9])) == 0
    assert heap.fit(40, 0, np.array([3])) == -1
    assert heap.fit(90, 10, np.array([12])) == 0
    early = heap.place(50, 10, 0, 2, mark=4)
    assert heap.free_until(early) == 7
    assert heap.free_until(low) > 100
    assert heap.full_at(45, 9) == 9
    assert heap.full_at(45, 7) == 2
    heap.remove(3)
    assert heap.full_at(45, 9) == 2
    assert heap.free_until(early) > 100


def test_repacking_makes_room():
    heap = Heap(0, 100)
    short, long = heap.place(0, 40, 0, 2, mark=1), heap.place(40, 30, 0, 9, mark=2)
    assert heap.fit(60, 3, np.array([9])) == -1
    assert heap.repack()
    assert (heap.offset(long), heap.offset(short)) == (0, 30)
    assert heap.fit(60, 3, np.array([9])) == 30


def test_repacking_that_does_not_fit_changes_nothing():
    heap = Heap(0, 100)
    for offset, size, first, last in [(0, 40, 0, 9), (40, 60, 0, 3), (40, 60, 4, 9)]:
        heap.place(offset, size, first, last, mark=1)
    heap.limit = 90
    before = heap.rows.copy()
    assert not heap.repack()
    assert (heap.rows == before).all()


@settings(max_examples=100)
@given(tasks(programs_with_idle_ops(), two_levels()))
def test_costs_are_the_simulators(task):
    costs = op_costs(task)

    def times(op, fast=None):
        """(Of the op, of its ports) where one use is served by fast memory and all else by the backing memory."""
        ports = op_ports(task, {use: int(use != fast) for use in uses_of(task.program, op)})
        return op_time(task, op, ports), sum(ports) if task.costs.serial else max(ports)

    for op in range(task.program.num_ops):
        assert (costs.elapsed_ps[op], costs.memory_ps[op]) == times(op)
        for use in uses_of(task.program, op):
            assert (costs.alone_elapsed_ps[use], costs.alone_memory_ps[use]) == times(op, use)


def test_order_is_memory_bound_first_then_by_size():
    b = ProgramBuilder("order", "int8")
    small, large, idle = (b.tensor(n, s, TensorKind.WEIGHT) for n, s in [("s", 100), ("l", 400), ("i", 900)])
    x, scalar = b.tensor("x", 50, TensorKind.INPUT), b.tensor("scalar", 1, TensorKind.WEIGHT)
    h, k, y = b.tensor("h", 10), b.tensor("k", 90), b.tensor("y", 20, TensorKind.OUTPUT)
    b.op("Bound", [x, small], [h])
    b.op("Bound", [h, large], [k], vector_ops=50)
    b.op("Free", [k, idle, scalar], [y], vector_ops=2000)
    program = b.build()
    costs = op_costs(task_of(program, 1000))
    buffers = {buffer.tensor: buffer for buffer in buffers_of(program, 1000)}
    assert scalar not in buffers
    benefit = {tensor: boundedness(costs, program, buffer, "none") for tensor, buffer in buffers.items()}
    # A byte saves 0.9 ns. h gains twice; k only where it is made, as op 2 has compute to spare.
    assert benefit == {small: 90 * NS, large: 360 * NS, x: 45 * NS, h: 18 * NS, k: 81 * NS, idle: 0, y: 0}
    assert [buffer.tensor for buffer in in_order(costs, program, list(buffers.values()))] == [
        large, small, k, x, h, idle, y,
    ]  # fmt: skip


def test_scaling_by_size_changes_the_order():
    b = ProgramBuilder("scale", "int8")
    often, rarely = b.tensor("often", 16, TensorKind.WEIGHT), b.tensor("rarely", 64, TensorKind.WEIGHT)
    results = [b.tensor("h", 2), b.tensor("h", 2), b.tensor("y", 2, TensorKind.OUTPUT)]
    b.op("A", [often, rarely], [results[0]])
    b.op("B", [often, results[0]], [results[1]])
    b.op("C", [often, results[1]], [results[2]])
    program = b.build()
    costs, buffers = op_costs(task_of(program)), buffers_of(program, 100)
    assert in_order(costs, program, buffers, "sqrt")[0].tensor == often
    assert in_order(costs, program, buffers, "none")[0].tensor == rarely


# Whole plans.


def test_a_result_that_is_read_soon_stays():
    program, kept = long_chain(gap=3)
    plan = assigned(program)
    assert blocks(plan, kept) == [(0, 0, 5)]
    assert transfers(plan, kept) == []
    assert (plan.use_level[program.use_tensor == kept] == 0).all()


def test_a_result_that_waits_too_long_is_evicted_and_comes_back():
    program, kept = long_chain(gap=20)
    plan = assigned(program)
    # Copies take 40 ns and ops 100: one op of overlap each is nearest to the preferred 60 ns.
    assert transfers(plan, kept) == [(0, 1, 1, 1), (1, 0, 21, 21)]
    assert [block[1:] for block in blocks(plan, kept)] == [(0, 2), (21, 22)]
    assert (plan.use_level[program.use_tensor == kept] == 0).all()
    assert judge_plan(task_of(program), plan).stall_ps.sum() == 0


def test_a_graph_output_in_fast_memory_is_evicted():
    program, kept = long_chain(gap=3, output=True)
    plan = assigned(program)
    assert violations(task_of(program), plan) == []
    assert blocks(plan, kept) == [(0, 0, 5)]
    assert transfers(plan, kept) == [(0, 1, 1, 4)]


def test_without_outstanding_evictions_the_whole_buffer_goes_back():
    program, kept = long_chain(gap=20)
    plan = assigned(program, MsaOptions(max_outstanding_evictions=0))
    assert blocks(plan, kept) == transfers(plan, kept) == []


def test_without_outstanding_prefetches_the_last_read_is_from_the_backing_memory():
    program, kept = long_chain(gap=20)
    plan = assigned(program, MsaOptions(max_outstanding_prefetches=0))
    assert plan.use_level[program.use_tensor == kept].tolist() == [0, 0, 1]
    assert transfers(plan, kept) == [(0, 1, 1, 1)]


def weight_after(ops, *, read=40):
    b = ProgramBuilder("weight", "int8")
    last, weight = b.tensor("x", 1, TensorKind.INPUT), b.tensor("w", 40, TensorKind.WEIGHT)
    for _ in range(ops):
        following = b.tensor("h", 1)
        b.op("Step", [last], [following], vector_ops=20)
        last = following
    b.op("Use", [last, weight], [b.tensor("y", 1, TensorKind.OUTPUT)], bytes_read={weight: read})
    return b.build(), weight


@pytest.mark.parametrize("weights", ["streamed", "resident"])
def test_a_weight_is_prefetched_with_the_preferred_overlap(weights):
    program, weight = weight_after(10)
    task = task_of(program, weights=weights)
    plan = assign(task, OPEN)
    assert violations(task, plan) == []
    assert transfers(plan, weight) == [(1, 0, 7, 9)]
    assert blocks(plan, weight) == [(0, 7, 10)]


def test_a_weight_that_is_needed_at_once_is_read_from_the_backing_memory():
    program, weight = weight_after(1)
    assert transfers(assigned(program), weight) == []


def test_a_copy_that_costs_nothing_still_gets_an_op_to_run_in():
    program, weight = weight_after(10)
    task = task_of(program)
    free = replace(task, costs=task.costs._replace(prefetch_ps=np.zeros_like(task.costs.prefetch_ps)))
    plan = assign(free, OPEN)
    assert violations(free, plan) == []
    assert transfers(plan, weight) == [(1, 0, 9, 9)]


def test_a_copy_for_few_bytes_is_undone():
    program, weight = weight_after(10, read=10)
    assert transfers(assigned(program), weight)
    assert not transfers(assigned(program, MsaOptions(inefficient_use_ratio=0.5)), weight)


def test_picker_bytes_stand_for_every_size():
    program, weight = weight_after(10)
    plan = assigned(program, MsaOptions(picker_bytes=80))
    assert transfers(plan, weight) == [(1, 0, 4, 9)]


def test_planned_bandwidth_can_be_scaled():
    program, weight = weight_after(10)
    plan = assigned(program, MsaOptions(copy_bandwidth_scale=0.5))
    assert transfers(plan, weight) == [(1, 0, 4, 9)]


def test_nothing_lies_in_reserved_bytes():
    program, weight = weight_after(10)
    assert blocks(assigned(program, MsaOptions(reserved_bytes=60)), weight) == [(60, 7, 10)]
    assert blocks(assigned(program, MsaOptions(reserved_bytes=61)), weight) == []
    assert blocks(assigned(program, MsaOptions(reserved_bytes=1000)), weight) == []


def test_repacking_lets_one_more_buffer_in():
    b = ProgramBuilder("fragmented", "int8")
    x = b.tensor("x", 1, TensorKind.INPUT)
    a, keep, c = (b.tensor(name, size) for name, size in [("a", 40), ("keep", 30), ("c", 60)])
    s, t, y = b.tensor("s", 1), b.tensor("t", 1), b.tensor("y", 1, TensorKind.OUTPUT)
    b.op("Split", [x], [a, keep])
    b.op("Read", [a], [s])
    b.op("Make", [s], [c])
    b.op("Read", [c], [t])
    b.op("Join", [keep, t], [y])
    program = b.build()
    plan, packed = (assigned(program, MsaOptions(max_repacks=n), [a, keep, c]) for n in (0, 1))
    assert blocks(plan, c) == []
    assert (blocks(packed, keep), blocks(packed, a), blocks(packed, c)) == ([(0, 0, 4)], [(30, 0, 1)], [(30, 2, 3)])
    latencies = [judge_plan(task_of(program), p).latency_ps for p in (plan, packed)]
    assert latencies[1] < latencies[0]


def test_an_order_decides_who_is_first_and_who_stays_out():
    b = ProgramBuilder("rivals", "int8")
    x, y = b.tensor("x", 1, TensorKind.INPUT), b.tensor("y", 1, TensorKind.OUTPUT)
    one, two = b.tensor("one", 60), b.tensor("two", 60)
    b.op("Split", [x], [one, two])
    b.op("Join", [one, two], [y])
    program = b.build()
    for order in ([one, two], [two, one], [two]):
        assert assigned(program, order=order).allocations[:, 0].tolist() == order[:1]


@pytest.mark.parametrize("order", [[0, 0], [99], [-1]])
def test_an_impossible_order_is_an_error(order):
    with pytest.raises(AgentError, match="each at most once"):
        assigned(long_chain(1)[0], order=order)


def test_more_levels_are_an_error():
    with pytest.raises(AgentError, match="two memory levels"):
        assign(make_task(planted("chain", ops=4).program, load_accelerator("nnp-i")), OPEN)


@pytest.mark.parametrize(
    "values",
    [{"max_retries": 0}, {"copy_bandwidth_scale": 0.0}, {"benefit_scale": "log"}, {"picker_bytes": 0}],
)
def test_options_that_make_no_sense_are_errors(values):
    with pytest.raises(AgentError, match=next(iter(values))):
        MsaOptions(**values)


@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=200)
@given(data=st.data(), task=tasks(programs_with_idle_ops(max_ops=24), two_levels()))
def test_plans_are_valid_and_deterministic_for_any_task_and_order(name, data, task):
    """Whatever things cost, and whatever ops reserve."""
    order = data.draw(st.none() | st.permutations(range(task.program.num_tensors)))
    plan = assign(task, OPTIONS[name], order)
    assert plan == assign(task, OPTIONS[name], order)
    assert violations(task, plan) == []


@pytest.mark.parametrize("name", OPTIONS)
def test_resnet50_runs_much_faster_than_from_the_backing_memory(name):
    chip = load_accelerator("tpu-v4i")
    program = resolve_workload("ResNet50", batch=16, dtype="bfloat16", fusion="epilogue")
    task = make_task(program, chip)
    report = judge_plan(task, assign(task, OPTIONS[name]))
    assert report.latency_ps < 0.7 * all_backing_report(task).latency_ps
    assert report.stall_ps.sum() < 0.05 * report.latency_ps


def test_agent_returns_its_plan():
    env = OneShotEnv(planted("diamond", ops=12, accelerator="tpu-v4i").program, "tpu-v4i")
    heard = []
    solution = XlaMsa(MsaOptions.tuned()).solve(env, seed=3, callback=heard.append)
    assert solution.plan == assign(env.task, MsaOptions.tuned())
    assert solution.report.latency_ps == judge_plan(env.task, solution.plan).latency_ps
    assert (solution.agent, solution.outcome, solution.evaluations, solution.seed) == ("xla-msa", "feasible", 1, 3)
    assert [(p.evaluations, p.latency_s) for p in heard] == [(p.evaluations, p.latency_s) for p in solution.history]

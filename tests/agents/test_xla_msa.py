"""XLA's memory-space assignment as a whole: hand-made programs, and validity on any program."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.xla_msa import PUBLIC_SETS, MsaOptions, assign
from memplace_env._lib.errors import AgentError
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import all_backing_report
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import planted
from memplace_env.placement.validation import violations
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from tests.agents.xla import OPEN, OPTIONS, assigned, blocks, task_of, transfers, two_levels
from tests.strategies import programs_with_idle_ops, tasks
from tests.thorough import examples


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
    assert evaluate_plan(task_of(program), plan).stall_ps.sum() == 0


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


def test_prefetches_come_in_order_if_they_must():
    b = ProgramBuilder("nested", "int8")
    last = b.tensor("x", 1, TensorKind.INPUT)
    large, small = b.tensor("large", 20, TensorKind.WEIGHT), b.tensor("small", 5, TensorKind.WEIGHT)
    for operands in [[]] * 9 + [[small], [large]]:
        following = b.tensor("h", 1)
        b.op("Step", [last, *operands], [following], vector_ops=20)
        last = following
    program = b.build()
    free, fifo = MsaOptions(preferred_overlap_ratio=4), MsaOptions(preferred_overlap_ratio=4, fifo_prefetches=True)
    for options, start in ((free, 8), (fifo, 6)):
        plan = assigned(program, options, [large, small])
        assert (transfers(plan, large), transfers(plan, small)) == ([(1, 0, 6, 9)], [(1, 0, start, 8)])


@examples(100)
@given(tasks(programs_with_idle_ops(max_ops=24), two_levels()))
def test_no_prefetch_is_within_another_in_order(task):
    rows = assign(task, MsaOptions(fifo_prefetches=True)).transfers
    first, last = rows[rows[:, 1] == 1][:, 3:].T
    assert not ((first[:, None] < first) & (last[:, None] > last)).any()


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
    latencies = [evaluate_plan(task_of(program), p).latency_ps for p in (plan, packed)]
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
@examples(200)
@given(data=st.data(), task=tasks(programs_with_idle_ops(max_ops=24), two_levels()))
def test_plans_are_valid_and_deterministic_for_any_task_and_order(name, data, task):
    """Whatever things cost, and whatever ops reserve."""
    order = data.draw(st.none() | st.permutations(range(task.program.num_tensors)))
    plan = assign(task, OPTIONS[name], order)
    assert plan == assign(task, OPTIONS[name], order)
    assert violations(task, plan) == []


def test_public_sets_say_what_is_left_out():
    assert MsaOptions() in OPTIONS.values()
    assert all(public.left_out for public in PUBLIC_SETS)


@pytest.mark.parametrize("name", OPTIONS)
def test_resnet50_runs_much_faster_than_from_the_backing_memory(name):
    chip = load_accelerator("tpu-v4i")
    program = resolve_workload("ResNet50", batch=16, dtype="bfloat16", fusion="epilogue")
    task = make_task(program, chip)
    report = evaluate_plan(task, assign(task, OPTIONS[name]))
    assert report.latency_ps < 0.7 * all_backing_report(task).latency_ps
    assert report.stall_ps.sum() < 0.05 * report.latency_ps

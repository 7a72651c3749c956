"""The parts of XLA's memory-space assignment: the facts of its own unit tests, costs and orders."""

import numpy as np
from hypothesis import given

from memplace_agents.xla_msa.buffers import boundedness, buffers_of, in_order
from memplace_agents.xla_msa.copies import CopyEngine
from memplace_agents.xla_msa.heap import Heap
from memplace_agents.xla_msa.picker import IntervalPicker
from memplace_agents.xla_msa.xla_costs import op_costs
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from tests.agents.xla import NS, task_of, two_levels
from tests.references.reference_simulator import op_ports, op_time, uses_of
from tests.strategies import programs_with_idle_ops, tasks
from tests.thorough import examples

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
    assert engine.is_barred(3, 4)
    assert not engine.is_barred(4, 8)
    engine.remove(7)
    assert not engine.is_barred(3, 4)
    assert engine.remaining().sum() == 19


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


def test_heap_keeps_what_ops_reserve():
    """Before, between and after: blocks lie below what ops reserve, and repacking moves none of that."""
    heap = Heap(0, 100, np.array([0, 60, 60, 0, 90, 0]))
    assert heap.rows[:, :4].tolist() == [[10, 100, 4, 4], [40, 100, 1, 2]]
    assert heap.fit(41, 0, np.array([0, 1])) == 0
    assert heap.fit(41, 1, np.array([2])) == -1
    assert heap.fit(40, 1, np.array([3])) == 0
    early, late = heap.place(0, 90, 0, 0, mark=1), heap.place(0, 80, 3, 3, mark=2)
    assert heap.free_until(late) == 3
    assert heap.full_at(41, 3) == 3
    assert heap.full_at(11, 5) == 4
    assert heap.repack()
    assert [heap.offset(early), heap.offset(late)] == [0, 0]
    assert sorted(heap.rows[:, :4].tolist()) == [[0, 80, 3, 3], [0, 90, 0, 0], [10, 100, 4, 4], [40, 100, 1, 2]]


def test_repacking_that_does_not_fit_changes_nothing():
    heap = Heap(0, 100)
    for offset, size, first, last in [(0, 40, 0, 9), (40, 60, 0, 3), (40, 60, 4, 9)]:
        heap.place(offset, size, first, last, mark=1)
    heap.limit = 90
    before = heap.rows.copy()
    assert not heap.repack()
    assert (heap.rows == before).all()


@examples(100)
@given(tasks(programs_with_idle_ops(), two_levels()))
def test_costs_are_the_simulators(task):
    costs = op_costs(task)

    def times(op, fast=None):
        """Return times (of the op, of its ports) with one use in fast memory and all else in the backing memory."""
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

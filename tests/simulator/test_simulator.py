"""The simulator: equal to the readable reference, above its bound, right on hand-made cases."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env.accelerator import Accelerator, MemoryLevel
from memplace_env.compiler import compile_mapping
from memplace_env.errors import MemPlaceError, PlanError, WorkloadError
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import BuiltinSimulator, Simulator, resolve_simulator, simulate
from memplace_env.workload.builder import ProgramBuilder
from memplace_env.workload.program import Program, TensorKind
from tests import reference
from tests.strategies import accelerators, mappings, programs


@st.composite
def timings(draw: st.DrawFn, program: Program, chip: Accelerator) -> MemoryPlan:
    """Any levels and any transfers: the simulator's rules are defined for plans that no validator would pass."""
    tensor = st.integers(0, program.num_tensors - 1)
    time = st.integers(0, program.num_ops)
    transfers = []
    for _ in range(draw(st.integers(0, 12))):
        near = draw(st.integers(0, chip.backing - 1))
        ends = (near, chip.backing) if draw(st.booleans()) else (chip.backing, near)
        transfers.append((draw(tensor), *ends, *sorted((draw(time), draw(time)))))
    levels = st.lists(st.integers(0, chip.backing), min_size=program.num_uses, max_size=program.num_uses)
    no_blocks = np.empty((0, 5), dtype=np.int64)
    return MemoryPlan.of(program, chip, np.array(draw(levels)), no_blocks, np.array(transfers, dtype=np.int64))


@settings(max_examples=300)
@given(st.data())
def test_kernel_equals_reference(data):
    program, chip = data.draw(programs()), data.draw(accelerators())
    plan = data.draw(timings(program, chip))
    report, expected = BuiltinSimulator().run(program, chip, plan), reference.simulate(program, chip, plan)
    assert report.latency_ps == expected.latency
    assert report.op_time_ps.tolist() == expected.op_times
    assert report.stall_ps.tolist() == expected.stalls
    assert report.tail_ps == expected.tail
    assert (report.op_time_ps >= report.port_ps[:, -1]).all()


@settings(max_examples=200)
@given(st.data())
def test_no_plan_beats_the_lower_bound_and_backing_memory_is_worst(data):
    program, chip = data.draw(programs()), data.draw(accelerators())
    report = simulate(program, chip, compile_mapping(program, chip, data.draw(mappings(program, chip))).plan)
    assert 0 < report.lower_bound_ps <= report.latency_ps
    assert report.energy_j > 0
    assert (report.peak_bytes[:-1] <= [level.capacity_bytes for level in chip.levels[:-1]]).all()


def machine(**changes) -> Accelerator:
    """1 MAC/ns, backing 1 byte/ns, fast 10 bytes/ns."""
    levels = (
        MemoryLevel("fast", 100, 10**10, 10**10, 0, 1.0),
        MemoryLevel("slow", 10**6, 10**9, 10**9, 0, 10.0),
    )
    plain = Accelerator(
        name="plain",
        description="",
        ports="parallel",
        weights="streamed",
        fusion="none",
        dtype="int8",
        matrix_macs_per_s={"int8": 10**9},
        vector_ops_per_s={"int8": 10**9},
        mac_pj={"int8": 1.0},
        vector_pj={"int8": 1.0},
        op_overhead_ps=0,
        static_power_w=0.0,
        dma_efficiency=1.0,
        systolic=None,
        levels=levels,
    )
    return replace(plain, **changes)


def three_ops(work: int = 50) -> Program:
    """input (10 B) -> a (20 B) -> b (30 B) -> output (10 B), the third op with a weight of 40 B."""
    builder = ProgramBuilder("three", "int8")
    x, w = builder.tensor("x", 10, TensorKind.INPUT), builder.tensor("w", 40, TensorKind.WEIGHT)
    a, b = builder.tensor("a", 20), builder.tensor("b", 30)
    y = builder.tensor("y", 10, TensorKind.OUTPUT)
    builder.op("A", [x], [a], gemm=(1, work, 1, 1))
    builder.op("B", [a], [b], gemm=(1, work, 1, 1))
    builder.op("C", [b, w], [y], gemm=(1, work, 1, 1))
    return builder.build()


NS = 1000


def test_roofline_by_hand():
    program, chip = three_ops(), machine()
    slow = compile_mapping(program, chip, [1] * 5).plan
    assert simulate(program, chip, slow).op_time_ps.tolist() == [50 * NS, 50 * NS, 80 * NS]
    fast = compile_mapping(program, chip, [0] * 5).plan
    report = simulate(program, chip, fast)
    # The last op reads 70 bytes at 10 bytes/ns beside 10 bytes at 1 byte/ns: compute is what takes longest.
    assert report.op_time_ps.tolist() == [50 * NS] * 3
    assert report.bound_by.tolist() == [-1, -1, -1]
    serial = machine(ports="serial")
    report = simulate(program, serial, compile_mapping(program, serial, [1, 1, 0, 0, 1]).plan)
    assert report.op_time_ps.tolist() == [50 * NS, 50 * NS, 53 * NS]
    assert report.memory_loss_ps.tolist() == [0, 0, 3 * NS]


def hand_plan(program: Program, chip: Accelerator, start: int, end: int) -> MemoryPlan:
    """The weight (tensor 1) prefetched during start..end, all else in backing memory."""
    levels = np.ones(program.num_uses, dtype=np.int64)
    levels[(program.use_tensor == 1)] = 0
    blocks, copies = np.array([[1, 0, 0, start, 2]]), np.array([[1, 1, 0, start, end]])
    return MemoryPlan.of(program, chip, levels, blocks, copies)


def test_transfers_use_leftover_then_stall():
    chip = machine()
    # Ops 0 and 1 use the backing port for 30 and 50 of their 50 ns: 20 ns are left for the 40-byte weight.
    report = simulate(three_ops(), chip, hand_plan(three_ops(), chip, 0, 1))
    assert report.stall_ps.tolist() == [0, 0, 20 * NS]
    assert report.latency_ps == (50 + 50 + 20 + 50) * NS
    # With twice the work there is room for all of it.
    assert simulate(three_ops(100), chip, hand_plan(three_ops(100), chip, 0, 1)).stall_ps.sum() == 0
    # Half the DMA bandwidth makes the copy cost twice.
    half = machine(dma_efficiency=0.5)
    assert simulate(three_ops(), half, hand_plan(three_ops(), half, 0, 1)).stall_ps.sum() == 60 * NS


def test_write_back_at_the_end_is_the_tail():
    program, chip = three_ops(), machine()
    levels = np.ones(program.num_uses, dtype=np.int64)
    levels[program.use_tensor == 4] = 0
    plan = MemoryPlan.of(program, chip, levels, np.array([[4, 0, 0, 2, 3]]), np.array([[4, 0, 1, 3, 3]]))
    report = simulate(program, chip, plan)
    assert report.tail_ps == 10 * NS
    assert report.latency_ps == report.op_time_ps.sum() + 10 * NS


def test_invalid_plans_are_not_timed():
    program, chip = three_ops(), machine()
    with pytest.raises(PlanError, match="does not hold it"):
        simulate(program, chip, MemoryPlan.of(program, chip, np.zeros(program.num_uses), np.empty((0, 5))))


def test_unsupported_dtype_and_absurd_sizes_are_refused():
    program = three_ops()
    other = replace(program, dtype="float32")
    with pytest.raises(WorkloadError, match=r"no float32 unit.*'int8'"):
        compile_mapping(other, machine(), [1] * 5)
    endless = replace(program, gemm=np.full((3, 4), 50_000))
    with pytest.raises(WorkloadError, match="smaller dims"):
        compile_mapping(endless, machine(), [1] * 5)


def test_simulators_resolve():
    assert isinstance(resolve_simulator(None), BuiltinSimulator)
    assert isinstance(resolve_simulator("builtin"), Simulator)
    with pytest.raises(MemPlaceError, match="installed: builtin"):
        resolve_simulator("nothing")
    with pytest.raises(MemPlaceError, match="needs run"):
        resolve_simulator(3)

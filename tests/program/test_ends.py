"""Inputs and outputs as inner results: the same network, whose ends live as long as a caller needs them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import WorkloadError
from memplace_env.machine.costs import Roofline
from memplace_env.placement.compiler import all_backing, place_levels
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.simulator.builtin import time_plan
from memplace_env.placement.validation import violations
from memplace_env.program.blocks import (
    ARRIVAL,
    DEPARTURE,
    aligned,
    end_tensors,
    inner_ops,
    inner_uses,
    kinds_of,
    with_ends,
)
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from memplace_env.program.slicing import sliced
from tests.by_hand import machine, three_ops
from tests.placement.plan.test_validate_alias import TASK as ALIASED
from tests.strategies import accelerators, cost_models, programs, programs_with_pairs, tensor_levels
from tests.thorough import examples

THREE = three_ops()
ENDS = (TensorKind.INPUT, TensorKind.OUTPUT)


@examples(100)
@given(programs() | programs_with_pairs())
def test_ends_live_as_long_as_the_caller_needs_them(program):
    """Inputs from the first op to their last reader, outputs from their op to the end; all else as before."""
    other = with_ends(program)
    ops, shift = inner_ops(other), int(ARRIVAL in other.op_type)
    assert other.op_type[ops] == program.op_type
    assert (other.op_type[0] == ARRIVAL, other.op_type[-1] == DEPARTURE) == tuple(
        bool((program.tensor_kind == kind).any()) for kind in ENDS
    )
    inputs, outputs = (program.tensor_kind == kind for kind in ENDS)
    assert not np.isin(other.tensor_kind, ENDS).any()
    np.testing.assert_array_equal(kinds_of(other), program.tensor_kind)
    np.testing.assert_array_equal(end_tensors(other), np.flatnonzero(inputs | outputs))
    last = other.num_ops - 1
    np.testing.assert_array_equal(other.live_start, np.where(inputs, 0, program.live_start + shift))
    np.testing.assert_array_equal(other.live_end, np.where(outputs, last, program.live_end + shift))
    for field in ("use_tensor", "use_is_result", "use_bytes"):
        np.testing.assert_array_equal(getattr(other, field)[inner_uses(other)], getattr(program, field))
    np.testing.assert_array_equal(other.handovers, program.handovers + np.array([0, 0, shift]))
    assert with_ends(other).sha256 == other.sha256


def test_slices_come_afterwards():
    rows = np.stack([np.ones_like(THREE.tensor_bytes), THREE.tensor_bytes], 1)
    with pytest.raises(WorkloadError, match="slice it afterwards"):
        with_ends(sliced(replace(THREE, tensor_rows=rows), 10))


def test_what_shares_its_place_stays_in_the_backing_memory():
    program = ALIASED.program
    other = with_ends(program)
    kept = np.concatenate([program.alias_of[program.alias_of >= 0], np.flatnonzero(program.alias_of >= 0)])
    np.testing.assert_array_equal(other.tensor_kind[kept], program.tensor_kind[kept])


@examples(100)
@given(programs() | programs_with_pairs(), accelerators(), cost_models(), st.sampled_from([1, 16, 64]), st.data())
def test_ends_cost_next_to_nothing(program, chip, costs, alignment, data):
    """Ops take what they did where inputs and outputs lie in the backing memory, and the ends a latency at most."""
    plain = make_task(program, chip, costs=costs)
    task = resolve_task(program, chip, costs=costs, io_level="any", alignment=alignment)
    inner, plan = inner_ops(task.program), all_backing(task)
    if isinstance(costs, Roofline):
        before, after = time_plan(plain, all_backing(plain)), time_plan(task, plan)
        np.testing.assert_array_equal(after.op_time_ps[inner], before.op_time_ps)
        most = task.costs.latency_ps[-1] * 2 + len(task.program.use_tensor) - len(program.use_tensor)
        assert 0 <= after.latency_ps - before.latency_ps <= most
    placed = place_levels(task, data.draw(tensor_levels(task))).plan
    assert violations(task, placed) == []
    report, untouched = (
        time_plan(task, placed),
        ~np.isin(np.arange(task.program.num_ops), range(task.program.num_ops)[inner]),
    )
    assert report.op_time_ps[untouched].max(initial=0) <= task.costs.latency_ps.sum() + task.program.num_tensors


def test_an_op_of_a_model_may_have_the_type_of_an_end():
    build = ProgramBuilder("named", "int8")
    build.tensor("x", 8, TensorKind.INPUT)
    build.tensor("y", 8, TensorKind.OUTPUT)
    build.op(ARRIVAL, [0], [1], vector_ops=8)
    program = build.build()
    assert inner_ops(program) == slice(0, 1)
    assert inner_ops(with_ends(program)) == slice(1, 2)
    assert make_task(program, machine()).costs.use_ps.min() > 1


@examples(50)
@given(programs() | programs_with_pairs(), st.sampled_from([2, 16, 256]))
def test_aligned_programs_move_what_they_did(program, alignment):
    other = aligned(program, alignment)
    assert not (other.tensor_bytes % alignment).any()
    assert ((other.tensor_bytes - program.tensor_bytes) < alignment).all()
    assert (other.tensor_bytes >= program.tensor_bytes).all()
    np.testing.assert_array_equal(other.use_bytes, program.use_bytes)
    np.testing.assert_array_equal(other.handovers, program.handovers)

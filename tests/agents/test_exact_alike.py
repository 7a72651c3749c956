"""Slices that are alike: the exact agent counts them, and finds what it finds when it tries each."""

from dataclasses import replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from memplace_agents.exact.static import static_model
from memplace_agents.exact.static.alike import Alike, alike
from memplace_agents.exact.static.static_model import build
from memplace_agents.exact.static.static_solve import solve_model
from memplace_env.placement.compiler.placing_order import latency_ps
from memplace_env.placement.resolve_task import make_task
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from memplace_env.program.slicing import sliced
from memplace_env.testing import RandomCosts
from tests.by_hand import machine
from tests.strategies import accelerators, programs, programs_with_pairs
from tests.thorough import examples


@st.composite
def sliced_tasks(draw):
    program = draw(programs() | programs_with_pairs())
    rows = np.stack([np.ones(program.num_tensors, dtype=np.int64), np.maximum(1, program.tensor_bytes // 8)], 1)
    halo = draw(st.integers(0, 1)) * np.ones(program.num_uses, dtype=np.int64)
    largest = int(program.tensor_bytes[program.is_placeable].max(initial=1))
    program = sliced(replace(program, tensor_rows=rows, use_halo=halo), max(1, largest // draw(st.integers(2, 6))))
    assume(program.slices is not None)
    model = draw(st.sampled_from([None, RandomCosts(draw(st.integers(0, 9)))]))
    return make_task(program, draw(accelerators()), costs=model)


@examples(40, deadline=None)
@given(sliced_tasks())
def test_groups_are_of_equal_slices(task):
    groups, program, costs = alike(task), task.program, task.costs
    for first in np.unique(groups.first):
        members = np.flatnonzero(groups.first == first)
        assert sorted(groups.rank[members]) == list(range(len(members)))
        assert (groups.size[members] == len(members)).all()
        assert len(np.unique(program.tensor_bytes[members])) == 1
        assert len(np.unique(program.whole_tensor[members])) == 1
        uses = [np.flatnonzero(program.use_tensor == member) for member in members]
        assert all((costs.use_ps[uses[0]] - costs.use_ps[own]).max(initial=0) <= 1 for own in uses)
        assert all((groups.costs.use_ps[own] <= costs.use_ps[own]).all() for own in uses)


@examples(40, deadline=None)
@given(sliced_tasks())
def test_counting_slices_finds_the_optimum_of_trying_each(task):
    own = np.arange(task.program.num_tensors)
    one_by_one = Alike(own, np.zeros_like(own), np.ones_like(own), task.costs)
    counted = solve_model(build(task), [], 0.0, None)
    with_each = _solved_with(task, one_by_one)
    # Shares of slices that are alike differ by a picosecond at most.
    slack = task.program.num_uses + 1 + 1e-9 * with_each.claim.bound_ps
    assert abs(counted.claim.bound_ps - with_each.claim.bound_ps) <= slack


def test_ports_that_only_many_slices_keep_busy_for_longer_than_the_op_computes():
    """Nine slices read and nine written: 18 ns of the port, where the op computes for 10 ns."""
    builder = ProgramBuilder("slices", "int8")
    x, h = builder.tensor("x", 1, TensorKind.INPUT), builder.tensor("h", 90, rows=(1, 9))
    g, y = builder.tensor("g", 90, rows=(1, 9)), builder.tensor("y", 1, TensorKind.OUTPUT)
    builder.op("Make", [x], [h])
    builder.op("Relu", [h], [g], vector_ops=10)
    builder.op("Sum", [g], [y])
    fast, slow = machine().levels
    task = make_task(sliced(builder.build(), 10), machine(levels=(replace(fast, capacity_bytes=999), slow)))
    assert (alike(task).size == 9).sum() == 18
    answer = solve_model(build(task), [], 0.0, None)
    assert abs(answer.claim.bound_ps - latency_ps(task, answer.level)) <= 1


def _solved_with(task, groups):
    kept, static_model.alike = static_model.alike, lambda task: groups
    try:
        return solve_model(build(task), [], 0.0, None)
    finally:
        static_model.alike = kept

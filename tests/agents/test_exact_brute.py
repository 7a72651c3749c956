"""Exact against exhaustion: all mappings, and for each all addresses, on programs that are small enough."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memplace_agents.evaluator import OneShotEvaluator
from memplace_agents.exact.address_search import pack
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic.detail import Detail, is_tractable
from memplace_agents.exact.dynamic.dynamic_search import Search
from memplace_agents.exact.static.cuts import cut
from memplace_agents.exact.static.level_moves import lives
from memplace_agents.exact.static.static_model import build
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.compiler.compile import plan_of_levels
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import backing_port_ps, evaluate_plan
from memplace_env.placement.validation import violations
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from memplace_env.testing import RandomCosts
from memplace_env.testing.strategies import accelerators, programs, tasks
from tests.agents.test_exact import GAP, all_mappings, best_compiled, chip_with, run
from tests.thorough import examples

MOST_MAPPINGS, MOST_BLOCKS = 300, 5


def offsets(task, level):
    """int64[K] offsets for every tensor in a fast level, or None if there are none; of resident weights.

    Blocks are taken in every order, each as low as it can be beside those before, below what its ops reserve: if any
    addresses exist, then also some that one of the orders finds, as all blocks of a packing can be pushed down in
    order of address.
    """
    program, found = task.program, np.zeros(task.program.num_tensors, dtype=np.int64)
    weight = program.tensor_kind == TensorKind.WEIGHT
    first, last = np.where(weight, 0, program.live_start), np.where(weight, program.num_ops - 1, program.live_end)
    for at in range(task.backing):
        blocks = np.flatnonzero(program.is_placeable & (level == at)).tolist()
        ceiling = {
            block: task.accelerator.levels[at].capacity_bytes
            - task.costs.reserved_bytes[first[block] : last[block] + 1, at].max()
            for block in blocks
        }
        for order in permutations(blocks):
            if _pushed_down(task, order, first, last, ceiling, found):
                break
        else:
            return None
    return found


def _pushed_down(task, order, first, last, ceiling, found):
    size = task.program.tensor_bytes
    for rank, block in enumerate(order):
        beside = [o for o in order[:rank] if first[o] <= last[block] and last[o] >= first[block]]
        floors = [0, *(found[other] + size[other] for other in beside)]
        fits = [
            floor
            for floor in floors
            if all(floor + size[block] <= found[o] or found[o] + size[o] <= floor for o in beside)
        ]
        found[block] = min(fits)
        if found[block] + size[block] > ceiling[block]:
            return False
    return True


def best_of_all_plans(task):
    """Latency in ps of the best plan of all with one level for each tensor, on a chip with resident weights."""
    levels = all_mappings(task, most=MOST_MAPPINGS)
    assume(task.program.is_placeable.sum() <= MOST_BLOCKS)
    nowhere = np.zeros(task.program.num_tensors, dtype=np.int64)
    latency = [evaluate_plan(task, plan_of_levels(task, level, nowhere), trusted=True).latency_ps for level in levels]
    for index in np.argsort(latency, kind="stable"):
        found = offsets(task, levels[index])
        if found is not None:
            assert violations(task, plan_of_levels(task, levels[index], found)) == []
            return latency[index]
    raise AssertionError("everything fits into the backing memory")


def least_port_time(task, latency_ps):
    """Least time of the backing port in ps, of all plans with one level for each tensor and at most that latency."""
    nowhere = np.zeros(task.program.num_tensors, dtype=np.int64)
    least = np.iinfo(np.int64).max
    for level in all_mappings(task, most=MOST_MAPPINGS):
        plan = plan_of_levels(task, level, nowhere)
        port_ps = backing_port_ps(task, plan)
        fast_enough = evaluate_plan(task, plan, trusted=True).latency_ps <= latency_ps
        if port_ps < least and fast_enough and offsets(task, level) is not None:
            least = port_ps
    return least


@st.composite
def reserving_tasks(draw, weights=None):
    """Tasks in which ops reserve unevenly, close to where blocks lie, at any cost."""
    task = draw(tasks(programs(max_ops=4), accelerators(weights), st.builds(RandomCosts, st.integers(0, 2**32))))
    capacity = [level.capacity_bytes for level in task.accelerator.levels[:-1]]
    reserved = [[draw(st.integers(0, size)) for size in capacity] + [0] for _ in range(task.program.num_ops)]
    return replace(task, costs=task.costs._replace(reserved_bytes=np.array(reserved, dtype=np.int64)))


def with_room(task):
    """The task on a chip whose levels hold everything beside what ops reserve."""
    room = int(task.program.tensor_bytes.sum() + task.costs.reserved_bytes.max())
    levels = tuple(replace(level, capacity_bytes=room + at) for at, level in enumerate(task.accelerator.levels))
    return replace(task, accelerator=replace(task.accelerator, levels=levels))


def check_honest(task, best):
    """The bound holds for the best plan there is, and "optimal" is true."""
    solution = run(task)
    latency, bound = solution.report.latency_ps, solution.bound_s * 1e12
    assert violations(task, solution.plan) == []
    assert bound <= best * (1 + 1e-12)
    assert (solution.outcome == "optimal") == (latency <= bound * (1 + GAP))
    if solution.outcome == "optimal":
        assert latency <= best * (1 + GAP)
    return solution


@examples(75)
@given(reserving_tasks("resident"))
def test_proven_cuts_forbid_no_mapping_with_addresses(task):
    levels, model = all_mappings(task, most=MOST_MAPPINGS), build(task)
    assume(task.program.is_placeable.sum() <= MOST_BLOCKS)
    placed = [level for level in levels if offsets(task, level) is not None]
    columns = np.zeros((len(placed), len(model.cost)))
    for row, level in enumerate(placed):
        fast = np.flatnonzero(level < task.backing)
        chosen = model.column[fast, level[fast]]
        columns[row, chosen[chosen >= 0]] = 1
    for level in levels:
        for conflict in pack(task, lives(task, level), seed=0)[1]:
            if conflict.proven and (model.alike.size == 1).all():
                rows = cut(task, model, conflict, level)
                assert (rows.matrix @ columns.T >= rows.lower[:, None] - 1e-9).all()


@examples(75)
@given(reserving_tasks("resident"))
def test_uneven_reservations_never_give_a_wrong_optimum(task):
    best = best_of_all_plans(task)
    assert check_honest(task, best).report.latency_ps >= best


@examples(75)
@given(tasks(programs(max_ops=4), accelerators("resident")))
def test_nothing_beats_an_optimum_whatever_things_cost(task):
    best = best_of_all_plans(task)
    assert check_honest(task, best).report.latency_ps >= best


@examples(75)
@given(tasks(programs(max_ops=4), accelerators("resident")))
def test_of_equally_fast_plans_it_is_the_one_that_uses_the_backing_port_least(task):
    assume(task.program.is_placeable.sum() <= MOST_BLOCKS)
    solution = run(task)
    least = least_port_time(task, solution.report.latency_ps)
    found = backing_port_ps(task, solution.plan)
    assert found >= least
    assert found <= least * (1 + GAP) or solution.outcome != "optimal"


@examples(50)
@given(reserving_tasks("streamed"))
def test_uneven_reservations_beside_streamed_weights(task):
    check_honest(task, best_compiled(task))


@examples(50)
@given(tasks(programs(max_ops=4), accelerators("resident")))
def test_where_everything_fits_it_is_the_best_of_all_mappings(task):
    task = with_room(task)
    best = best_compiled(task)
    assert check_honest(task, best).outcome == "optimal"


@examples(60)
@given(tasks(programs(max_ops=5), accelerators("streamed")), st.integers(0, 2**32))
def test_no_copy_at_any_time_beats_the_bound(task, seed):
    """Plans with copies that begin earlier than the compiler's, or so late that ops wait for them."""
    task = with_room(task)
    program, rng, bound = task.program, np.random.default_rng(seed), run(task).bound_s * 1e12
    offset = np.cumsum(program.tensor_bytes) - program.tensor_bytes
    movable = program.is_placeable & ((program.producer >= 0) | (program.live_start > 0))
    for _ in range(20):
        level = np.where(movable, rng.integers(0, task.accelerator.num_levels, len(movable)), task.backing)
        start = rng.integers(0, np.maximum(program.live_start, 1))
        plan = plan_of_levels(task, level, offset, start)
        assert violations(task, plan) == []
        assert evaluate_plan(task, plan, trusted=True).latency_ps >= bound * (1 - 1e-12)


@pytest.mark.parametrize("weights", ["streamed", "resident"])
def test_blocks_lie_where_only_later_ops_reserve(weights):
    builder = ProgramBuilder("halves", "int8")
    x, y = builder.tensor("x", 1, TensorKind.INPUT), builder.tensor("y", 1, TensorKind.OUTPUT)
    early, late = builder.tensor("early", 5000), builder.tensor("late", 5000)
    builder.op("Make", [x], [early])
    builder.op("Turn", [early], [late])
    builder.op("Read", [late], [y])
    task = make_task(builder.build(), chip_with(10_000, weights=weights))
    task = replace(task, costs=task.costs._replace(reserved_bytes=np.array([[0, 0], [0, 0], [5000, 0]])))
    solution = run(task)
    assert (solution.outcome, len(solution.plan.allocations)) == ("optimal", 2)
    both = plan_of_levels(
        task, np.where(task.program.is_placeable, 0, task.backing), np.where(np.arange(4) == early, 5000, 0)
    )
    assert violations(task, both) == []
    assert evaluate_plan(task, both).latency_s == solution.report.latency_s


@examples(50)
@given(reserving_tasks("streamed"))
def test_the_program_of_copies_holds_one_level_and_one_copy(task):
    """Its bound holds for the best compiled map, and the plans that it finds are valid and move nothing else."""
    assume(is_tractable(task))
    plans = []

    def offered(plan):
        plans.append(plan)
        return evaluate_plan(task, plan).latency_ps

    clock = Clock.of(OneShotEvaluator(OneShotEnv(task), budget=1))
    search = Search(task, offered, clock, lambda bound: None, 0)
    search.detail = Detail(held=True)
    search.branch_and_bound(GAP / 2, clock)
    assert search.bound_ps <= best_compiled(task) * (1 + 1e-9)
    for plan in plans:
        assert violations(task, plan) == []
        used = [np.unique(plan.use_level[task.program.use_tensor == k]) for k in range(task.program.num_tensors)]
        assert all(len(levels) <= 1 for levels in used)
        assert len(np.unique(plan.transfers[:, 0])) == len(plan.transfers)

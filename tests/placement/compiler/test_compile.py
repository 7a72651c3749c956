"""The compiler: kernels equal the readable reference, and every plan they make can run, whatever ops reserve."""

from dataclasses import replace

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import ActionError
from memplace_env.envs.malloc_game.state import game_tables
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import HEURISTICS, native_plan, native_report, place_levels
from memplace_env.placement.compiler.block_neighbours import no_lists
from memplace_env.placement.compiler.compile import evaluate_assignments, kernel_of, plan_of_levels
from memplace_env.placement.compiler.placing_order import ORDERS, schedule_of
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.simulator.builtin import energy_j
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.validation import violations
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Program, TensorKind
from tests.by_hand import machine
from tests.placement.plan.test_validate_in_place import chain
from tests.references.reference_compiler import compile_levels, granted
from tests.strategies import programs, programs_with_idle_ops, programs_with_pairs, tasks, tensor_levels
from tests.thorough import examples

IDLE_OR_PAIRED = programs_with_idle_ops() | programs_with_pairs(programs_with_idle_ops())

CROWDS = 400


def evaluate(task, wanted, threads=None):
    return evaluate_assignments(
        schedule_of(task, "weights-before-results"), np.array(wanted), np.arange(task.program.num_tensors), threads
    )


@examples(300)
@given(tasks(IDLE_OR_PAIRED), st.sampled_from(ORDERS), st.data())
def test_kernel_equals_reference(task, order, data):
    levels = data.draw(tensor_levels(task))
    compiled = place_levels(task, levels, order)
    plan, reassigned = compile_levels(task, levels, order)
    assert compiled.plan == plan
    assert compiled.reassigned_bytes == reassigned


@examples(200)
@given(tasks(IDLE_OR_PAIRED), st.sampled_from(ORDERS), st.data())
def test_kernel_equals_reference_where_blocks_are_a_crowd(task, order, data):
    levels = np.array(data.draw(tensor_levels(task)), dtype=np.int64)
    schedule = schedule_of(task, order)
    schedule = schedule._replace(crowded=True, near=no_lists(len(schedule.by_rank)))
    out, got = np.empty((3, 1), dtype=np.int64), np.empty((1, len(levels)), dtype=np.int8)
    placed = kernel_of(schedule)(schedule, levels[None], np.arange(len(levels)), out, got, 0, 1)
    plan, reassigned = compile_levels(task, levels.tolist(), order, crowded=True)
    assert plan_of_levels(task, got[0], *placed) == plan
    assert out[2, 0] == reassigned
    assert out[0, 0] == evaluate_plan(task, plan).latency_ps


@pytest.mark.parametrize("name", ["nnp-i", "tpu-v4i"])
def test_a_program_is_crowded_where_lists_are_given_up(name):
    """Results of 6,000 ops that the last op reads: 18 million pairs."""
    builder = ProgramBuilder("crowd", "int8")
    results = [builder.tensor("input", 64, TensorKind.INPUT)]
    for op in range(6000):
        results.append(builder.tensor(f"result_{op}", 64 + op % 7, TensorKind.ACTIVATION))
        builder.op("Make", [results[op]], [results[-1]])
    builder.op("Join", results[1:], [builder.tensor("output", 64, TensorKind.OUTPUT)])
    task = make_task(builder.build(), load_accelerator(name))
    assert schedule_of(task, ORDERS[0]).crowded
    assert violations(task, native_plan(task)) == []
    assert not schedule_of(make_task(random_dag(0, ops=60), load_accelerator(name)), ORDERS[0]).crowded


@examples(200)
@given(tasks(programs(100) | programs_with_pairs(programs(100))), st.sampled_from(ORDERS), st.data())
def test_plans_are_valid(task, order, data):
    plan, moved = place_levels(task, data.draw(tensor_levels(task)), order)
    assert violations(task, plan) == []
    assert moved <= task.program.tensor_bytes[task.program.is_placeable].sum()


@examples(150)
@given(tasks(programs() | programs_with_pairs()), st.data())
def test_the_batch_kernel_says_what_the_simulator_says(task, data):
    rows = [data.draw(tensor_levels(task)) for _ in range(3)]
    batch = evaluate(task, rows)
    for index, row in enumerate(rows):
        plan, moved = place_levels(task, row)
        report = evaluate_plan(task, plan)
        assert report.latency_ps == batch.latency_ps[index]
        assert report.energy_j == energy_j(int(batch.dynamic_pj[index]), report.latency_ps, task.accelerator)
        assert moved == batch.reassigned_bytes[index]
        assert np.array_equal(batch.level[index][task.program.use_tensor], plan.use_level)
        assert report.stall_ps.sum() == report.tail_ps == 0


@pytest.mark.parametrize("weights", ["resident", "streamed"])
def test_kernels_are_compiled_once(weights):
    """Numba compiles anew for each type: arrays of few tensors and of many have the same layout and may be written."""
    sizes = (2, 3, 40)  # a row with one number is contiguous however it lies
    made = [make_task(random_dag(ops, ops=ops, largest=60), machine(weights=weights)) for ops in sizes]
    assert len({numba.typeof(schedule_of(task, order)) for task in made for order in ORDERS}) == 1
    tables = {numba.typeof(game_tables(task)) for task in made}
    assert len(tables) == 1
    assert all(array.mutable for array in tables.pop().types if isinstance(array, numba.types.Array))


@pytest.mark.parametrize("name", ["nnp-i", "tpu-v4i"])
def test_threads_do_not_change_results(name):
    task = make_task(random_dag(5, ops=60), load_accelerator(name))
    rows = np.random.default_rng(0).integers(0, task.accelerator.num_levels, (1000, task.program.num_tensors))
    one, two = (evaluate(task, rows, threads) for threads in (1, 2))
    assert all((a == b).all() for a, b in zip(one, two, strict=True))


@examples(60)
@given(tasks(programs() | programs_with_pairs()))
def test_native_is_the_fastest_of_its_three_orders_with_and_without_results_in_place(task):
    program = task.program
    reads = [program.use_bytes[program.use_tensor == k].max() for k in range(program.num_tensors)]
    weight = program.tensor_kind == TensorKind.WEIGHT
    wanted = np.where(weight & (reads < program.tensor_bytes), task.backing, 0)
    orders = ("weights-before-results", "results-before-weights", "all-results-first")
    plans = [place_levels(task, wanted, order, in_place).plan for order in orders for in_place in (True, False)]
    reports = [evaluate_plan(task, plan) for plan in plans]
    assert all(plan.handed_over(program) == [] for plan in plans[1::2])
    assert native_report(task).latency_ps == min(report.latency_ps for report in reports)
    assert native_plan(task) is native_plan(task), "computed once"


@examples(60)
@given(tasks(programs() | programs_with_pairs()))
def test_heuristics_make_valid_plans_no_slower_than_without_results_in_place(task):
    apart = replace(task, program=replace(task.program, inplace=np.zeros((0, 2), dtype=np.int64)))
    for heuristic in HEURISTICS.values():
        plan = heuristic(task)
        assert violations(task, plan) == []
        assert evaluate_plan(task, plan).latency_ps <= evaluate_plan(apart, heuristic(apart)).latency_ps


def crowd_with_pairs(rng) -> Program:
    """Draw a program of many results of odd sizes alive at once, most of which may take an operand's place."""
    build = ProgramBuilder("crowd", "int8")
    alive, size = [build.tensor("x", 8, TensorKind.INPUT)], [8]
    for op in range(int(rng.integers(8, 30))):
        operands = sorted({alive[index] for index in rng.integers(max(0, len(alive) - 8), len(alive), 3)})
        results, pairs = [], []
        for _ in range(rng.integers(1, 3)):
            of = int(rng.choice(operands))
            size.append(size[of] if of and rng.random() < 0.8 else int(rng.integers(3, 40)))
            results.append(build.tensor(f"r{len(size)}", size[-1]))
            pairs += [(k, results[-1]) for k in operands if k and size[k] == size[-1]]
        build.op(f"op{op}", operands, results, inplace=pairs)
        alive += results
    build.op("end", alive[-2:], [build.tensor("y", 8, TensorKind.OUTPUT)])
    return build.build()


@pytest.mark.parametrize("weights", ["resident", "streamed"])
def test_kernel_equals_reference_where_chains_find_no_address(weights):
    rng, moved = np.random.default_rng(0), 0
    chip = machine(weights=weights)
    for _ in range(CROWDS):
        program = crowd_with_pairs(rng)
        room = (rng.uniform(0.5, 0.8, 2) * program.live_bytes_in_place.max()).astype(int).tolist()
        levels = [replace(chip.levels[0], name=f"level {n}", capacity_bytes=size) for n, size in enumerate(room)]
        task = make_task(program, replace(chip, levels=(*levels, chip.levels[1])))
        rows = rng.choice(3, (4, program.num_tensors), p=(0.9, 0.1, 0.0))
        wanted, order = rows[-1].tolist(), str(rng.choice(ORDERS))
        out, got = np.empty((3, 4), dtype=np.int64), np.empty(rows.shape, dtype=np.int8)
        schedule = schedule_of(task, order)
        placed = kernel_of(schedule)(schedule, rows, np.arange(program.num_tensors), out, got, 0, 4)
        plan, _ = compile_levels(task, wanted, order)
        assert plan_of_levels(task, got[-1], *placed) == plan
        assert violations(task, plan) == []
        moved += granted(task, wanted, order) != plan.tensor_levels(program).tolist()
    assert moved >= CROWDS // 20, "blocks without an address step down"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("weights", ["resident", "streamed"])
def test_a_chain_in_place_has_one_address(weights, order):
    """b and d lie over a and c, and y's input over them: 80 bytes hold what needs 120 side by side."""
    chip = machine(weights=weights)
    level = replace(chip.levels[0], capacity_bytes=80)
    task = make_task(chain(), replace(chip, levels=(level, *chip.levels[1:])))
    wanted = np.where(task.program.is_placeable, 0, task.backing)
    compiled = place_levels(task, wanted, order)
    assert compiled.reassigned_bytes == 0
    assert violations(task, compiled.plan) == []
    assert len(compiled.plan.handed_over(task.program)) == 2
    assert place_levels(task, wanted, order, in_place=False).reassigned_bytes > 0


def test_bad_levels_are_refused():
    task = make_task(random_dag(1), load_accelerator("nnp-i"))
    good = np.zeros(task.program.num_tensors, dtype=np.int64)
    for bad in (good[:-1], good.astype(float), good - 1, good + 3, good[None]):
        with pytest.raises(ActionError, match="evels"):
            place_levels(task, bad)

"""Exact: bounds hold, optima are optimal, addresses are found where they exist."""

import os
import time
from dataclasses import replace
from itertools import permutations, product

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agents.exact import Exact
from agents.exact.cuts import cut
from agents.exact.kernels import FOUND, GAVE_UP, NONE_EXISTS, climb, place_in_order, search
from agents.exact.mapping import latency_ps, lives
from agents.exact.model import build, lifetimes, live_sets
from agents.exact.packing import Blocks, fit, pack
from agents.exact.quiet import stdout_on_stderr
from agents.exact.solve import solve
from memplace_env.accelerator import load_accelerator
from memplace_env.compiler import compile_mapping
from memplace_env.compiler.compile import plan_of_levels
from memplace_env.compiler.evaluate import evaluate
from memplace_env.compiler.schedule import is_placeable, schedule
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.errors import AgentError
from memplace_env.plan import validate
from memplace_env.simulator import BuiltinSimulator, cost_tables
from memplace_env.workload.builder import ProgramBuilder
from memplace_env.workload.program import TensorKind
from memplace_env.workload.synthetic import planted, random_dag
from memplace_env.testing.strategies import accelerators, programs

GAP = 1e-4
NNP_I = load_accelerator("nnp-i")

FRAGMENTING = [(1, 0, 1), (2, 1, 4), (2, 2, 3)]
"""(size, first, last) in a memory of 4: taken in order of time, the second block leaves no hole for the third."""
FRAGMENTING_HEIGHT = 4
UNPACKABLE = list(
    zip(
        [3, 2, 2, 2, 1, 3, 1, 2, 2, 1, 3, 2],
        [0, 0, 1, 1, 0, 2, 1, 3, 3, 2, 4, 4],
        [0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4],
        strict=True,
    )
)
"""At most 6 are alive at once, yet they need 7: found by random search, proven by exhaustion."""
UNPACKABLE_HEIGHT = 6


def all_mappings(program, chip, most=20_000):
    """Every mapping of the placeable tensors; the rest in the backing memory."""
    items = np.flatnonzero(is_placeable(program))
    assume(chip.num_levels ** len(items) <= most)
    grid = np.array(list(product(range(chip.num_levels), repeat=len(items))), dtype=np.int64)
    rows = np.full((len(grid), program.num_tensors), chip.backing)
    rows[:, items] = grid.reshape(len(grid), len(items))
    return rows


def fits_by_sums(program, chip, level):
    """Whether no level ever holds more than its capacity, and streamed weights have time to arrive."""
    first, last = lifetimes(program, chip)
    for at in range(chip.backing):
        here = np.flatnonzero(is_placeable(program) & (level == at))
        if (first[here] < 0).any():
            return False
        load = live_sets(first[here], last[here]) @ program.tensor_bytes[here]
        if load.max(initial=0) > chip.levels[at].capacity_bytes:
            return False
    return True


def as_blocks(table):
    return Blocks(*(np.array(column, dtype=np.int64) for column in zip(*table, strict=True)))


def program_of(table, unit=1000):
    """A program whose inner results have these sizes and lifetimes."""
    builder = ProgramBuilder("blocks", "int8")
    entry, end = builder.tensor("in", 1, TensorKind.INPUT), builder.tensor("out", 1, TensorKind.OUTPUT)
    blocks = [builder.tensor(f"block_{index}", size * unit) for index, (size, _, _) in enumerate(table)]
    ops = max(last for *_, last in table) + 1
    for op in range(ops):
        reads = [b for b, (_, first, last) in zip(blocks, table, strict=True) if first < op == last]
        made = [b for b, (_, first, _) in zip(blocks, table, strict=True) if first == op]
        builder.op("Synthetic", [entry, *reads], made + [end] * (op == ops - 1))
    return builder.build()


def chip_with(*capacities, **changes):
    """nnp-i with other capacities of its fast levels."""
    sizes = [*capacities, NNP_I.levels[-1].capacity_bytes]
    levels = [*NNP_I.levels[: len(capacities)], NNP_I.levels[-1]]
    levels = [replace(level, capacity_bytes=size) for level, size in zip(levels, sizes, strict=True)]
    return replace(NNP_I, levels=tuple(levels), **changes)


def packed(program, chip, level):
    return pack(program, chip, lives(program, chip, level), seed=0)


def run(program, chip, **options):
    return Exact(GAP).solve(OneShotEnv(program, chip), **options)


@settings(max_examples=80)
@given(st.data())
def test_bound_holds_and_optimal_means_optimal(data):
    program, chip = data.draw(programs(max_ops=3)), data.draw(accelerators())
    rows = all_mappings(program, chip)
    best = evaluate(schedule(program, chip), rows, np.arange(program.num_tensors)).latency_ps.min()
    solution = run(program, chip)
    latency, bound = solution.report.latency_ps, solution.bound_s * 1e12
    assert validate(program, chip, solution.plan) == []
    assert bound <= best * (1 + 1e-12)
    assert bound <= latency * (1 + 1e-12)
    assert (solution.outcome == "optimal") == (latency <= bound * (1 + GAP))
    if solution.outcome == "optimal":
        assert latency <= best * (1 + GAP)


def latency_without_addresses(program, chip, level):
    """What the simulator says if all blocks start at address 0 and copies may begin at once."""
    nowhere = np.zeros(program.num_tensors, dtype=np.int64)
    return BuiltinSimulator().run(program, chip, plan_of_levels(program, chip, level, nowhere, nowhere)).latency_ps


@settings(max_examples=120)
@given(st.data())
def test_model_is_the_latency_of_mappings_whose_sums_fit(data):
    program, chip = data.draw(programs(max_ops=3)), data.draw(accelerators())
    fitting = [row for row in all_mappings(program, chip, most=3000) if fits_by_sums(program, chip, row)]
    best = min(latency_without_addresses(program, chip, row) for row in fitting)
    answer = solve(build(program, chip), [], 0.0, None)
    assert answer.bound_ps <= best <= answer.bound_ps * (1 + 1e-5) + 1
    assert fits_by_sums(program, chip, answer.level)
    assert latency_without_addresses(program, chip, answer.level) <= best * (1 + 1e-5)


@pytest.mark.parametrize("topology", ["chain", "diamond", "fan-out"])
@pytest.mark.parametrize("seed", range(3))
def test_planted_optimum_is_reached(topology, seed):
    program = planted(topology, ops=24, seed=seed).program
    solution = run(program, NNP_I)
    assert solution.outcome == "optimal"
    assert solution.report.latency_ps == cost_tables(program, NNP_I).compute_ps.sum()


@pytest.mark.parametrize("ports", ["parallel", "serial"])
def test_streamed_answers_are_valid_and_honest(ports):
    chip = replace(load_accelerator("tpu-v4i"), ports=ports, dtype="bfloat16")
    program = random_dag(3, ops=30, dtype="bfloat16", largest=60_000_000)
    solution = run(program, chip)
    assert validate(program, chip, solution.plan) == []
    assert solution.report.latency_s <= solution.native_latency_s
    assert solution.gap >= 0
    assert solution.outcome in ("optimal", "feasible")


def test_search_agrees_with_all_placing_orders():
    rng = np.random.default_rng(0)
    for _ in range(60):
        count = int(rng.integers(1, 7))
        first = rng.integers(0, 5, count)
        blocks = Blocks(rng.integers(1, 5, count), first, first + rng.integers(0, 4, count))
        offset = np.empty(count, dtype=np.int64)
        least = min(place_in_order(np.array(order), *blocks, False, offset) for order in permutations(range(count)))
        assert search(*blocks, least, 10**6, offset)[0] == FOUND
        assert (offset + blocks.size).max() == least
        assert search(*blocks, least - 1, 10**6, offset)[0] == NONE_EXISTS


def test_search_gives_up_and_climb_is_seeded():
    blocks, offset = as_blocks(UNPACKABLE), np.empty(len(UNPACKABLE), dtype=np.int64)
    assert search(*blocks, UNPACKABLE_HEIGHT, 10, offset)[0] == GAVE_UP
    runs = []
    for seed in (1, 1):
        order = np.arange(len(UNPACKABLE))
        runs.append((climb(order, *blocks, UNPACKABLE_HEIGHT, 500, seed, offset), order.tolist(), offset.tolist()))
    assert runs[0] == runs[1]
    assert runs[0][0] == UNPACKABLE_HEIGHT + 1


def test_addresses_are_found_where_the_compiler_finds_none():
    program, chip = program_of(FRAGMENTING), chip_with(FRAGMENTING_HEIGHT * 1000)
    fast = np.where(is_placeable(program), 0, chip.backing)
    assert compile_mapping(program, chip, fast).reassigned_bytes > 0
    offset, conflicts = packed(program, chip, fast)
    assert conflicts == []
    assert validate(program, chip, plan_of_levels(program, chip, fast, offset)) == []
    solution = run(program, chip)
    assert solution.outcome == "optimal"
    assert solution.report.latency_ps == latency_ps(program, chip, fast)


def test_unpackable_results_are_proven_so_and_cut_off():
    program, chip = program_of(UNPACKABLE), chip_with(UNPACKABLE_HEIGHT * 1000)
    fast = np.where(is_placeable(program), 0, chip.backing)
    assert fits_by_sums(program, chip, fast)
    (conflict,) = packed(program, chip, fast)[1]
    assert conflict.proven
    assert conflict.height == (UNPACKABLE_HEIGHT + 1) * 1000
    model = build(program, chip)
    before, after = (solve(model, cuts, 0.0, None) for cuts in ([], [cut(program, chip, model, conflict)]))
    assert before.bound_ps < after.bound_ps
    assert (after.level[conflict.blocks] > 0).any()

    solution = run(program, chip)
    assert validate(program, chip, solution.plan) == []
    assert solution.outcome == "optimal"
    assert latency_ps(program, chip, fast) < solution.report.latency_ps


@pytest.mark.parametrize("seed", range(4))
def test_proven_cuts_forbid_no_packable_mapping(seed):
    table = UNPACKABLE + [(1, 0, 4)] * (seed % 2)
    program, chip = program_of(table), chip_with(UNPACKABLE_HEIGHT * 1000)
    model = build(program, chip)
    fast = np.where(is_placeable(program), 0, chip.backing)
    rows = cut(program, chip, model, packed(program, chip, fast)[1][0])
    rng = np.random.default_rng(seed)
    for _ in range(200):
        level = np.where(rng.random(program.num_tensors) < rng.random(), fast, chip.backing)
        if not packed(program, chip, level)[1]:
            columns = np.zeros(len(model.cost))
            columns[model.column[np.flatnonzero(level == 0), 0]] = 1
            assert (rows.matrix @ columns >= rows.lower - 1e-9).all()


def test_fit_is_within_the_height():
    blocks = as_blocks(UNPACKABLE)
    assert fit(blocks, UNPACKABLE_HEIGHT, seed=0).outcome == NONE_EXISTS
    found = fit(blocks, UNPACKABLE_HEIGHT + 1, seed=0)
    assert found.outcome == FOUND
    assert (found.offset + blocks.size).max() == found.peak == UNPACKABLE_HEIGHT + 1
    assert fit(blocks, max(blocks.size) - 1, seed=0).outcome == NONE_EXISTS


def test_same_seed_same_plan():
    program = random_dag(11, ops=40)
    first, second = (run(program, chip_with(2_000_000, 9_000_000), seed=5) for _ in range(2))
    assert first.plan == second.plan
    assert first.evaluations == second.evaluations


def test_time_limit_is_kept():
    program, chip = random_dag(2, ops=400, largest=4_000_000), chip_with(4_000_000, 12_000_000)
    run(random_dag(1), chip)
    begin = time.process_time()
    solution = run(program, chip, time_limit=0.5)
    assert time.process_time() - begin < 3
    assert solution.outcome in ("optimal", "feasible")
    assert validate(program, chip, solution.plan) == []
    assert solution.bound_s <= solution.report.latency_s


def test_stray_output_leaves_stdout_alone(capfd):
    with stdout_on_stderr():
        os.write(1, b"noise")
    print("answer")
    assert capfd.readouterr() == ("answer\n", "noise")


def test_budget_and_callback():
    told = []
    solution = run(random_dag(7, ops=20), chip_with(10_000, 50_000), budget=1, callback=told.append)
    assert solution.evaluations >= 1
    assert [progress.evaluations for progress in told] == list(range(1, len(told) + 1))
    assert told[-1].latency_s == solution.report.latency_s


def test_nothing_to_place():
    builder = ProgramBuilder("empty", "int8")
    x, y = builder.tensor("x", 10, TensorKind.INPUT), builder.tensor("y", 10, TensorKind.OUTPUT)
    builder.op("Relu", [x], [y], vector_ops=10)
    assert run(builder.build(), NNP_I).outcome == "optimal"


def test_what_it_refuses():
    class Other:
        def run(self, program, accelerator, plan):
            raise NotImplementedError

    for gap in (0.0, 1e-9, 1.0, float("nan")):
        with pytest.raises(AgentError, match="mip_gap"):
            Exact(gap)
    with pytest.raises(AgentError, match="built-in simulator"):
        Exact().solve(OneShotEnv(random_dag(1), NNP_I, simulator=Other()))


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["ResNet50", "ResNet101", "BERT"])
def test_zoo_is_solved_to_optimality(workload):
    env = gym.make(f"MemPlace-{workload}-v0")
    solution = Exact(GAP).solve(env, time_limit=120)
    assert solution.outcome == "optimal"
    assert validate(env.unwrapped.program, env.unwrapped.accelerator, solution.plan) == []

"""EGRL's surrogate: its bookkeeping, its costs and what it learns, against plain computations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.egrl import egrl_run
from memplace_agents.egrl.imagination import imagined
from memplace_agents.egrl.surrogate import Surrogate
from memplace_agents.learning.graph_policy import GraphPolicy
from memplace_agents.search.evaluator import Evaluator, OneShotEvaluator
from memplace_env._lib.units import PS
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.machine.costs.cost_arrays import op_times
from memplace_env.machine.costs.op_time_kernels import used_by_level
from memplace_env.placement.compiler.density import block_lives
from memplace_env.placement.compiler.placing_order import latency_ps
from memplace_env.placement.synthetic import TOPOLOGIES, random_dag
from memplace_env.program.program import TensorKind
from tests.agents.egrl import small
from tests.agents.planted import optimum_ps, planted_env
from tests.thorough import examples

SEEDS = st.integers(0, 2**32 - 1)


def problem_of(seed, chip="nnp-i", ops=10):
    """A program that does not fit."""
    dtype = "int8" if chip == "nnp-i" else "bfloat16"
    return OneShotEnv(random_dag(seed, ops=ops, dtype=dtype, largest=60_000_000), chip).problem


def granted(problem, rng):
    """A random assignment, and the levels that the compiler grants it."""
    assignment = rng.integers(problem.accelerator.num_levels, size=problem.num_decisions)
    return assignment, problem.evaluate(assignment[None]).level[0]


def levels_of(problem, assignment):
    """The levels of all tensors if each gets what its decision requests."""
    return np.where(problem.decision_of >= 0, assignment[problem.decision_of], problem.accelerator.backing)


def fits(problem, level):
    """Return whether the bytes of levels fit into each fast memory in each op."""
    task, (first, last) = problem.task, block_lives(problem.task)
    reserved = task.costs.reserved_bytes
    for fast in range(task.backing):
        for op in range(task.program.num_ops):
            here = (level == fast) & (first <= op) & (op <= last)
            kept = reserved[op, fast] if task.streams_weights else reserved[:, fast].max()
            if task.program.tensor_bytes[here].sum() + kept > task.accelerator.levels[fast].capacity_bytes:
                return False
    return True


@examples(25)
@given(st.integers(0, 1000), SEEDS, st.sampled_from(["nnp-i", "tpu-v4i"]), st.sampled_from([0.0, 1e-6, np.inf]))
def test_chains_end_where_they_say(seed, draw, chip, heat_s):
    """From levels that each decision gets whole: the time is that of the cost arrays, and the bytes fit."""
    problem, rng = problem_of(seed, chip), np.random.default_rng(draw)
    assignment, level = granted(problem, rng)
    assignment = problem.assignments_of(level[None])[0]
    if not np.array_equal(levels_of(problem, assignment), level):
        return
    end, slower_s = Surrogate(problem, learns=False).annealed(assignment, level, 50, heat_s, draw)
    after = levels_of(problem, end)
    assert fits(problem, after)
    assert slower_s == pytest.approx((latency_ps(problem.task, after) - latency_ps(problem.task, level)) * PS)
    assert problem.mask[np.arange(len(end)), end][end != assignment].all()
    if heat_s == 0:
        assert slower_s <= 0


def test_chains_of_a_seed_are_the_same():
    problem = problem_of(3)
    assignment, level = granted(problem, np.random.default_rng(0))
    runs = [Surrogate(problem, False).annealed(assignment, level, 200, 1e-6, seed) for seed in (1, 1, 2)]
    assert (runs[0][0] == runs[1][0]).all()
    assert runs[0][1] == runs[1][1]
    assert (runs[0][0] != runs[2][0]).any()


def levels_with_room(problem, assignment):
    """Levels when each tensor, by decision, gets the fastest from the requested one down that has room and time."""
    task, levels = problem.task, np.full(problem.program.num_tensors, problem.accelerator.backing)
    program, costs, copied_ps = task.program, task.costs, 0
    for tensor in np.argsort(problem.decision_of, kind="stable"):
        decision = problem.decision_of[tensor]
        if decision < 0:
            continue
        is_copied = task.streams_weights and program.tensor_kind[tensor] == TensorKind.WEIGHT
        used = used_by_level(program.use_ptr, levels[program.use_tensor], costs.use_ps)
        times = op_times(costs, used)
        before = slice(0, program.live_start[tensor])
        spare_ps = (times.op_ps - times.port_ps[:, -1])[before].sum() - copied_ps
        for level in range(assignment[decision], task.backing):
            levels[tensor] = level if problem.mask[decision, level] else task.backing
            needed_ps = costs.prefetch_ps[tensor] if is_copied and levels[tensor] < task.backing else 0
            if levels[tensor] == level and fits(problem, levels) and needed_ps <= spare_ps:
                copied_ps += needed_ps
                break
            levels[tensor] = task.backing
    return levels


@examples(25)
@given(st.integers(0, 1000), SEEDS, st.sampled_from(["nnp-i", "tpu-v4i"]))
def test_assignments_take_as_long_as_with_the_levels_that_have_room(seed, draw, chip):
    problem, rng = problem_of(seed, chip), np.random.default_rng(draw)
    assignments = rng.integers(problem.accelerator.num_levels, size=(5, problem.num_decisions))
    legal = problem.mask[np.arange(problem.num_decisions), assignments]
    assignments = np.where(legal, assignments, problem.task.backing)
    expected = [latency_ps(problem.task, levels_with_room(problem, assignment)) for assignment in assignments]
    assert Surrogate(problem, learns=False).latencies_s(assignments) == pytest.approx(np.array(expected) * PS)


# Imagination.


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_planted_optimum_is_imagined(topology):
    env = planted_env(topology, ops=8, seed=6)
    problem, surrogate = env.problem, Surrogate(env.problem, learns=False)
    first = problem.native_assignment[None]
    best = imagined(problem, surrogate, first, 20_000, seed=0)
    assert problem.evaluate(best[:1]).latency_s[0] == pytest.approx(optimum_ps(env) * PS)
    times_s = surrogate.latencies_s(best)
    assert (np.diff(times_s) >= 0).all()
    assert len(np.unique(np.concatenate([first, best]), axis=0)) == 1 + len(best), "known assignments are not repeated"
    assert problem.mask[problem.movable, best[:, problem.movable]].all()
    assert (imagined(problem, surrogate, first, 20_000, seed=0) == best).all()


def test_imagination_that_must_end_at_once_finds_nothing():
    problem = problem_of(3)
    first = problem.native_assignment[None]
    assert len(imagined(problem, Surrogate(problem, False), first, 1000, 0, lambda: False)) == 0


@pytest.mark.parametrize("budget", [20, 1000])
def test_imagination_has_its_share_of_budget_and_time(budget, monkeypatch):
    """Two workloads: until a quarter and until half of the time."""
    clock, asked = [0.0], []

    def stub(problem, surrogate, first, samples, seed, may_go_on):
        while may_go_on():
            clock[0] += 0.5
        asked.append((samples, clock[0]))
        return first[:0]

    monkeypatch.setattr(egrl_run, "imagined", stub)
    monkeypatch.setattr(Evaluator, "seconds", property(lambda _: clock[0]))
    envs = [planted_env(seed=seed) for seed in (4, 5)]
    evaluators = [OneShotEvaluator(env, budget=budget, time_limit=100) for env in envs]
    run = egrl_run.EgrlRun(small(imagined=64_000), GraphPolicy, evaluators, None, seed=0)
    run.begin()
    assert [seconds for _, seconds in asked] == [25.0, 50.0]
    for evaluator, (given_samples, _) in zip(evaluators, asked, strict=True):
        assert given_samples == min(256 * evaluator.remaining, 64_000)


def test_corrections_of_the_cost_arrays_count():
    problem, rng = planted_env(ops=10).problem, np.random.default_rng(0)
    surrogate = Surrogate(problem, learns=True)
    levels = problem.evaluate(rng.integers(3, size=(64, problem.num_decisions))).level
    measured_s = np.array([latency_ps(problem.task, level) for level in levels]) * PS * 1.5
    before_s = surrogate.latencies_s(problem.assignments_of(levels))
    surrogate.observe(levels, measured_s)
    after_s = surrogate.latencies_s(problem.assignments_of(levels))
    assert np.abs(after_s - measured_s).mean() < 0.5 * np.abs(before_s - measured_s).mean()


def test_differences_from_the_cost_arrays_are_learned():
    """A box in which every level of every decision costs something more."""
    problem, rng = planted_env(ops=10).problem, np.random.default_rng(0)
    surrogate, extra_s = Surrogate(problem, learns=True), rng.random(problem.mask.shape) * 1e-5
    levels = problem.evaluate(rng.integers(3, size=(400, problem.num_decisions))).level
    chosen = problem.assignments_of(levels)
    nominal_s = np.array([latency_ps(problem.task, level) for level in levels]) * PS
    measured_s = nominal_s + 1e-4 + extra_s[np.arange(problem.num_decisions), chosen].sum(axis=1)
    for rows in np.split(np.arange(300), 30):
        surrogate.observe(levels[rows], measured_s[rows])
    predicted_s = np.array([surrogate.latency_s(level) for level in levels[300:]])
    before, after = (np.std(measured_s[300:] - model) for model in (nominal_s[300:], predicted_s))
    assert after < 0.3 * before
    assert abs((measured_s[300:] - predicted_s).mean()) < 0.3 * before
    other = Surrogate(problem, learns=True)
    other.load_state_dict(surrogate.state_dict())
    assert other.latency_s(levels[0]) == surrogate.latency_s(levels[0])


def test_noise_alone_teaches_next_to_nothing():
    problem, rng = planted_env(ops=10).problem, np.random.default_rng(0)
    surrogate = Surrogate(problem, learns=True)
    levels = problem.evaluate(rng.integers(3, size=(300, problem.num_decisions))).level
    nominal_s = np.array([latency_ps(problem.task, level) for level in levels]) * PS
    noise_s = 0.02 * nominal_s.mean() * rng.standard_normal(300)
    surrogate.observe(levels, nominal_s + noise_s)
    predicted_s = np.array([surrogate.latency_s(level) for level in levels])
    assert np.std(predicted_s - nominal_s) < 0.3 * noise_s.std()

"""EGRL's refinement: what its moves cost, what it keeps, and going on from its state."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agents.egrl.refine import MoveCosts, Refiner
from agents.evaluator import MapEvaluator
from memplace_env.compiler import place_mapping
from memplace_env.envs.one_shot import OneShotEnv, OneShotProblem
from memplace_env.simulator import judge_plan
from memplace_env.testing.strategies import accelerators, programs, tasks
from memplace_env.workload.synthetic import random_dag
from tests.agents.planted import planted_env

SEEDS = st.integers(0, 2**32 - 1)


def without_limits(task):
    """The task with room for everything and no latencies."""
    chip, costs = task.accelerator, task.costs
    levels = tuple(replace(level, capacity_bytes=2**40 + at) for at, level in enumerate(chip.levels))
    nothing = {field: np.zeros_like(getattr(costs, field)) for field in ("latency_ps", "reserved_bytes")}
    return replace(task, accelerator=replace(chip, levels=levels), costs=costs._replace(**nothing))


@settings(max_examples=40)
@given(tasks(programs(max_ops=6), accelerators(weights="resident")), SEEDS)
def test_move_costs_are_what_the_simulator_says(task, seed):
    """With room for everything and no latencies, moving one tensor changes the latency by just that."""
    task = without_limits(task)
    problem, chip, rng = OneShotProblem(task), task.accelerator, np.random.default_rng(seed)
    placed = problem.slot >= 0
    level = np.where(placed, rng.integers(0, chip.num_levels, len(placed)), chip.backing)
    costs = MoveCosts(problem)(level)
    assert costs.shape == problem.mask.shape

    def latency_ps(mapping):
        plan, moved = place_mapping(task, mapping)
        assert moved == 0
        return judge_plan(task, plan).latency_ps

    before = latency_ps(level)
    alone = [k for k in np.flatnonzero(placed) if (problem.slot == problem.slot[k]).sum() == 1]
    assume(alone)
    for tensor in alone:
        for to in range(chip.num_levels):
            moved = level.copy()
            moved[tensor] = to
            change = costs[problem.slot[tensor], to] * 1e12
            assert abs(change - (latency_ps(moved) - before)) <= 1e-9 * before
    assert (costs[~problem.decides] == 0).all()


class Watched(MapEvaluator):
    """Remembers what it was asked."""

    def __init__(self, env, budget):
        super().__init__(env, budget=budget)
        self.asked = []

    def __call__(self, maps):
        self.asked += maps.tolist()
        return super().__call__(maps)


def begun(env, proposals):
    """An evaluator, and a refiner that starts from native's map."""
    evaluator, refiner = Watched(env, budget=proposals + 1), Refiner(env.problem, proposals)
    start = env.problem.native_map
    result = evaluator(start[None])
    refiner.offer(start, result.latency_s[0].item(), result.level[0])
    return evaluator, refiner


@settings(max_examples=15)
@given(st.integers(0, 1000), SEEDS, st.sampled_from([5, 40]))
def test_refinement_asks_only_where_there_is_a_choice_and_keeps_the_best(seed, draw, proposals):
    env = OneShotEnv(random_dag(seed, ops=8, largest=60_000_000), "nnp-i")
    evaluator, refiner = begun(env, proposals)
    fixed = env.problem.mask.sum(axis=1) == 1
    if not refiner.can_move:
        assert fixed.all()
        return
    rng = np.random.default_rng(draw)
    for _ in range(proposals):
        refiner.step(rng, evaluator)
    asked = np.array(evaluator.asked)
    assert len(asked) == evaluator.evaluations == proposals + 1
    assert env.problem.check(asked, (len(asked),)).max() <= env.accelerator.backing
    assert (asked[:, fixed] == env.problem.native_map[fixed]).all()
    latency = env.score(asked)[1].latency_s
    assert env.score(refiner.best[None])[1].latency_s[0] == latency.min()


def test_what_is_offered_is_kept_only_if_better():
    env = planted_env()
    evaluator, refiner = begun(env, 50)
    native = refiner.best.copy()
    worse = np.full(env.problem.map_size, env.accelerator.backing)
    result = evaluator(worse[None])
    refiner.offer(worse, result.latency_s[0].item(), result.level[0])
    assert (refiner.best == native).all()
    refiner.offer(worse, 0.0, result.level[0])
    worse[:] = 0
    assert (refiner.best == env.accelerator.backing).all()


@pytest.mark.parametrize("at", [0, 7, 33, 49])
@pytest.mark.parametrize("ops", [6, 20])
def test_refiners_go_on_from_their_state(at, ops):
    """Twenty ops leave few proposals for each decision, six leave many: the two kinds of chain."""
    env, runs = planted_env(ops=ops), []
    for interrupted in (False, True):
        evaluator, refiner = begun(env, 150 if ops == 6 else 50)
        rng = np.random.default_rng(3)
        for step in range(50):
            if interrupted and step == at:
                other = Refiner(env.problem, 150 if ops == 6 else 50)
                other.load_state_dict(refiner.state_dict())
                refiner = other
            refiner.step(rng, evaluator)
        runs.append((evaluator.asked, refiner.best.tolist()))
    assert runs[0] == runs[1]

"""Calibrated: factors are found again, its terms are the simulator's, and it finds optima that costs do not tell."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents import Auto, Exact, Portfolio, make_agent
from memplace_agents.calibrated import Calibrated
from memplace_agents.calibrated.cost_factors import CostFactors
from memplace_agents.calibrated.repeated_measurements import MODEL_SIGMA, MeasuredPlan, Measurements
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.wrappers import MeasurementNoise
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import BuiltinSimulator, EventSimulator, evaluate_plan, time_plan
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.validation import violations
from memplace_env.testing import check_agent
from memplace_env.testing.strategies import game_tasks, tasks
from memplace_leaderboard.black_box import BlackBox
from tests.thorough import examples

ONE_SHOT = "synthetic:diamond?ops=9&seed=1"


class LatencyOnly:
    """The nominal machine, of whose report nothing but the latency is left."""

    noisy = False

    def __init__(self):
        self.asked = 0

    def run(self, program, accelerator, plan):
        self.asked += 1
        report = BuiltinSimulator().run(program, accelerator, plan)
        none = np.zeros_like(report.op_time_ps)
        return replace(
            report,
            op_time_ps=none,
            compute_ps=none,
            port_ps=np.zeros_like(report.port_ps),
            stall_ps=none,
            tail_ps=0,
            bytes_moved=np.zeros_like(report.bytes_moved),
            peak_bytes=np.zeros_like(report.peak_bytes),
            energy_j=0.0,
            traffic_bound_ps=1,
        )


def one_shot(simulator=None, workload=ONE_SHOT, **options):
    return gym.make("MemPlace-v0", workload=workload, simulator=simulator, **options).unwrapped


def game(simulator=None, ops=7):
    program = random_dag(3, ops=ops, largest=60_000_000)
    return gym.make("MallocGame-v0", workload=program, simulator=simulator).unwrapped


def random_plans(task, count, seed):
    """Return plans of random levels."""
    rng = np.random.default_rng(seed)
    size = task.accelerator.num_levels, task.program.num_tensors
    return [place_levels(task, rng.integers(size[0], size=size[1])).plan for _ in range(count)]


def assert_terms_are_the_simulators(task, plans):
    factors = CostFactors(task)
    modelled = factors.latency_ps([factors.terms(plan) for plan in plans], np.zeros(len(factors.names)))
    assert modelled == pytest.approx([time_plan(task, plan).latency_ps for plan in plans], rel=1e-12, abs=1)


@examples(30)
@given(tasks(), st.integers(0, 99))
def test_without_factors_the_model_is_the_simulator(task, seed):
    assert_terms_are_the_simulators(task, random_plans(task, 3, seed))


@examples(30)
@given(game_tasks())
def test_without_factors_the_model_is_the_simulator_in_games(task):
    assert_terms_are_the_simulators(task, list(cheap_plans(MallocGameEnv(task).problem).values()))


@examples(15)
@given(tasks(), st.integers(0, 99))
def test_factors_that_were_planted_are_found_again(task, seed):
    """Plans that were not measured are timed within a quarter of what the factors change, or within 2 %."""
    factors, rng = CostFactors(task), np.random.default_rng(seed)
    planted = rng.normal(0, 0.2, len(factors.names))
    truth = replace(task, costs=factors.costs(planted))
    plans = random_plans(task, 40, seed)
    latency = np.array([time_plan(truth, plan).latency_ps for plan in plans])
    terms = [factors.terms(plan) for plan in plans]
    fitted = factors.fit(terms[:30], np.log(latency[:30]), np.full(30, 1e-6))
    nominal = np.abs(np.log(factors.latency_ps(terms[30:], np.zeros(len(factors.names))) / latency[30:]))
    error = np.abs(np.log(factors.latency_ps(terms[30:], fitted.mean) / latency[30:]))
    assert error.max() <= max(0.25 * nominal.max(), 0.02)


def test_draws_are_spread_as_the_measurements_allow():
    """Factors that no measurement tells have their prior's spread; the latency of measured plans is known."""
    task = one_shot().task
    factors = CostFactors(task)
    terms = [factors.terms(plan) for plan in random_plans(task, 20, 0)]
    fitted = factors.fit(terms, np.log(factors.latency_ps(terms, np.zeros(len(factors.names)))), np.full(20, 1e-4))
    rng = np.random.default_rng(0)
    draws = np.array([fitted.drawn(rng) for _ in range(200)])
    latency = np.log([factors.latency_ps(terms[:1], draw)[0] for draw in draws])
    assert latency.std() < 0.02
    assert draws.std(axis=0).max() > 0.15


def test_measurements_weigh_by_their_number():
    measured = Measurements(0.05)
    task = one_shot().task
    for count, plan in zip((1, 25, 1), random_plans(task, 3, 5), strict=True):
        measured.add(MeasuredPlan(plan, None, None, [2.0] * count))
    once, often, _ = measured.estimates(np.array([1.0, 1.0, 2.0]))
    assert once == pytest.approx(1 + MODEL_SIGMA**2 / (MODEL_SIGMA**2 + 0.05**2))
    assert often == pytest.approx(1.5)
    assert measured.estimates(np.full(3, 2.0)).tolist() == [2.0, 2.0, 2.0]


def test_noise_that_is_unknown_is_estimated_from_repeats():
    measured, rng = Measurements(None), np.random.default_rng(1)
    for plan in random_plans(one_shot().task, 5, 1):
        measured.add(MeasuredPlan(plan, None, None, list(rng.normal(9, 0.1, 40))))
    assert measured.noise == pytest.approx(0.1, rel=0.15)


@pytest.mark.parametrize("make", [one_shot, game])
def test_a_black_box_that_is_the_nominal_machine_gives_the_optimum(make):
    """Its first measurement is the optimum, which nothing after it replaces."""
    best = Exact().solve(make()).report.latency_ps
    for budget in (1, 30):
        solution = Calibrated().solve(make(LatencyOnly()), budget=budget)
        assert solution.report.latency_ps <= best * 1.01
        assert solution.outcome == "feasible"
        assert solution.bound_s is None


@pytest.mark.parametrize("make", [one_shot, game])
@pytest.mark.parametrize("budget", [1, 2, 25])
def test_budget_and_seed(make, budget):
    box = LatencyOnly()
    env, reports = make(box), []
    before = box.asked
    first = Calibrated().solve(env, budget=budget, seed=4, callback=reports.append)
    assert first.evaluations == reports[-1].evaluations == budget
    assert box.asked - before <= budget + 8  # the baseline and the answer, however large the budget
    assert violations(env.task, first.plan) == []
    again = Calibrated().solve(make(LatencyOnly()), budget=budget, seed=4)
    assert again.plan.to_json() == first.plan.to_json()


@pytest.mark.parametrize("make", [one_shot, game])
def test_noise(make):
    """All measurements are the search's own, and the answer is the nominal optimum or nearly so."""
    best = Exact().solve(make()).report.latency_ps
    added = Calibrated().solve(MeasurementNoise(make(), 0.05), budget=60, seed=2)
    assert added.evaluations == 60
    assert added.report.latency_ps <= 1.02 * best
    box = BlackBox(seed=3, noise=0.05)
    measured = Calibrated().solve(make(box), budget=60, seed=2)
    assert measured.evaluations == 60
    assert 1 <= measured.measurements <= 60
    assert measured.report.op_time_ps.sum() == 0
    again = Calibrated().solve(make(BlackBox(seed=3, noise=0.05)), budget=60, seed=2)
    assert again.plan.to_json() == measured.plan.to_json()


def test_distorted_costs_are_seen_through():
    """On a machine whose costs differ, 60 measurements find a plan that is better than the nominal optimum."""
    gained, resnet = [], {"workload": "ResNet50", "accelerator": "edge-tpu"}
    plan = Exact().solve(one_shot(**resnet)).plan
    for seed in range(3):
        env = one_shot(BlackBox(seed=seed), **resnet)
        nominal = evaluate_plan(env.task, plan)
        solution = Calibrated().solve(env, budget=60, seed=seed)
        assert solution.report.latency_ps <= nominal.latency_ps
        gained.append(nominal.latency_ps / solution.report.latency_ps)
    assert max(gained) > 1.005


def test_where_overlap_decides_it_is_as_good_as_a_local_search():
    """Fitted costs add up what the machine overlaps, which misleads; moves without them spend the rest."""
    env = one_shot(EventSimulator(), workload="MobileNetV2", accelerator="intel-npu-4000")
    latency = {
        name: [make_agent(name).solve(env, budget=100, seed=seed).report.latency_ps for seed in range(2)]
        for name in ("calibrated", "local-search")
    }
    assert sum(latency["calibrated"]) <= 1.015 * sum(latency["local-search"])


def test_slices():
    env = one_shot(LatencyOnly(), workload="AlexNet", slices=0.5)
    assert env.task.program.num_tensors > env.task.program.whole.num_tensors
    solution = Calibrated().solve(env, budget=8)
    assert violations(env.task, solution.plan) == []
    assert solution.evaluations == 8


@pytest.mark.parametrize("simulator", [None, LatencyOnly()])
def test_contract(simulator):
    check_agent(Calibrated(), one_shot(simulator), budget=20)
    check_agent(Calibrated(), game(simulator, ops=5), budget=20)


def test_it_is_what_auto_and_the_portfolio_measure_with():
    for agent, make in ((Auto(), one_shot), (Portfolio(), game)):
        for env in (make(BlackBox()), MeasurementNoise(make(), 0.05)):
            solution = agent.solve(env, budget=40)
            names = [stage_result.name for stage_result in solution.stage_results]
            assert "calibrated" in names
            assert "exact" not in names
            assert solution.evaluations == 40
        assert "calibrated" not in [stage_result.name for stage_result in agent.solve(make(), budget=40).stage_results]


def test_a_part_leaves_its_choice_to_the_whole():
    evaluator = OneShotEvaluator(MeasurementNoise(OneShotEnv(resolve_task(ONE_SHOT)), 0.05), budget=40)
    part = evaluator.part(1.0)
    Calibrated().run(part, 0)
    assert part.incumbent is evaluator.incumbent
    assert evaluator.evaluations == part.evaluations == 40

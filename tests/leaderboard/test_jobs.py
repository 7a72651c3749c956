"""Runs are counted and timed here, whatever the agent reports."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import memplace_agents
from memplace_agents import Agent
from memplace_env._lib.errors import LeaderboardError
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.placement.simulator import evaluate_plan
from memplace_leaderboard import checks, running, verifying
from memplace_leaderboard.checks import check_spending
from memplace_leaderboard.entry import Entry, Point
from memplace_leaderboard.folder import from_line, to_line
from memplace_leaderboard.jobs import Job, play, true_latency_ps
from memplace_leaderboard.pinned import PINNED, baseline_plan, make_env, pinned, task_of
from memplace_leaderboard.references import baselines, known
from memplace_leaderboard.suite import Budget, load_suite, suite_names
from memplace_leaderboard.verifying import read, verify

SUITE, DRAWN = load_suite("quick-v1"), load_suite("black-box-v2")
MACHINE = 7
MAP = next(env_id for env_id in SUITE.instances if formulation_of_id(env_id) is Formulation.ONE_SHOT)
GAME = next(env_id for env_id in SUITE.instances if formulation_of_id(env_id) is Formulation.GAME)


class Hidden(Agent):
    """Evaluates more maps than it says."""

    name = "hidden"
    formulations = (Formulation.ONE_SHOT, Formulation.GAME)

    def run(self, evaluator, seed):
        if evaluator.env.formulation is Formulation.ONE_SHOT:
            evaluator.env.score(np.repeat(evaluator.env.problem.native_assignment[None], 30, axis=0))
        else:
            for _ in range(30):
                evaluator.env.reset(seed=seed)
                done = False
                while not done:
                    done = evaluator.env.step(int(np.flatnonzero(evaluator.env.action_masks())[0]))[2]
        evaluator.offer(baseline_plan(evaluator.env.task, evaluator.env.formulation))


class Talkative(Agent):
    """Asks a black box more often than it says."""

    name = "talkative"
    formulations = (Formulation.ONE_SHOT,)

    def run(self, evaluator, seed):
        plan = baseline_plan(evaluator.env.task, Formulation.ONE_SHOT)
        for _ in range(30):
            evaluate_plan(evaluator.env.task, plan)
        evaluator.offer(plan)


def job(agent, track="search", env_id=MAP, budget="10", seed=0, **fields):
    machine = None if track in SUITE.tracks else MACHINE
    return Job(agent, {}, track_of(track), env_id, Budget(budget), seed, machine_seed=machine, **fields)


def track_of(name):
    return (SUITE if name in SUITE.tracks else DRAWN).track(name)


@pytest.mark.parametrize("env_id", [MAP, GAME])
def test_plans_that_an_agent_does_not_count_are_counted(env_id):
    with pytest.raises(
        LeaderboardError, match=rf"Hidden on {env_id}.*, seed 0: it evaluated 3[01] plans with a budget of 10"
    ):
        play(job(f"{__name__}:Hidden", env_id=env_id))
    assert play(job(f"{__name__}:Hidden", env_id=env_id, budget="100")).evaluations >= 30


def test_measurements_of_a_black_box_are_counted():
    with pytest.raises(LeaderboardError, match="the budget is 20 measurements, which are spent"):
        play(job(f"{__name__}:Talkative", "factors-5", budget="20"))
    assert play(job(f"{__name__}:Talkative", "factors-5", budget="100")).evaluations >= 30


@pytest.mark.parametrize("track", [*SUITE.tracks, "factors-0", "factors-5"])
@pytest.mark.parametrize("agent", ["local-search", "game-local-search"])
def test_a_run_keeps_its_budget_and_can_be_repeated(track, agent):
    env_id, budget = (GAME if agent.startswith("game") else MAP), "10"
    first, again = (play(job(agent, track, env_id, budget, seed=3)) for _ in range(2))
    check_spending(first, track_of(track).noise)
    assert first.plan == again.plan
    assert (first.latency_ps, first.evaluations) == (again.latency_ps, again.evaluations)
    assert first.latency_ps == true_latency_ps(track_of(track), env_id, first.plan, MACHINE)


def test_plans_found_under_noise_count_without():
    """Two noise levels, one machine."""
    plan = play(job("native", "factors-5", budget="own")).plan
    both = {true_latency_ps(DRAWN.track(name), MAP, plan, MACHINE) for name in ("factors-0", "factors-5")}
    assert len(both) == 1
    assert both != {true_latency_ps(SUITE.track("search"), MAP, plan)}


def test_nominal_agents_measure_nothing():
    nominal = play(job("exact", "factors-5", budget="10s", nominal=True))
    plain = play(job("exact", budget="10s"))
    assert nominal.plan == plain.plan
    check_spending(nominal, 0.05)
    assert [point.latency_ps for point in nominal.curve] == [nominal.latency_ps]
    assert nominal.latency_ps != plain.latency_ps


def test_settings_in_a_strangers_plan_name_nothing():
    plan = play(job("native", budget="own")).plan
    strange = replace(plan, settings={"costs": "nowhere:Nothing", "accelerator": "/dev/zero"})
    for name in ("search", "factors-0"):
        assert true_latency_ps(track_of(name), MAP, strange, MACHINE) == true_latency_ps(
            track_of(name), MAP, plan, MACHINE
        )


@pytest.fixture
def sliced_ids():
    """Environments in slices of which the suite has the whole ones."""
    ids = {f"{env_id.removesuffix('-v0')}-Cut-v0": gym.spec(env_id) for env_id in (MAP, GAME)}
    for env_id, spec in ids.items():
        gym.register(env_id, spec.entry_point, kwargs={**spec.kwargs, "slices": 0.1})
    yield list(ids)
    for env_id in ids:
        del gym.registry[env_id]


def found_here(agent, track, env_id, budget):
    """A run in this process, as its environments are unknown to others."""
    plans = int(budget) if budget.isdigit() else 100
    plan = memplace_agents.make_agent(agent).solve(make_env(env_id), budget=plans).plan
    latency_ps = true_latency_ps(track_of(track), env_id, plan, MACHINE)
    return Entry(env_id, budget, 0, plan, latency_ps, plans, 1.0, (Point(plans, 1.0, latency_ps),), 1.0)


@pytest.mark.parametrize("track", ["search", "factors-0"])
def test_plans_in_slices_replay(sliced_ids, track):
    """Plans read from a file do so on the environment that is sliced and on no other."""
    for env_id, whole in zip(sliced_ids, (MAP, GAME), strict=True):
        assert task_of(env_id).program.whole.sha256 == task_of(whole).program.sha256
        agent = "density-greedy" if whole == MAP else "game-local-search"
        budget = "own" if whole == MAP else "10"
        entry = from_line(to_line(found_here(agent, track, env_id, budget)))
        assert entry.plan.settings["slices"] == 0.1
        assert entry.latency_ps == true_latency_ps(track_of(track), env_id, entry.plan, MACHINE)
        with pytest.raises(LeaderboardError, match="made for another program"):
            true_latency_ps(track_of(track), whole, entry.plan, MACHINE)


def test_agents_meet_the_registered_environment():
    for env_id in (MAP, GAME):
        ours, plain = make_env(env_id), gym.make(env_id).unwrapped
        assert type(ours) is type(plain)
        assert ours.spec.id == env_id
        assert ours.task.program.sha256 == plain.task.program.sha256
        assert (
            memplace_agents.make_agent("native").solve(ours).plan
            == memplace_agents.make_agent("native").solve(plain).plan
        )


@pytest.mark.parametrize("name", suite_names())
def test_what_is_pinned_is_what_the_code_makes(name):
    """Programs are the pinned ones, of a few instances of each suite; verifying a submission looks at all."""
    suite = load_suite(name)
    for instance in list(suite.instances.values())[:: max(len(suite.instances) // 4, 1)]:
        now = pinned(instance.env_id)
        assert {field: getattr(instance, field) for field in PINNED} == now


@pytest.mark.parametrize("name", [name for name in suite_names() if "search" in load_suite(name).tracks])
def test_suites_say_what_is_known_of_their_instances(name):
    suite = load_suite(name)
    facts = known(suite, suite.track("search"))
    free = baselines(suite, suite.track("search"))
    assert list(facts) == list(suite.instances) == list(free)
    assert all(each.bound_ps <= each.best_ps <= each.cheap_ps for each in facts.values())
    assert all(each.best_ps <= free[env_id] * (1 + 1e-9) for env_id, each in facts.items())


def test_quick_is_a_part_of_the_others():
    whole = {**load_suite("one-shot-v1").instances, **load_suite("game-v1").instances}
    assert all(whole[env_id] == each for env_id, each in SUITE.instances.items())
    assert len(SUITE.instances) == 8


@pytest.mark.slow
def test_workers_change_nothing_but_seconds(tmp_path, monkeypatch):
    suite = replace(SUITE, seeds=2, instances=dict(list(SUITE.instances.items())[:2]))
    for module in (checks, verifying):
        monkeypatch.setattr(module, "load_suite", lambda name: suite)
    track = suite.track("search")
    meta = running.describe(suite, track, "random", {}, ["10", "100"])
    said = []
    running.run(meta, tmp_path / "one", on_progress=lambda done, of: said.append((done, of)))
    running.run(meta, tmp_path / "two", workers=2)
    assert said == [(done, 8) for done in range(9)]
    one, two = (verify(tmp_path / name) for name in ("one", "two"))
    timeless = [
        [replace(each, seconds=0.0, processor_seconds=None, curve=()) for each in read.entries] for read in (one, two)
    ]
    assert timeless[0] == timeless[1]
    assert read(tmp_path / "one").entries == one.entries

"""The default: a proof where costs add up, a search where they do not, and who found what."""

import gymnasium as gym
import pytest

from memplace_agents import Auto, Exact
from memplace_agents.search.stages import PROOF_WORK
from memplace_agents.solution import Verdict
from memplace_env.placement.compiler import HEURISTICS
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.validation import violations
from tests.agents.planted import planted_env
from tests.agents.test_black_box import Crowded


def test_what_is_proven_is_not_searched():
    env = planted_env(ops=9)
    solution = Auto().solve(env)
    assert solution.outcome == "optimal"
    assert solution.report.latency_ps == Exact().solve(env).report.latency_ps
    assert solution.stage_results[-1].name in ("exact", solution.found_by)
    assert "local-search" not in [stage_result.name for stage_result in solution.stage_results]


def test_what_is_not_proven_is_searched(monkeypatch):
    """The search gets what the proof left."""
    monkeypatch.setattr(Exact, "run", lambda self, evaluator, seed: Verdict(bound_s=1e-9))
    solution = Auto().solve(planted_env(ops=9), budget=200, seed=1)
    assert solution.stage_results[-1].name == "local-search"
    assert solution.bound_s == 1e-9
    assert solution.evaluations == 200


def test_the_proof_has_an_end(monkeypatch):
    """The proof gets nine tenths of the time; where that has no limit, work of a minute."""
    limits = []
    monkeypatch.setattr(Exact, "run", lambda self, evaluator, seed: limits.append((evaluator.seconds_left, self.work)))
    for time_limit in (None, 10.0, 1000.0):
        Auto().solve(planted_env(ops=4), budget=100, time_limit=time_limit)
    seconds, work = zip(*limits, strict=True)
    assert seconds == (None, pytest.approx(9, abs=1), pytest.approx(900, abs=1))
    assert work == (PROOF_WORK,) * 3


def test_where_a_black_box_judges():
    """No proof, and never worse than any heuristic that it tries."""
    env = gym.make("MemPlace-v0", workload="synthetic:diamond?ops=9&seed=1", simulator=Crowded()).unwrapped
    solution = Auto().solve(env, budget=100)
    assert "exact" not in [stage_result.name for stage_result in solution.stage_results]
    assert solution.bound_s is None
    assert violations(env.task, solution.plan) == []
    for rule in ("native", "density-greedy", "all-fastest"):
        assert solution.report.latency_ps <= evaluate_plan(env.task, HEURISTICS[rule](env.task)).latency_ps


def test_stints_say_who_found_what():
    env = planted_env(ops=9)
    solution = Auto().solve(env, budget=100)
    best = min(stage_result.latency_s for stage_result in solution.stage_results)
    assert best == solution.report.latency_s
    assert (
        next(
            stage_result.latency_s for stage_result in solution.stage_results if stage_result.name == solution.found_by
        )
        == best
    )
    assert sum(stage_result.evaluations for stage_result in solution.stage_results) == solution.evaluations
    assert solution.summary()["found_by"] == solution.found_by

"""The portfolio: never worse than XLA's solver, within budget, and whatever stops it keeps what it found."""

import pytest
import torch
from hypothesis import given

from memplace_agents.auto import Portfolio
from memplace_agents.learning.policy_file import save_policy
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.rule_agents import GreedyPlayer, XlaMsa
from memplace_agents.search.agent import Agent
from memplace_agents.search.game_local_search import GameLocalSearch
from memplace_agents.search.stages import PROOF_WORK, Stage
from memplace_agents.solution import Verdict
from memplace_agents.xla_msa import PUBLIC_SETS
from memplace_env._lib.errors import AgentError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.registration import Formulation
from memplace_env.envs.wrappers import MeasurementNoise
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.validation import violations
from tests.agents.test_black_box import Crowded
from tests.strategies import game_tasks
from tests.thorough import examples


class Prover(Agent):
    """Plays the exact agent: proves a share of the best latency so far; no share, nothing."""

    name, formulations = "exact", (Formulation.GAME,)
    share, limits = None, []

    def __init__(self, tie_break="backing", work=None):
        self.tie_break, self.work = tie_break, work

    def run(self, evaluator, seed):
        self.limits.append((evaluator.seconds_left, self.work))
        return Verdict(bound_s=self.share and self.share * evaluator.incumbent_latency_s)


@pytest.fixture(autouse=True)
def _prover(monkeypatch):
    """Make the exact agent prove nothing unless a test says so; its proofs for games are tested elsewhere."""
    monkeypatch.setattr("memplace_agents.auto.Exact", Prover)


def crowded(seed=3, ops=20):
    """A program larger than fast memory, so that there is something to decide."""
    return MallocGameEnv(random_dag(seed, ops=ops, largest=60_000_000), "tpu-v4i")


@examples(40)
@given(game_tasks())
def test_never_worse_than_any_solver_that_comes_cheap(task):
    env = MallocGameEnv(task)
    solution = Portfolio().solve(env, budget=60)
    assert violations(task, solution.plan) == []
    assert solution.evaluations <= 60
    for agent in (*(XlaMsa(each.options) for each in PUBLIC_SETS), GreedyPlayer()):
        assert solution.report.latency_ps <= agent.solve(env).report.latency_ps


@pytest.mark.parametrize("budget", [1, 2, 3, 4, 5, 400])
def test_budget_is_kept_and_everything_counts(budget):
    env, reports = crowded(), []
    solution = Portfolio().solve(env, budget=budget, seed=1, callback=reports.append)
    assert reports[-1].evaluations == solution.evaluations == budget
    evaluations = [progress.evaluations for progress in reports]
    assert evaluations == sorted(evaluations)
    assert solution.report.latency_ps <= XlaMsa().solve(env).report.latency_ps
    assert solution.report.latency_ps == evaluate_plan(env.task, solution.plan).latency_ps
    assert solution.history[-1].latency_s == solution.report.latency_s == reports[-1].latency_s
    latencies = [progress.latency_s for progress in solution.history]
    assert latencies == sorted(set(latencies), reverse=True)


def test_each_solver_gets_its_share():
    limits_seen = []

    class Counted(Agent):
        name, formulations = "counted", (Formulation.GAME,)

        def __init__(self, agent):
            self.agent = agent

        def run(self, evaluator, seed):
            limits_seen.append((evaluator.budget, evaluator.seconds_left))
            return self.agent.run(evaluator, seed)

    stages = [Stage(Counted(agent), share) for agent, share in ((GreedyPlayer(), 0.5), (GameLocalSearch(), 0.25))]
    Portfolio(stages=[*stages, Stage(Counted(GameLocalSearch()), 1.0)]).solve(crowded(), budget=1000, time_limit=60)
    budgets, limits = zip(*limits_seen, strict=True)
    assert budgets[:2] == (500, 999 // 4)
    assert 999 - 999 // 4 <= budgets[2] < 999
    assert 29 < limits[0] <= 30
    assert limits[2] > 2 * limits[1]


def test_a_policy_lets_muzero_play_too(tmp_path):
    with torch.random.fork_rng(devices=[]):
        save_policy(tmp_path / "policy.pt", MuZeroNetwork(hidden=16))
    portfolio = Portfolio(tmp_path / "policy.pt")
    assert [stage.agent.name for stage in portfolio._stages][-2:] == ["muzero", "cross-entropy"]
    env = crowded()
    solution = portfolio.solve(env, budget=200)
    assert solution.evaluations == 200
    assert violations(env.task, solution.plan) == []
    with pytest.raises(AgentError, match="missing"):
        Portfolio(tmp_path / "missing.pt")


@pytest.mark.parametrize(("share", "outcome"), [(1.0, "optimal"), (0.9, "feasible")])
def test_the_exact_agent_proves_before_anybody_searches(monkeypatch, share, outcome):
    """The exact agent has half of the time, or work of a minute, and what it proves is said of the best plan of all."""
    monkeypatch.setattr(Prover, "share", share)
    monkeypatch.setattr(Prover, "limits", [])
    for limit in (100.0, None):
        solution = Portfolio().solve(crowded(), budget=100, time_limit=limit)
        stage_results = [stage_result.name for stage_result in solution.stage_results]
        assert stage_results[:2] == ["best-rule", "exact"]
        assert (stage_results[-1] == "exact") == (outcome == "optimal")
        assert solution.outcome == outcome
        assert solution.bound_s is not None
        assert solution.gap == pytest.approx(solution.report.latency_s / solution.bound_s - 1)
    assert Prover.limits == [(pytest.approx(50, abs=1), PROOF_WORK), (None, PROOF_WORK)]


@pytest.mark.parametrize("doubt", ["noise", "black box"])
def test_nothing_is_proven_where_nothing_can_be(monkeypatch, doubt):
    monkeypatch.setattr(Prover, "share", 1.0)
    boxed = MallocGameEnv(crowded().program, "tpu-v4i", simulator=Crowded())
    env = MeasurementNoise(crowded(), 0.1) if doubt == "noise" else boxed
    solution = Portfolio().solve(env, budget=50)
    assert "exact" not in [stage_result.name for stage_result in solution.stage_results]
    assert solution.bound_s is None


def test_bad_shares_are_named():
    for share in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(AgentError, match="game-local-search"):
            Portfolio(stages=[Stage(GameLocalSearch(), share)])
    with pytest.raises(AgentError, match="budget must be at least 1 evaluation, not 0"):
        Portfolio().solve(crowded(), budget=0)

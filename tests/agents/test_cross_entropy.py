"""The cross-entropy method: its gradient against differences, what it learns, budgets, seeds and planted optima."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents import BestRule, CrossEntropy, cross_entropy
from memplace_agents.learning.plan_distribution import (
    BEST,
    ENTROPY,
    IMITATION,
    DistributionSettings,
    PlanDistribution,
    credit,
    drawn_levels,
)
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.factored_programs import FactoredDecisions, alike_levels
from memplace_env._lib.errors import AgentError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import planted, random_dag
from tests.agents.planted import optimum_ps, planted_env, reach
from tests.thorough import examples

SEEDS = st.integers(0, 2**32 - 1)
SMALL = DistributionSettings(least_samples=8)


def decisions(rng, count=12, levels=3):
    legal = rng.random((count, levels)) < 0.7
    legal[:, -1] = True
    return FactoredDecisions(legal, rng.integers(4, size=count))


@examples(40)
@given(SEEDS)
def test_a_round_follows_the_gradient_of_what_it_maximises(seed):
    """Credited log-likelihood, entropy, and the best plans' log-likelihood, by central differences."""
    rng = np.random.default_rng(seed)
    some, settings, left = decisions(rng), DistributionSettings(), 0.6
    distribution = PlanDistribution(settings, some)
    distribution.logits += rng.normal(size=distribution.logits.shape)
    distribution.role_logits += rng.normal(size=distribution.role_logits.shape)
    levels, latencies = distribution.sample(20, rng, left), rng.random(20)
    best, weights = levels[:5], credit(latencies, BEST)

    def objective(logits):
        logits = logits + distribution.role_logits[some.alike]
        policy = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        chosen = np.log(policy[np.arange(len(policy)), levels])
        imitated = np.log(policy[np.arange(len(policy)), best])
        entropy = -(policy * np.log(np.where(policy > 0, policy, 1))).sum()
        return weights @ chosen.sum(1) / 20 + ENTROPY * left * entropy + IMITATION * imitated.sum() / 5

    before, small, slopes = distribution.logits.copy(), 1e-5, np.zeros(distribution.logits.shape)
    for entry in zip(*some.legal.nonzero(), strict=True):
        shift = np.zeros_like(before)
        shift[entry] = small
        slopes[entry] = (objective(before + shift) - objective(before - shift)) / (2 * small)
    distribution.learn(levels, latencies, best, left)
    clear = abs(slopes) > 1e-4  # Adam's first step has the size of its rate, whatever the slope
    np.testing.assert_allclose(distribution.logits[clear] - before[clear], 0.2 * np.sign(slopes[clear]), rtol=1e-3)
    np.testing.assert_allclose(distribution._mean[:12][some.legal], 0.1 * slopes[some.legal], atol=1e-7)
    for role, mean in enumerate(distribution._mean[12:]):
        twins = some.alike == role
        np.testing.assert_allclose(mean, 0.1 * slopes[twins].sum(0) * (twins.sum() > 1), atol=1e-6)


@examples(20)
@given(SEEDS)
def test_levels_are_legal_and_as_frequent_as_the_probabilities_say(seed):
    rng = np.random.default_rng(seed)
    some = decisions(rng)
    distribution = PlanDistribution(DistributionSettings(), some)
    distribution.logits += rng.normal(size=distribution.logits.shape)
    levels = distribution.sample(4000, rng, 1.0)
    assert np.take_along_axis(some.legal[None], levels[..., None], -1).all()
    np.testing.assert_allclose((levels[..., None] == np.arange(3)).mean(0), distribution.probabilities(), atol=0.05)


def test_the_start_follows_the_settings_of_the_time():
    """A search with a time limit, whose first plans were slow, does not stay near the rules."""
    distribution = PlanDistribution(DistributionSettings(lean=0.0), FactoredDecisions(np.ones((5, 2), dtype=bool)))
    distribution.start_from(np.ones(5, dtype=np.int64))
    for start in (1.0, 0.25):
        distribution.settings = DistributionSettings(start=start)
        np.testing.assert_allclose(distribution.probabilities()[:, 1], 1 / (1 + np.exp(-start)))


def test_what_is_alike_shares_a_number_in_a_part_of_the_plans():
    alike, share = np.array([0, 1, 0, 1, 1, 0]), np.tile([1 / 3, 2 / 3], (6, 1))
    levels = drawn_levels(share, 1000, np.random.default_rng(0), alike, 0.3)
    assert (levels[:300] == levels[:300, alike]).all()
    assert (levels[300:] == levels[300:, alike]).all(1).mean() < 0.2


def test_hidden_levels_are_found():
    """Latency counts the levels that differ from hidden ones; nearly all samples differ in more than half at first."""
    rng = np.random.default_rng(0)
    distribution, hidden = (
        PlanDistribution(DistributionSettings(lean=0.0), FactoredDecisions(np.ones((40, 4), dtype=bool))),
        rng.integers(4, size=40),
    )
    for step in range(80):
        levels = distribution.sample(32, rng, 0.0)
        wrong = (levels != hidden).sum(1).astype(float)
        distribution.learn(levels, wrong, levels[wrong.argsort()[:1]], 1 - step / 80)
    assert (distribution.logits.argmax(1) == hidden).all()


@pytest.mark.parametrize("options", [{"samples": 0}, {"table_rate": np.nan}, {"lean": -1.0}])
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(AgentError, match=next(iter(options))):
        DistributionSettings(**options)


@pytest.mark.parametrize("budget", [1, 3000, 10**6])
def test_long_runs_learn_slowly(budget):
    settings = DistributionSettings().for_budget(budget)
    assert settings.samples == {1: 8, 3000: 13, 10**6: 128}[budget]
    assert settings.table_rate == pytest.approx(
        {1: 0.2, 3000: 0.2 * (13 * 125 / 3000) ** 0.7, 10**6: 0.2 * 0.04**0.7}[budget]
    )


def env_of(formulation, seed=3):
    if formulation == "one-shot":
        return OneShotEnv(random_dag(seed, ops=8, largest=60_000_000), "nnp-i")
    return MallocGameEnv(random_dag(seed, ops=5, largest=60_000_000), "tpu-v4i")


@pytest.mark.parametrize("formulation", ["one-shot", "game"])
def test_a_search_begins_with_the_rules(formulation):
    env = env_of(formulation)
    solution = CrossEntropy(SMALL).solve(env, budget=300, seed=1)
    assert solution.evaluations == 300
    rules = [evaluate_plan(env.task, plan).latency_s for plan in cheap_plans(env.problem).values()]
    assert solution.report.latency_s <= min(rules)


def test_formulations_have_their_own_settings(monkeypatch):
    seen = []

    class Seen(PlanDistribution):
        def start_from(self, levels):
            seen.append(self.settings.lean)
            super().start_from(levels)

    monkeypatch.setattr(cross_entropy, "PlanDistribution", Seen)
    for formulation in ("one-shot", "game"):
        CrossEntropy().solve(env_of(formulation), budget=40)
    assert seen == [1.0, 0.0]


def test_decisions_of_a_map_are_alike_if_levels_mean_the_same_for_them():
    """In a network of twelve equal layers most decisions have eleven twins."""
    problem = gym.make("MemPlace-BERT-v0").unwrapped.problem
    alike, program, costs = alike_levels(problem), problem.program, problem.task.costs
    assert np.median(np.bincount(alike)[alike]) >= 12
    uses = [[] for _ in range(problem.num_decisions)]
    for tensor, row in zip(program.use_tensor, costs.use_ps, strict=True):
        uses[problem.decision_of[tensor]].append(row)

    def meaning(entry):
        size = program.tensor_bytes[problem.decision_of == entry].sum()
        return entry % 2, size, costs.compute_ps[entry // 2], *np.sum(uses[entry], axis=0)

    meanings = [meaning(entry) for entry in problem.movable]
    for one in range(0, len(alike), 7):
        for other in range(len(alike)):
            assert (alike[one] == alike[other]) == (meanings[one] == meanings[other])


@pytest.mark.parametrize(("topology", "seed"), [("diamond", 5), ("fan-out", 4), ("fan-out", 5)])
def test_planted_optima_that_no_rule_finds_are_reached(topology, seed):
    env = planted_env(topology, ops=16, seed=seed)
    assert BestRule().solve(env).report.latency_ps > optimum_ps(env)
    reach(CrossEntropy(), env, 4000)


def test_a_planted_optimum_of_the_game_is_reached():
    """998 of 1,000 random games do not."""
    program = planted("chain", ops=10, seed=2, accelerator="tpu-v4i").program
    reach(CrossEntropy(), MallocGameEnv(program, "tpu-v4i"), 4000)

"""The learners of plan-gradient: advantages, value scales, masks, credit, minibatches."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.learning.factored_learner import EntryDecisions, FactoredLearner, FactoredSettings
from memplace_agents.learning.flat_policy import Critic, FlatPolicy, clipped_gain, masked_log_softmax
from memplace_agents.learning.plan_distribution import TOGETHER, credit
from memplace_agents.learning.rollouts import Turn, advantages
from memplace_agents.plan_gradient.in_turn.on_policy import Demonstration, OnPolicyLearner, _minibatches
from memplace_agents.plan_gradient.in_turn.on_policy_settings import OnPolicySettings
from memplace_env._lib.errors import AgentError
from tests.agents.vector_episodes import VectorEpisodes
from tests.thorough import examples

SEEDS = st.integers(0, 2**32 - 1)


def plain_advantages(reward, value, last, ended, lambda_):
    """The sum of the definition: errors of the decisions to come, weighted by lambda, up to the end of the episode."""
    following = np.append(value[1:], last)
    errors = reward - value + np.where(ended, 0, following)
    ends = [t + int(np.argmax(ended[t:])) if ended[t:].any() else len(reward) - 1 for t in range(len(reward))]
    return [sum(errors[i] * lambda_ ** (i - t) for i in range(t, ends[t] + 1)) for t in range(len(reward))]


@given(SEEDS, st.integers(1, 12), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_advantages_are_those_of_the_definition(seed, steps, lambda_):
    rng = np.random.default_rng(seed)
    reward, value = rng.normal(size=(2, steps, 3)).astype(np.float32)
    last, ended = rng.normal(size=3).astype(np.float32), rng.random((steps, 3)) < 0.3
    found = advantages(reward, value, last, ended, lambda_)
    for b in range(3):
        expected = plain_advantages(reward[:, b], value[:, b], last[b], ended[:, b], lambda_)
        np.testing.assert_allclose(found[:, b], expected, atol=1e-4)


@examples(20)
@given(SEEDS, st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.sampled_from([0.1, 1.0]))
def test_new_scales_keep_values(seed, mean, deviation, weight):
    torch.manual_seed(seed)
    critic, seen = Critic(4, 8, 2), torch.rand(5, 4)
    for program in (0, 1):
        critic.rescale(torch.randn(100) * (program + 1), program, 1.0)
    before = [critic.values(seen, program) for program in (0, 1)]
    critic.rescale(mean + deviation * torch.randn(100), 1, weight)
    for program in (0, 1):
        tolerance = 1e-4 * (1 + abs(mean) + deviation)
        torch.testing.assert_close(critic.values(seen, program), before[program], atol=tolerance, rtol=1e-3)


def test_scales_become_those_of_the_returns():
    critic, returns = Critic(4, 8, 1), 7 + 0.1 * torch.randn(1000, generator=torch.Generator().manual_seed(0))
    for _ in range(200):
        critic.rescale(returns, 0, 0.1)
    assert critic.mean[0].item() == pytest.approx(returns.mean().item(), rel=1e-3)
    assert critic.deviation[0].item() == pytest.approx(returns.std().item(), rel=1e-2)


@given(SEEDS)
def test_illegal_actions_have_no_chance_and_no_gradient(seed):
    rng = np.random.default_rng(seed)
    legal = rng.random((6, 3)) < 0.5
    legal[:, 2] |= ~legal.any(1)
    logits = torch.from_numpy(rng.normal(0, 3, (6, 3)).astype(np.float32)).requires_grad_()
    log_policy = masked_log_softmax(logits, torch.from_numpy(legal))
    chances = log_policy.exp()
    assert (chances[torch.from_numpy(~legal)] == 0).all()
    torch.testing.assert_close(chances.sum(1), torch.ones(6))
    (chances * log_policy).sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[torch.from_numpy(~legal)] == 0).all()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.sampled_from([0.05, 0.2, 1.0]))
def test_credit_goes_to_the_fastest(latencies, best):
    found = credit(np.array(latencies, dtype=float), best)
    assert found.sum() == pytest.approx(0, abs=1e-3)
    order = np.argsort(latencies, kind="stable")
    assert (np.diff(found[order]) <= 1e-6).all()
    assert (found > -1).sum() == max(round(best * len(latencies)), 1)


def test_gains_beyond_the_clip_have_no_gradient():
    change = torch.tensor([0.5, 0.1, -0.5, -0.5], requires_grad=True)
    advantage = torch.tensor([1.0, 1.0, 1.0, -1.0])
    clipped_gain(change, advantage, 0.2).sum().backward()
    assert (change.grad != 0).tolist() == [False, True, True, False]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=3), st.integers(1, 40), SEEDS)
def test_an_epoch_shows_every_decision_once(sizes, share, seed):
    parts = _minibatches(sizes, share, np.random.default_rng(seed))
    for program, size in enumerate(sizes):
        seen = np.concatenate([rows for part in parts for index, rows in part if index == program])
        assert sorted(seen) == list(range(size))


def new_learner(episodes, **options):
    chosen = OnPolicySettings(**{"envs": 8, "steps": 0, "minibatch": 64, "width": 16, "rate": 3e-3, **options})
    torch.manual_seed(0)
    return OnPolicyLearner(chosen, FlatPolicy(episodes.inputs, 16, episodes.actions), [episodes.entries], 0)


@pytest.mark.parametrize("env_id", ["MemPlaceSteps-Tiny-v0", "MallocGame-Tiny-v0"])
def test_learning_raises_returns(env_id):
    episodes, rng = VectorEpisodes(env_id, 32), np.random.default_rng(0)
    learner, means = new_learner(episodes), []
    for _ in range(25):
        episodes.returns.clear()
        rollout = learner.play(episodes, rng)
        assert np.take_along_axis(rollout.legal, rollout.action[..., None], -1).all()
        learner.learn([rollout], rng, 1.0)
        means.append(np.mean(episodes.returns))
    assert np.mean(means[-5:]) > np.mean(means[:5])


def test_many_programs_are_played():
    episodes, rng = VectorEpisodes("MallocGame-Synthetic-v0", 4, seed=1), np.random.default_rng(0)
    learner = new_learner(episodes, steps=32)
    figures = learner.learn([learner.play(episodes, rng)], rng, 1.0)
    assert all(np.isfinite(value) for value in figures.values())


def test_imitation_and_tables_reproduce_a_demonstration():
    rng = np.random.default_rng(0)
    seen = np.zeros((9, 5), dtype=np.float32)  # nothing tells the decisions apart but their number
    turn = Turn(seen, np.ones((9, 3), dtype=bool), np.arange(9))
    torch.manual_seed(0)
    learner = OnPolicyLearner(OnPolicySettings(table_rate=0.1), FlatPolicy(5, 8, 3), [9], 0)
    shown = Demonstration(turn, rng.integers(3, size=9))
    learner.imitate([shown], 0.1)
    assert (learner.log_policy(turn, 0).argmax(-1).numpy() == shown.action).all()


def decisions(count=12, levels=3, seed=0):
    rng = np.random.default_rng(seed)
    legal = rng.random((count, levels)) < 0.7
    legal[:, -1] = True
    return EntryDecisions(torch.from_numpy(rng.random((count, 4), dtype=np.float32)), torch.from_numpy(legal))


@examples(20)
@given(SEEDS)
def test_sampled_levels_are_legal_and_as_frequent_as_the_policy_says(seed):
    some = decisions(seed=seed)
    torch.manual_seed(seed)
    learner = FactoredLearner(FactoredSettings(), FlatPolicy(4, 8, 3), [some])
    levels = learner.sample(4000, np.random.default_rng(seed), 0, 1.0)
    assert np.take_along_axis(some.legal.numpy()[None], levels[..., None], -1).all()
    frequency = (levels[..., None] == np.arange(3)).mean(0)
    np.testing.assert_allclose(frequency, learner.log_policy(0).exp().detach().numpy(), atol=0.05)


@pytest.mark.parametrize("left", [1.0, 0.5, 0.0])
def test_a_part_of_the_samples_draws_what_is_alike_by_one_number(left):
    """Decisions that are alike have one policy here, so that equal numbers are equal levels."""
    alike, count = np.array([0, 1, 0, 1, 1, 0]), 4000
    some = EntryDecisions(torch.zeros(6, 4), torch.ones(6, 3, dtype=torch.bool), alike)
    learner = FactoredLearner(FactoredSettings(), FlatPolicy(4, 8, 3), [some])
    levels = learner.sample(count, np.random.default_rng(0), 0, left)
    together = round(TOGETHER * left * count)
    assert (levels[:together] == levels[:together, alike]).all()
    assert ((levels[together:] == levels[together:, alike]).all(1)).mean() < 0.2
    frequency = (levels[..., None] == np.arange(3)).mean(0)
    np.testing.assert_allclose(frequency, learner.log_policy(0).exp().detach().numpy(), atol=0.04)


def test_a_factored_policy_finds_the_best_levels_of_each_program():
    """Latency counts the levels that differ from hidden ones; nearly all assignments differ in half of them."""
    programs, rng = [decisions(seed=seed) for seed in (0, 1)], np.random.default_rng(0)
    hidden = [np.array([row.nonzero().flatten()[0].item() for row in some.legal]) for some in programs]
    torch.manual_seed(0)
    learner = FactoredLearner(FactoredSettings(), FlatPolicy(4, 8, 3), programs)
    for step in range(60):
        levels = [learner.sample(32, rng, program, 0.0) for program in (0, 1)]
        latencies = [(some != right).sum(1).astype(float) for some, right in zip(levels, hidden, strict=True)]
        best = [some[found.argsort()[:1]] for some, found in zip(levels, latencies, strict=True)]
        learner.learn(list(zip(levels, latencies, strict=True)), best, 1 - step / 60)
    for program in (0, 1):
        assert (learner.log_policy(program).argmax(-1).numpy() == hidden[program]).all()


@pytest.mark.parametrize("kind", [OnPolicySettings, FactoredSettings])
def test_settings_out_of_range_are_refused(kind):
    for options in ({"width": 0}, {"width": -1}, {"table_rate": np.nan}, {"table_rate": np.inf}, {"table_rate": -0.1}):
        with pytest.raises(AgentError, match=next(iter(options))):
            kind(**options)

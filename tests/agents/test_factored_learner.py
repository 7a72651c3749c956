"""The learner of plan-gradient: masks, clipped gains, credit, samples."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.learning.factored_learner import EntryDecisions, FactoredLearner, FactoredSettings
from memplace_agents.learning.flat_policy import FlatPolicy, clipped_gain, masked_log_softmax
from memplace_agents.learning.plan_distribution import TOGETHER, credit
from memplace_env._lib.errors import AgentError
from tests.thorough import examples

SEEDS = st.integers(0, 2**32 - 1)


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


def test_settings_out_of_range_are_refused():
    for options in ({"width": 0}, {"width": -1}, {"table_rate": np.nan}, {"table_rate": np.inf}, {"table_rate": -0.1}):
        with pytest.raises(AgentError, match=next(iter(options))):
            FactoredSettings(**options)

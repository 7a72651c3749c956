"""The parts of EGRL: chromosomes, generations, replay, learner."""

from collections import deque
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Categorical

from memplace_agents.egrl import EGRLConfig, boltzmann
from memplace_agents.egrl.egrl_replay import EgrlReplay
from memplace_agents.egrl.learner import ACTOR_EVERY, REWARD_SCALE, Learner
from memplace_agents.egrl.population import Population, chances, mutate_weights, next_generation
from memplace_agents.learning.graph_policy import SUB_ACTIONS, Graph, GraphPolicy, PopulationForward
from memplace_env.envs.one_shot.observation import FEATURES
from tests.thorough import examples

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def chromosomes(draw):
    """Priors, temperatures and a mask."""
    rng = np.random.default_rng(draw(SEEDS))
    count, decisions, levels = draw(st.integers(1, 4)), draw(st.integers(1, 12)), draw(st.integers(2, 4))
    mask = rng.random((decisions, levels)) < draw(st.sampled_from([0.3, 1.0]))
    mask[:, -1] = True
    prior, temperature = boltzmann.initial(rng, count, mask, draw(st.sampled_from([0.0, 3.0])))
    prior = prior * np.float32(draw(st.sampled_from([1.0, 100.0])))
    heat = rng.uniform(0.1, 3.0, temperature.shape).astype(np.float32)
    return prior, heat, mask


# Boltzmann chromosomes.


@examples(50)
@given(chromosomes(), SEEDS)
def test_probabilities_sum_to_one_and_respect_the_mask(case, seed):
    prior, temperature, mask = case
    drawn = boltzmann.probabilities(prior, temperature, mask)
    np.testing.assert_allclose(drawn.sum(-1), 1, rtol=1e-5)
    assert (drawn[:, ~mask] == 0).all()
    exact = torch.from_numpy(np.where(mask, prior / temperature[..., None], -np.inf)).double().softmax(-1)
    np.testing.assert_allclose(drawn, exact, atol=1e-5)
    assignments = boltzmann.sample(np.random.default_rng(seed), drawn)
    assert mask[np.arange(len(mask)), assignments].all()


@pytest.mark.parametrize("seed", range(3))
def test_samples_have_the_right_frequencies(seed):
    rng, count = np.random.default_rng(seed), 20_000
    mask = np.array([[1, 1, 1, 1], [1, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]], dtype=bool)
    prior = 2 * rng.standard_normal((1, *mask.shape), dtype=np.float32)
    drawn = boltzmann.probabilities(prior, np.ones((1, 4), dtype=np.float32), mask)
    assignments = boltzmann.sample(rng, np.repeat(drawn, count, axis=0))
    counts = (assignments[..., None] == np.arange(4)).sum(axis=0)
    expected = count * drawn[0].astype(float)
    chi_square = ((counts - expected)[mask] ** 2 / expected[mask]).sum()
    assert chi_square < 27.9  # six degrees of freedom: one in ten thousand
    assert (counts[~mask] == 0).all()


@given(chromosomes())
def test_a_posterior_is_kept_at_temperature_one(case):
    drawn = boltzmann.probabilities(*case)
    prior, temperature = boltzmann.from_posterior(drawn)
    assert (temperature == 1).all()
    assert np.isfinite(prior).all()
    np.testing.assert_allclose(boltzmann.probabilities(prior, temperature, case[2]), drawn, atol=1e-6)


@given(st.integers(4, 60), st.integers(2, 4), SEEDS)
def test_an_assignment_is_drawn_with_two_changes(decisions, levels, seed):
    assignments = np.random.default_rng(seed).integers(0, levels, (3, decisions))
    mask = np.ones((decisions, levels), dtype=bool)
    drawn = boltzmann.probabilities(*boltzmann.from_assignments(assignments, levels), mask)
    same = np.take_along_axis(drawn, assignments[..., None], axis=-1)
    np.testing.assert_allclose((1 - same).sum(axis=(1, 2)), 2, rtol=1e-3)
    others = drawn[np.arange(levels) != assignments[..., None]]
    np.testing.assert_allclose(others, 2 / decisions / (levels - 1), rtol=1e-3)


@given(st.integers(1, 20), SEEDS, st.booleans())
def test_crossover_is_at_a_single_point(decisions, seed, with_levels):
    rng = np.random.default_rng(seed)
    shape = (50, decisions, 3) if with_levels else (50, decisions)
    child = boltzmann.crossover(rng, np.zeros(shape, np.float32), np.ones(shape, np.float32))
    child = child.reshape(50, decisions, -1)
    assert np.isin(child, [0, 1]).all()
    assert (child == child[..., :1]).all()
    assert (np.diff(child[..., 0], axis=1) >= 0).all()
    assert len(np.unique(child[..., 0].sum(axis=1))) > 1


@examples(50)
@given(chromosomes(), SEEDS, st.sampled_from([0.0, 0.1, 1.0]))
def test_mutation_changes_what_it_hits_and_keeps_temperatures_in_bounds(case, seed, share):
    prior, temperature, _ = case
    before = prior.copy(), temperature.copy()
    for _ in range(10):
        moved, warmed = boltzmann.mutate(np.random.default_rng(seed), prior, temperature, share)
        assert (warmed >= np.float32(0.1)).all()
        assert (warmed <= np.float32(3.0)).all()
        changed = (moved != prior).any(-1)
        assert (~changed <= (warmed == temperature)).all()
        if share == 1:
            assert changed.all()
        np.testing.assert_allclose(np.exp(moved[changed]).sum(-1), 1, rtol=1e-4)
        assert (prior == before[0]).all()
        assert (temperature == before[1]).all()
        prior, temperature = moved, warmed
        before = prior.copy(), temperature.copy()
        seed += 1


def test_mutation_hits_the_share_it_should():
    rng, shape = np.random.default_rng(0), (200, 100)
    prior, temperature = np.zeros((*shape, 3), np.float32), np.ones(shape, np.float32)
    for share, hit in ((0.0, 0.02), (0.1, 0.1)):
        moved, _ = boltzmann.mutate(rng, prior, temperature, share)
        np.testing.assert_allclose((moved != 0).any(-1).mean(), hit, atol=0.01)


# Generations.


def new_members(graphs, decisions=6, levels=3, genes=8):
    """Return members whose genes are all different, so that each shows its member and position."""
    members = len(graphs)
    genomes = np.arange(members * genes, dtype=np.float32).reshape(members, genes) + 1
    prior = np.arange(members * decisions * levels, dtype=np.float32).reshape(members, decisions, levels)
    temperature = 0.5 + np.arange(members * decisions, dtype=np.float32).reshape(members, decisions) / 1000
    return Population(np.array(graphs, dtype=bool), genomes, prior, temperature)


def drawn_of(population, seed=0):
    """Probabilities that differ from member to member."""
    logits = np.random.default_rng(seed).normal(size=population.prior.shape)
    return torch.from_numpy(logits).softmax(-1).numpy().astype(np.float32)


def config(**changes):
    return replace(EGRLConfig(), **{"population": 6, "elites": 2, "mutation": 0.0} | changes)


kinds = st.lists(st.booleans(), min_size=5, max_size=12)


@given(kinds, SEEDS, st.integers(1, 3), st.sampled_from([0.0, 0.9]))
def test_elites_survive_first_and_sizes_stay(graphs, seed, elites, mutation):
    rng, population = np.random.default_rng(seed), new_members(graphs)
    fitness, drawn = rng.normal(size=len(graphs)), drawn_of(new_members(graphs))
    before = population.take(np.arange(len(graphs)))
    settings_ = config(elites=elites, mutation=mutation)
    after, who = next_generation(rng, settings_, population, fitness, drawn)
    assert who.tolist() == sorted(range(len(graphs)), key=lambda m: -fitness[m])[:elites]
    for old, kept, new in zip(population, before, after, strict=True):
        assert (old == kept).all()
        assert new.shape == old.shape
        assert new.dtype == old.dtype
        assert (new[:elites] == old[who]).all()


def is_crossed(child, first, second):
    """Return whether genes are the first parent's up to some point and the second's from there."""
    return any(
        (child[:cut] == first[:cut]).all() and (child[cut:] == second[cut:]).all() for cut in range(len(child) + 1)
    )


@examples(50)
@given(kinds, SEEDS)
def test_children_come_from_two_parents_of_one_kind_or_from_a_posterior(graphs, seed):
    rng, population = np.random.default_rng(seed), new_members(graphs)
    fitness, drawn = rng.normal(size=len(graphs)), drawn_of(population)
    after, _ = next_generation(rng, config(), population, fitness, drawn)
    policies, stateless = np.flatnonzero(population.is_graph), np.flatnonzero(~population.is_graph)
    genes = np.concatenate([population.prior, population.temperature[..., None]], axis=-1)
    seeded, ones = boltzmann.from_posterior(drawn)
    posterior = np.concatenate([seeded, ones[..., None]], axis=-1)
    for member in range(2, len(graphs)):
        if after.is_graph[member]:
            child = after.genomes[member]
            assert any(
                is_crossed(child, population.genomes[a], population.genomes[b]) for a in policies for b in policies
            )
        else:
            child = np.concatenate([after.prior[member], after.temperature[member][:, None]], axis=-1)
            from_graph = any((child == posterior[a]).all() for a in policies)
            crossed = any(is_crossed(child, genes[a], genes[b]) for a in stateless for b in stateless)
            assert from_graph or crossed


def test_every_kind_of_child_occurs():
    rng, population = np.random.default_rng(0), new_members([True, False] * 6)
    after, _ = next_generation(rng, config(tournament=1), population, np.zeros(12), drawn_of(population))
    mixed = (after.temperature == 1).all(axis=1) & ~after.is_graph
    pure = ~mixed & ~after.is_graph
    assert (after.is_graph[2:].any(), mixed[2:].any(), pure[2:].any()) == (True, True, True)


@examples(25)
@given(st.integers(5, 12), SEEDS)
def test_graph_policies_alone_never_have_another_child(members, seed):
    rng, population = np.random.default_rng(seed), new_members([True] * members)
    for _ in range(5):
        fitness = rng.normal(size=members)
        population, _ = next_generation(rng, config(mutation=0.9), population, fitness, drawn_of(population))
        assert population.is_graph.all()


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_graph_policies_keep_their_share(share):
    """Even if Boltzmann chromosomes are always fitter."""
    rng, population = np.random.default_rng(0), new_members([True] * 10 + [False] * 10)
    for _ in range(10):
        population, _ = next_generation(
            rng, config(boltzmann=share), population, -population.is_graph.astype(float), drawn_of(population)
        )
    assert population.is_graph.sum() == round(20 * (1 - share))


@pytest.mark.parametrize("tournament", [1, 3, 10])
def test_tournaments_prefer_the_fitter(tournament):
    """The best of M wins a tournament of k with probability 1 - (1 - 1/M)^k."""
    members, rng, best = 8, np.random.default_rng(0), []
    population, fitness = new_members([False] * members, decisions=1), np.arange(members, dtype=float)
    for _ in range(400):
        after, _ = next_generation(rng, config(tournament=tournament), population, fitness, drawn_of(population))
        best += (after.prior[2:, 0, 0] == population.prior[-1, 0, 0]).tolist()
    np.testing.assert_allclose(np.mean(best), 1 - (1 - 1 / members) ** tournament, atol=0.04)


@given(kinds, SEEDS)
def test_the_same_seed_breeds_the_same(graphs, seed):
    population = new_members(graphs)
    fitness, drawn = np.random.default_rng(seed).normal(size=len(graphs)), drawn_of(population)
    runs = [
        next_generation(np.random.default_rng(seed), config(mutation=0.9), population, fitness, drawn)[0]
        for _ in range(2)
    ]
    assert all((one == two).all() for one, two in zip(*runs, strict=True))


@given(kinds, SEEDS)
def test_chances_ask_each_member_in_its_own_way(graphs, seed):
    population, mask = new_members(graphs), np.ones((6, 3), dtype=bool)
    drawn, requested = drawn_of(population, seed), []

    def posterior(genomes):
        requested.append(genomes)
        return drawn[population.is_graph]

    result = chances(population, mask, posterior)
    assert len(requested) == any(graphs)
    assert (result[population.is_graph] == drawn[population.is_graph]).all()
    own = boltzmann.probabilities(population.prior, population.temperature, mask)
    assert (result[~population.is_graph] == own[~population.is_graph]).all()


@given(st.integers(1, 3000), SEEDS, st.sampled_from([0.0, 0.01, 0.05, 1.0]))
def test_weights_change_by_their_share_and_size(size, seed, share):
    rng = np.random.default_rng(seed)
    genome = rng.choice([-1, 1], size) * rng.uniform(0.5, 2.0, size).astype(np.float32)
    genome = genome.astype(np.float32)
    before = genome.copy()
    child = mutate_weights(rng, genome, share, 0.1)
    assert (genome == before).all()
    assert child.dtype == np.float32
    changed = (child != genome).sum()
    assert changed <= np.ceil(share * size)
    if share * size >= 1:
        assert changed > 0
    if share == 1 and size > 1000:  # with replacement: 1 - 1/e of all, nearly all of them a little
        assert 0.58 < changed / size < 0.68
        moved = np.abs(child / genome - 1)[child != genome]
        assert 0.03 < np.median(moved) < 0.12


def test_weights_stay_within_their_limit():
    genome = np.full(1000, 9e5, dtype=np.float32)
    for seed in range(5):
        genome = mutate_weights(np.random.default_rng(seed), genome, 1.0, 10.0)
    assert np.abs(genome).max() == 1e6


# Replay.


@given(st.integers(1, 8), st.lists(st.integers(0, 12), max_size=12), SEEDS)
def test_replay_is_the_end_of_a_list(capacity, batches, seed):
    replay, reference = EgrlReplay(capacity, 3), deque(maxlen=capacity)
    rng = np.random.default_rng(seed)
    for count in batches:
        assignments, rewards = rng.integers(0, 4, (count, 3)), rng.normal(size=count).astype(np.float32)
        replay.add(assignments, rewards)
        reference.extend((*entry, reward) for entry, reward in zip(assignments.tolist(), rewards.tolist(), strict=True))
        assert replay.size == len(reference)
        if reference:
            drawn, earned = replay.sample(rng, 200)
            assert (drawn.dtype, earned.dtype) == (np.int64, np.float32)
            sampled = {(*entry, reward) for entry, reward in zip(drawn.tolist(), earned.tolist(), strict=True)}
            assert sampled == set(reference)  # 200 draws of at most 8 miss one with probability 2e-11


@given(st.lists(st.lists(st.sampled_from([-0.5, 0.5, 0.75, *range(1, 12)]), max_size=9), max_size=6))
def test_the_fittest_are_the_first_of_each_of_the_best_rewards(batches):
    replay, seen = EgrlReplay(1, 1), {}
    for number, batch in enumerate(batches):
        replay.admire(np.full((len(batch), 1), number), np.array(batch, dtype=float))
        for reward in batch:
            seen.setdefault(reward, number)
    other = EgrlReplay(1, 1)
    other.load_state_dict(replay.state_dict())
    for maps, rewards in (replay.fittest, other.fittest):
        assert rewards.tolist() == sorted(seen, reverse=True)[:8]
        assert maps[:, 0].tolist() == [seen[reward] for reward in rewards.tolist()]


@given(st.integers(1, 8), st.lists(st.integers(0, 12), max_size=6), SEEDS)
def test_replay_goes_on_from_its_state(capacity, batches, seed):
    rng, one, two = np.random.default_rng(seed), EgrlReplay(capacity, 2), EgrlReplay(capacity, 2)
    for count in batches:
        one.add(rng.integers(0, 4, (count, 2)), rng.normal(size=count))
    two.load_state_dict(one.state_dict())
    more = rng.integers(0, 4, (5, 2)), rng.normal(size=5)
    for replay in (one, two):
        replay.add(*more)
    assert all(
        (a == b).all() for a, b in zip(*(r.sample(np.random.default_rng(1), 50) for r in (one, two)), strict=True)
    )


# The learner.


def learning(mask, seed=0, **changes):
    """A learner on a chain of ops with random features."""
    torch.manual_seed(seed)
    ops = len(mask) // SUB_ACTIONS
    edges = torch.tensor([range(ops - 1), range(1, ops)])
    graph = Graph.read(torch.rand(ops, len(FEATURES)), edges, torch.from_numpy(mask))
    settings_, policy = config(hidden=16, depth=2, **changes), GraphPolicy(mask.shape[1], 16, 2)
    return Learner(settings_, [PopulationForward(policy, graph)], policy), graph


def test_critics_learn_a_reward():
    """A sum over decisions: what the critics have left of its variance after 600 steps."""
    rng, mask = np.random.default_rng(0), np.ones((12, 3), dtype=bool)
    learner, _ = learning(mask, learning_rate=3e-3)
    assignments = rng.integers(0, 3, (400, 12))
    rewards = (assignments * rng.choice([0, 1], 12)).sum(axis=1) / 10
    replay = EgrlReplay(400, 12)
    replay.add(assignments, rewards)
    losses = [learner.learn(rng, [replay]).critic / 2 / REWARD_SCALE**2 for _ in range(600)]
    assert np.mean(losses[-50:]) < 0.3 * rewards.var() < np.mean(losses[:20])


@pytest.mark.parametrize("better", [0, 1, 2])
def test_the_actor_learns_a_bandit(better):
    """One decision has a choice, and one of its levels earns more."""
    rng, mask, at = np.random.default_rng(better), np.zeros((8, 3), dtype=bool), 4
    mask[:, -1] = mask[at] = True
    learner, _ = learning(mask, learning_rate=3e-3)
    assignments = np.full((300, 8), 2)
    assignments[:, at] = rng.integers(0, 3, 300)
    replay = EgrlReplay(300, 8)
    replay.add(assignments, (assignments[:, at] == better).astype(float))
    before = learner.posterior(learner.genome[None])[0]
    for _ in range(150):
        losses = learner.learn(rng, [replay])
    after = learner.posterior(learner.genome[None])[0]
    assert before[at, better] < 0.8
    assert after[at, better] > 0.9
    assert losses.value > 0.7
    assert (after[~mask] == 0).all()


@pytest.mark.parametrize("imitates", [False, True])
def test_the_actor_learns_from_its_own_assignments_and_from_the_fittest(imitates):
    """Each alone: rewards that differ, or equal ones beside an assignment that earned more."""
    rng, mask = np.random.default_rng(0), np.ones((8, 3), dtype=bool)
    learner, _ = learning(mask, learning_rate=3e-3)
    wanted, replay = rng.integers(0, 3, 8), EgrlReplay(1, 8)
    if imitates:
        replay.admire(np.stack([wanted, 2 - wanted]), np.array([1.0, -1.0]))
    for _ in range(100):
        tried = boltzmann.sample(rng, learner.posterior(np.repeat(learner.genome[None], 4, axis=0)))
        learner.practise(0, tried, np.zeros(4) if imitates else (tried == wanted).mean(axis=1), replay)
    chosen = learner.posterior(learner.genome[None])[0][np.arange(8), wanted]
    assert chosen.mean() > 0.6


@examples(10)
@given(SEEDS)
def test_entropy_is_that_of_the_choices(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((10, 3)) < 0.5
    mask[:, -1] = True
    learner, graph = learning(mask, seed % 1000)
    posterior = torch.from_numpy(learner.posterior(learner.genome[None])[0])
    replay = EgrlReplay(1, 10)
    replay.add(np.full((1, 10), 2), np.zeros(1))
    exact = Categorical(probs=posterior).entropy()[graph.mask.flatten(0, 1).sum(-1) > 1]
    losses = [learner.learn(rng, [replay]) for _ in range(ACTOR_EVERY)]
    np.testing.assert_allclose(losses[-1].entropy, exact.mean() if len(exact) else 0, atol=1e-5)


def test_learners_go_on_from_their_state():
    rng, mask = np.random.default_rng(0), np.ones((8, 3), dtype=bool)
    replay = EgrlReplay(50, 8)
    replay.add(rng.integers(0, 3, (50, 8)), rng.normal(size=50))
    one, two = (learning(mask, seed)[0] for seed in (1, 1))
    for _ in range(5):
        one.learn(rng, [replay])
    two.load_state_dict(deepcopy(one.state_dict()))
    losses = [[learner.learn(np.random.default_rng(2), [replay]) for _ in range(5)] for learner in (one, two)]
    assert losses[0] == losses[1]
    assert (one.genome == two.genome).all()


@pytest.mark.parametrize("added", [3, 5, 8, 12])
def test_a_smaller_replay_takes_over_the_newest_assignments(added):
    large, small_one = EgrlReplay(8, 2), EgrlReplay(4, 2)
    large.add(np.arange(2 * added).reshape(-1, 2)[:5], np.arange(added)[:5])
    if added > 5:
        large.add(np.arange(2 * added).reshape(-1, 2)[5:], np.arange(added)[5:])
    small_one.load_state_dict(large.state_dict())
    rewards = sorted(small_one.state_dict()["rewards"].tolist())
    assert rewards == list(range(max(added - 4, 0), added))

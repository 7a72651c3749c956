"""MuZero's searches on worlds small enough to work everything out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.muzero.batched_search import search
from memplace_agents.muzero.gumbel import Gumbel, considered_visits_sequence
from memplace_agents.muzero.search_types import NO_PARENT, ROOT_INDEX, UNVISITED
from memplace_agents.muzero.tree import instantiate_tree_from_root
from memplace_agents.muzero.tree_kernels import ALL_FINITE, expand_and_backup
from tests.agents.worlds import World, WorldModel, bandit, gumbels, run_search
from tests.references import reference_search

# Two actions and no logits: from state 0, action 0 earns 1 and leads to state 1 of value 0, action 1 earns 0 and leads
# to state 2 of value 2. From state 1 action 0 earns 0 and leads to state 3 of value 1; from state 2 action 0 earns -4
# and leads to state 4 of value 0. Nothing else is played.
BY_HAND = World(
    np.array([[1, 2], [3, 3], [4, 4], [3, 3], [4, 4]]),
    np.array([[1.0, 0.0], [0.0, 0.0], [-4.0, -4.0], [0.0, 0.0], [0.0, 0.0]]),
    np.array([0.0, 0.0, 2.0, 1.0, 0.0]),
    np.zeros((5, 2)),
    np.ones((5, 2), dtype=bool),
)


def test_gumbel_by_hand():
    """Without noise and with sigma(q) = most visits x q; halving visits each twice, and the better one first.

    1: the first: q0 = 1. 2: the other: q1 = 2. 3: sigma is 1 and 2, the second, -4 below it: q1 = (2 - 4) / 2 = -1.
    4: the first, 0 + 1 below it: q0 = (1 + 2) / 2. In the end sigma is 3 and -2.
    """
    result = run_search(BY_HAND, [0], 4, Gumbel(c_visit=0.0, c_scale=1.0, normalise=False, noise_scale=0.0))
    assert result.visit_counts.tolist() == [[2, 2]]
    assert result.actions.tolist() == [0]
    assert result.values == np.float32((0 + 2 * 1.5 - 2 * 1) / 5)
    np.testing.assert_allclose(result.action_weights, [[1 / (1 + math.exp(-5)), 1 / (1 + math.exp(5))]], rtol=1e-6)


def test_expansion_and_backup_by_hand():
    """From BY_HAND's root, action 1, then it and action 0 below it, at discount 1/2; the second game is over."""
    legal = np.array([[True, True], [False, False]])
    tree = instantiate_tree_from_root(BY_HAND.root([0, 0]), legal, 2)
    assert (tree.children_index == UNVISITED).all()
    assert (tree.parents == NO_PARENT).all()
    assert tree.terminal[:, ROOT_INDEX].tolist() == [False, True]
    for node, state, parent, action in ((1, 0, ROOT_INDEX, 1), (2, 2, 1, 0)):
        next_states = np.repeat(BY_HAND.next_state[state, action], 2)
        rewards = np.repeat(BY_HAND.reward[state, action], 2)
        arrays = (rewards, *BY_HAND.root(next_states), BY_HAND.legal[next_states])
        selected = np.full(2, parent), np.full(2, action)
        assert expand_and_backup(tree, node, *selected, *arrays, 0.5) == ALL_FINITE
    assert tree.children_index[0].tolist() == [[UNVISITED, 1], [2, UNVISITED], [UNVISITED, UNVISITED]]
    assert tree.parents[0].tolist() == [NO_PARENT, ROOT_INDEX, 1]
    assert tree.action_from_parent[0].tolist() == [0, 1, 0]
    assert tree.rewards[0].tolist() == [0, 0, -4]
    assert tree.raw_values[0].tolist() == [0, 2, 0]
    assert tree.children_visits[0].tolist() == [[0, 2], [1, 0], [0, 0]]
    assert tree.children_qvalues[0].tolist() == [[0, (1 - 2) / 2], [-4, 0], [0, 0]]
    assert (tree.children_visits[1] == 0).all()
    assert tree.root_values.tolist() == [-1 / 3, 0]


@pytest.mark.parametrize(("value", "normalise", "sigma"), [
    (0.0, False, (2, 1)),  # v_mix = (0 + 1 x 1) / 2 = 1/2
    (3.0, False, (2, 4)),  # v_mix = (3 + 1 x 1) / 2 = 2
    (0.0, True, (2, 0)),
    (3.0, True, (0, 2)),
])  # fmt: skip
def test_actions_without_visits_get_the_mixed_value(value, normalise, sigma):
    """One simulation finds q0 = 1, and sigma(q) = (1 + 1) x q."""
    world = bandit([1.0, 0.0], value=value)
    settings = Gumbel(max_num_considered_actions=1, c_visit=1.0, c_scale=1.0, normalise=normalise, noise_scale=0.0)
    policy = run_search(world, [0], 1, settings).action_weights[0]
    assert policy[0] == pytest.approx(1 / (1 + math.exp(sigma[1] - sigma[0])), rel=1e-6)


def test_illegal_actions_have_no_part_in_the_normalisation():
    """q = 1 and 1/2 become 1 and 0, although v_mix = (10 + 2 x 3/4) / 3 is greater; sigma(q) = (1 + 1) x q."""
    world = bandit([1.0, 0.5, 0.0], value=10.0)
    world.legal[0, 2] = False
    policy = run_search(world, [0], 2, Gumbel(c_visit=1.0, c_scale=1.0, noise_scale=0.0)).action_weights[0]
    assert policy[0] == pytest.approx(1 / (1 + math.exp(-2)), rel=1e-6)


def test_inner_actions_follow_the_improved_policy():
    """One action is legal at the root; below it, priors of 1/4 and 3/4 and equal values share the visits 1 : 3."""
    next_state = np.array([[1, 1], [2, 2], [2, 2]])
    legal = np.array([[True, False], [True, True], [False, False]])
    logits = np.array([[0.0, 0.0], [0.0, math.log(3)], [0.0, 0.0]])
    world = World(next_state, np.zeros((3, 2)), np.zeros(3), logits, legal)
    model = WorldModel(world, [0], 41)
    played = []

    class Watched:
        def evaluate(self, parents, actions, node):
            played.append((parents[0].item(), actions[0].item()))
            return model.evaluate(parents, actions, node)

    rng = np.random.default_rng(0)
    search(Watched(), world.root([0]), legal[:1], num_simulations=41, rng=rng, settings=Gumbel())
    assert played[0] == (0, 0)
    assert [played.count((1, action)) for action in (0, 1)] == [10, 30]


@given(st.integers(1, 40), st.integers(1, 200))
def test_sequential_halving(num_considered, num_simulations):
    """Actions considered are visited in step, and half as many from phase to phase."""
    sequence = considered_visits_sequence(num_considered, num_simulations)
    assert list(sequence) == reference_search.sequential_halving(num_considered, num_simulations)
    assert len(sequence) == num_simulations
    visits = [0] * num_considered
    for considered_visits in sequence:
        visits[visits.index(considered_visits)] += 1
    assert sum(visits) == num_simulations
    if num_simulations >= num_considered:
        assert min(visits) >= 1


def test_sequential_halving_of_sixteen():
    """16 actions, 64 simulations: four phases of 16 simulations each."""
    sequence = considered_visits_sequence(16, 64)
    assert sequence == (0,) * 16 + (1,) * 8 + (2,) * 8 + (3, 3, 3, 3) + (4,) * 4 + (5,) * 4 + (6,) * 4 + tuple(
        visits for visits in range(7, 15) for _ in range(2)
    )


arms = st.lists(st.integers(-1000, 1000), min_size=1, max_size=8, unique=True)
few_logits = st.lists(st.floats(-3, 3), min_size=8, max_size=8)


@given(arms, few_logits, st.integers(0, 60), st.integers(0, 9))
def test_finds_the_best_arm_with_a_simulation_for_each(rewards, logits, more, seed):
    world = bandit(np.array(rewards) / 1000, logits[: len(rewards)])
    trusting = Gumbel(c_scale=1000.0, normalise=False)
    result = run_search(world, [0], len(rewards) + more, trusting, seed)
    assert result.actions[0] == np.argmax(rewards)
    assert result.action_weights[0].argmax() == np.argmax(rewards)


@given(arms, few_logits, gumbels, st.integers(0, 9))
def test_improved_policy_is_no_worse_than_the_prior(rewards, logits, settings, seed):
    """The targets, where each arm has been tried, of any sigma that rises are worth at least as much as the prior."""
    logits = np.array(logits[: len(rewards)])
    world = bandit(np.array(rewards) / 1000, logits)
    settings = Gumbel(8, settings.c_visit, settings.c_scale, settings.normalise, settings.noise_scale)
    result = run_search(world, [0], 3 * len(rewards), settings, seed)
    assert (result.visit_counts[0] > 0).all()
    prior = np.exp(logits) / np.exp(logits).sum()
    assert result.action_weights[0] @ world.reward[0] >= prior @ world.reward[0] - 1e-6


def test_nothing_grows_below_the_end_of_a_game():
    """Each arm ends the game: the value there does not count, however often it is pulled."""
    result = run_search(bandit([0.25, 0.5], value=0.5), [0], 30, Gumbel())
    assert result.visit_counts.sum() == 30
    total = 0.5 + 0.25 * result.visit_counts[0, 0] + 0.5 * result.visit_counts[0, 1]
    assert result.values[0] == pytest.approx(total / 31, rel=1e-6)

"""MuZero's searches: equal to plain Python, to sums by hand and to another library; what must hold of any model."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.muzero.base import NO_ACTION, NO_PARENT, ROOT_INDEX, UNVISITED, RecurrentOutput, RootOutput
from agents.muzero.gumbel import Gumbel, considered_visits_sequence
from agents.muzero.puct import Puct
from agents.muzero.search import search
from agents.muzero.tree import instantiate_tree_from_root
from agents.muzero.tree_kernels import ALL_FINITE, expand_and_backup
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.state import ESTIMATE
from memplace_env.errors import AgentError
from memplace_env.workload.synthetic import random_dag
from tests import reference_search
from tests.reference_search import Evaluation

STATES = 40


class World(NamedTuple):
    """A small world: by state and action the next state and the reward, by state the value, policy, legal actions."""

    next_state: np.ndarray
    reward: np.ndarray
    value: np.ndarray
    logits: np.ndarray
    legal: np.ndarray

    def root(self, states):
        return RootOutput(self.value[states], self.logits[states])

    def evaluation(self, state, reward=0.0):
        arrays = (self.value[state].item(), self.logits[state].tolist(), self.legal[state].tolist())
        return Evaluation(state, reward, *arrays)

    def evaluate(self, state, action):
        return self.evaluation(self.next_state[state, action].item(), self.reward[state, action].item())


class WorldModel:
    """Plays in a world; keeps a state number for each node. `masked` says whether it knows legal actions."""

    def __init__(self, world, roots, num_simulations, masked=True):
        self.world, self.masked = world, masked
        self.states = np.full((len(roots), num_simulations + 1), -1)
        self.states[:, ROOT_INDEX] = roots
        self.games = np.arange(len(roots))

    def evaluate(self, parents, actions, node):
        world, states = self.world, self.states[self.games, parents]
        assert (states >= 0).all()
        next_states = self.states[:, node] = world.next_state[states, actions]
        legal = world.legal[next_states] if self.masked else None
        rewards = world.reward[states, actions]
        return RecurrentOutput(rewards, world.value[next_states], world.logits[next_states], legal)


def random_world(seed, actions, *, ends=0.15, forbidden=0.3, coarse=False):
    """`coarse` numbers are few, so that there are ties."""
    rng = np.random.default_rng(seed)
    legal = (rng.random((STATES, actions)) >= forbidden) & (rng.random((STATES, 1)) >= ends)
    reward, logits = rng.normal(size=(2, STATES, actions)) * [[[1.0]], [[2.0]]]
    value = rng.normal(size=STATES)
    if coarse:
        reward, value, logits = np.round(reward), np.round(value), np.round(logits / 2)
    return World(rng.integers(0, STATES, (STATES, actions)), reward, value, logits, legal)


def run_search(world, roots, num_simulations, method, seed=0, discount=1.0, masked=True):
    """Search from root states with one generator for each game."""
    roots = np.asarray(roots)
    rng = [np.random.default_rng([seed, game]) for game in range(len(roots))]
    model = WorldModel(world, roots, num_simulations, masked)
    options = {"num_simulations": num_simulations, "rng": rng, "method": method, "discount": discount}
    return search(model, world.root(roots), world.legal[roots], **options)


def bandit(rewards, logits=None, value=0.0):
    """State 0 has an arm for each reward; pulling it ends the game."""
    arms = len(rewards)
    next_state, legal = np.zeros((2, arms), dtype=int), np.zeros((2, arms), dtype=bool)
    next_state[0], legal[0] = 1, True
    # The value of state 1 must not count, as the game is over there.
    logits = np.zeros(arms) if logits is None else logits
    return World(next_state, np.array([rewards] * 2), np.array([value, 1e6]), np.array([logits] * 2), legal)


gumbels = st.builds(
    Gumbel,
    max_num_considered_actions=st.integers(1, 6),
    c_visit=st.sampled_from([0.0, 1.0, 50.0]),
    c_scale=st.sampled_from([0.0, 0.1, 1.0]),
    normalise=st.sampled_from(["none", "node", "tree"]),
    noise_scale=st.sampled_from([0.0, 1.0]),
)
pucts = st.builds(
    Puct,
    pb_c_init=st.sampled_from([0.0, 1.25]),
    pb_c_base=st.sampled_from([10.0, 19652.0]),
    dirichlet_alpha=st.sampled_from([0.03, 0.3, 2.0]),
    dirichlet_fraction=st.sampled_from([0.0, 0.25, 1.0]),
    temperature=st.sampled_from([0.0, 0.5, 1.0]),
)
worlds = st.builds(
    random_world,
    st.integers(0, 2**32),
    st.integers(1, 6),
    ends=st.sampled_from([0.0, 0.15, 0.6]),
    forbidden=st.sampled_from([0.0, 0.3]),
    coarse=st.booleans(),
)
counts = st.integers(1, 40)


@given(worlds, counts, st.one_of(gumbels, pucts), st.sampled_from([1.0, 0.9]), st.booleans())
def test_equals_plain_python(world, num_simulations, settings, discount, masked):
    if not masked:
        world = world._replace(legal=np.ones_like(world.legal))
    roots = [0, 1, 2]
    result = run_search(world, roots, num_simulations, settings, discount=discount, masked=masked)
    reference = reference_search.gumbel_search if isinstance(settings, Gumbel) else reference_search.puct_search
    for game, state in enumerate(roots):
        noise = settings.sample_noise(np.random.default_rng([0, game]), 1, world.legal.shape[1])[0].tolist()
        expected = reference(world.evaluate, world.evaluation(state), num_simulations, discount, settings, noise)
        assert result.visit_counts[game].tolist() == expected.visit_counts
        assert result.actions[game] == expected.action
        assert result.action_weights[game].tolist() == np.float32(expected.action_weights).tolist()
        assert result.values[game] == np.float32(expected.value)


@given(worlds, counts, st.one_of(gumbels, pucts), st.integers(0, 9))
def test_what_holds_of_every_search(world, num_simulations, settings, seed):
    roots = np.arange(STATES)
    result = run_search(world, roots, num_simulations, settings, seed)
    terminal = ~world.legal[roots].any(axis=1)
    assert (result.visit_counts.sum(axis=1) == np.where(terminal, 0, num_simulations)).all()
    assert (result.visit_counts[~world.legal[roots]] == 0).all()
    assert (result.action_weights[~world.legal[roots]] == 0).all()
    np.testing.assert_allclose(result.action_weights.sum(axis=1), np.where(terminal, 0, 1), atol=1e-6)
    assert (result.actions[terminal] == NO_ACTION).all()
    assert (result.values[terminal] == 0).all()
    assert world.legal[roots[~terminal], result.actions[~terminal]].all()
    assert (result.visit_counts[~terminal, result.actions[~terminal]] > 0).all()
    again = run_search(world, roots, num_simulations, settings, seed)
    assert all((one == two).all() for one, two in zip(result, again, strict=True))


@given(worlds, counts, st.one_of(gumbels, pucts))
def test_games_do_not_depend_on_each_other(world, num_simulations, settings):
    roots = np.arange(7)
    together = run_search(world, roots, num_simulations, settings)
    for game in roots:
        model, rng = WorldModel(world, [game], num_simulations), [np.random.default_rng([0, game])]
        legal = world.legal[[game]]
        alone = search(model, world.root([game]), legal, num_simulations=num_simulations, rng=rng, method=settings)
        assert all((one[0] == many[game]).all() for one, many in zip(alone, together, strict=True))


def test_one_generator_for_all_games_is_deterministic_and_matters():
    world = random_world(3, 4, ends=0)
    root = RootOutput(world.value, world.logits)
    for method in ("gumbel", "puct"):
        one, two, other = (
            search(
                WorldModel(world, np.arange(STATES), 8),
                root,
                world.legal,
                num_simulations=8,
                rng=np.random.default_rng(seed),
                method=method,
            )
            for seed in (1, 1, 2)
        )
        assert (one.visit_counts == two.visit_counts).all()
        assert (one.actions == two.actions).all()
        assert (one.actions != other.actions).any()


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


def test_puct_by_hand():
    """The base is so large that the logarithm is 0; bounds are q + sqrt(n) / 2 / (1 + visits).

    1: 0.5 and 0.5, the first: q0 = 1 + 0. 2: q0 -> 0 as the least, 0.35 and 0.71, the second: q1 = 0 + 2.
    3: 0 + 0.43 and 1 + 0.43, the second; below it 0.5 and 0.5, the first: -4 + 0, so that q1 = (2 - 4) / 2 = -1.
    4: q are in -4..2: 5/6 + 0.5 and 3/6 + 0.33, the first; below it the first: 0 + 1, so that q0 = (1 + 2) / 2.
    """
    result = run_search(BY_HAND, [0], 4, Puct(pb_c_init=1.0, pb_c_base=1e18, dirichlet_fraction=0, temperature=0))
    assert result.visit_counts.tolist() == [[2, 2]]
    assert result.action_weights.tolist() == [[0.5, 0.5]]
    assert result.actions.tolist() == [0]
    assert result.values == np.float32((0 + 2 * 1.5 - 2 * 1) / 5)
    third = run_search(BY_HAND, [0], 3, Puct(pb_c_init=1.0, pb_c_base=1e18, dirichlet_fraction=0, temperature=0))
    assert third.visit_counts.tolist() == [[1, 2]]
    assert third.values == np.float32((0 + 1 - 2 * 1) / 4)


def test_gumbel_by_hand():
    """Without noise and with sigma(q) = most visits x q; halving visits each twice, and the better one first.

    1: the first: q0 = 1. 2: the other: q1 = 2. 3: sigma is 1 and 2, the second, -4 below it: q1 = (2 - 4) / 2 = -1.
    4: the first, 0 + 1 below it: q0 = (1 + 2) / 2. In the end sigma is 3 and -2.
    """
    result = run_search(BY_HAND, [0], 4, Gumbel(c_visit=0.0, c_scale=1.0, normalise="none", noise_scale=0.0))
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
    assert (tree.min_qvalues[0], tree.max_qvalues[0]) == (-4, 1)
    assert (tree.children_visits[1] == 0).all()
    assert tree.root_values.tolist() == [-1 / 3, 0]


@pytest.mark.parametrize(("value", "normalise", "sigma"), [
    (0.0, "none", (2, 1)),  # v_mix = (0 + 1 x 1) / 2 = 1/2
    (3.0, "none", (2, 4)),  # v_mix = (3 + 1 x 1) / 2 = 2
    (0.0, "node", (2, 0)),
    (3.0, "node", (0, 2)),
    (3.0, "tree", (0, 2)),
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


def test_draws_that_are_exactly_0_never_choose_an_action_without_visits():
    world = bandit([0.0, 1.0])
    world.legal[0, 0] = False
    tree = instantiate_tree_from_root(world.root([0]), world.legal[:1], 1)
    tree.children_visits[0, ROOT_INDEX] = [0, 3]
    actions, _ = Puct().start(tree, np.array([[1.0, 1.0, 0.0]]), 1).recommend()
    assert actions.tolist() == [1]


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

    search(Watched(), world.root([0]), legal[:1], num_simulations=41, rng=np.random.default_rng(0))
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
    trusting = Gumbel(c_scale=1000.0, normalise="none")
    result = run_search(world, [0], len(rewards) + more, trusting, seed)
    assert result.actions[0] == np.argmax(rewards)
    assert result.action_weights[0].argmax() == np.argmax(rewards)


@given(arms, few_logits, gumbels, st.integers(0, 9))
def test_improved_policy_is_no_worse_than_the_prior(rewards, logits, settings, seed):
    """Where each arm has been tried, the targets of any sigma that rises are worth at least as much as the prior."""
    logits = np.array(logits[: len(rewards)])
    world = bandit(np.array(rewards) / 1000, logits)
    settings = Gumbel(8, settings.c_visit, settings.c_scale, settings.normalise, settings.noise_scale)
    result = run_search(world, [0], 3 * len(rewards), settings, seed)
    assert (result.visit_counts[0] > 0).all()
    prior = np.exp(logits) / np.exp(logits).sum()
    assert result.action_weights[0] @ world.reward[0] >= prior @ world.reward[0] - 1e-6


def test_puct_settles_on_the_best_arm():
    result = run_search(bandit([0.1, 0.9, 0.5], logits=[1.0, 0.0, 1.0]), [0], 400, Puct(temperature=0))
    assert result.actions[0] == 1
    assert result.action_weights[0, 1] > 0.8


def test_dirichlet_noise_and_temperature():
    """All noise and no values: visits follow the noise; a high temperature evens the draws out."""
    world = bandit([0.0, 0.0, 0.0])
    shares = np.array(
        [run_search(world, [0], 100, Puct(dirichlet_fraction=1.0), seed).action_weights[0] for seed in range(40)]
    )
    assert shares.std(axis=0).min() > 0.2
    drawn = [
        run_search(world, [0], 4, Puct(dirichlet_fraction=0.0, temperature=1e6), seed).actions[0].item()
        for seed in range(60)
    ]
    assert set(drawn) == {0, 1, 2}


def test_nothing_grows_below_the_end_of_a_game():
    """Each arm ends the game: the value there does not count, however often it is pulled."""
    for method in ("gumbel", "puct"):
        result = run_search(bandit([0.25, 0.5], value=0.5), [0], 30, method)
        assert result.visit_counts.sum() == 30
        total = 0.5 + 0.25 * result.visit_counts[0, 0] + 0.5 * result.visit_counts[0, 1]
        assert result.values[0] == pytest.approx(total / 31, rel=1e-6)


class GameModel:
    """The true game as a model: rewards as shares of latency, the greedy player's gain as value."""

    def __init__(self, problem, states, num_simulations):
        self.problem, self.games = problem, np.arange(len(states))
        self.states = np.empty((len(states), num_simulations + 1, problem.size), dtype=np.int64)
        self.states[:, ROOT_INDEX] = states

    def root(self):
        return RootOutput(self.values(self.states[:, ROOT_INDEX]), np.zeros((len(self.states), 3)))

    def values(self, states):
        ends = states.copy()
        self.problem.finish_greedily(ends)
        return (states[:, ESTIMATE] - ends[:, ESTIMATE]) / self.problem.all_backing_ps

    def evaluate(self, parents, actions, node):
        states = self.states[self.games, parents]
        gains, _ = self.problem.play(states, actions)
        self.states[:, node] = states
        logits, legal = np.zeros((len(states), 3), dtype=np.float32), self.problem.legal(states)
        return RecurrentOutput(gains / self.problem.all_backing_ps, self.values(states), logits, legal)


@pytest.mark.parametrize("method", [Gumbel(noise_scale=0.0), Puct(dirichlet_fraction=0.0, temperature=0.0)])
def test_plays_the_true_game(method):
    """A search before each decision ends no later than the greedy player, whose ends are its values."""
    problem = MallocGameEnv(random_dag(3, ops=8, largest=60_000_000), "tpu-v4i").problem
    states, greedy = problem.new_states(2), problem.new_states(1)
    problem.finish_greedily(greedy)
    rng = np.random.default_rng(0)
    for decision in range(problem.num_decisions):
        # The second game stops half way, so that it takes part as it is.
        model, legal = GameModel(problem, states, 16), problem.legal(states)
        legal[1] &= decision < problem.num_decisions // 2
        result = search(model, model.root(), legal, num_simulations=16, rng=rng, method=method)
        assert legal[0, result.actions[0]]
        assert (result.actions[1] == NO_ACTION) == (not legal[1].any())
        problem.play(states[:1], result.actions[:1])
        if legal[1].any():
            problem.play(states[1:], result.actions[1:])
    assert problem.done(states).tolist() == [True, False]
    assert states[0, ESTIMATE] <= greedy[0, ESTIMATE]


def test_bad_input_is_named():
    world = random_world(0, 3, ends=0, forbidden=0)
    root, legal = world.root([0, 1]), world.legal[:2]

    def run(root=root, legal=legal, world=world, **options):
        model = WorldModel(world, [0, 1], 4)
        return search(model, root, legal, **{"num_simulations": 4, "rng": np.random.default_rng(0), **options})

    run()
    with pytest.raises(AgentError, match="0 simulations"):
        run(num_simulations=0)
    with pytest.raises(AgentError, match="'uct'"):
        run(method="uct")
    with pytest.raises(AgentError, match="1 generators for 2 games"):
        run(rng=[np.random.default_rng(0)])
    with pytest.raises(AgentError, match="legal is int64"):
        run(legal=legal.astype(int))
    with pytest.raises(AgentError, match="values have shape"):
        run(root=RootOutput(world.value[:3], world.logits[:2]))
    with pytest.raises(AgentError, match="root of game 1"):
        run(root=RootOutput(np.array([0.0, np.nan]), root.prior_logits))
    with pytest.raises(AgentError, match="logits have shape"):
        run(world=world._replace(logits=world.logits[:, :2]))
    for name in ("reward", "value", "logits"):
        with pytest.raises(AgentError, match="not finite in simulation 1"):
            run(world=world._replace(**{name: np.full_like(getattr(world, name), np.inf)}))
    for method, name, value in [
        (Gumbel, "max_num_considered_actions", 0),
        (Gumbel, "c_visit", -1),
        (Gumbel, "c_scale", np.inf),
        (Gumbel, "normalise", "all"),
        (Puct, "pb_c_base", 0),
        (Puct, "dirichlet_alpha", 0),
        (Puct, "dirichlet_fraction", 1.5),
        (Puct, "temperature", np.nan),
    ]:
        with pytest.raises(AgentError, match=name):
            method(**{name: value})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("normalise", ["none", "node"])
def test_agrees_with_mctx(normalise):
    """The library of the Gumbel paper's authors, without noise, on random worlds without ends.

    Where it normalises it counts illegal actions in, so then all are legal.
    """
    mctx = pytest.importorskip("mctx")
    import jax
    import jax.numpy as jnp

    world = random_world(5, 4, ends=0, forbidden=0)
    roots, num_simulations = np.arange(STATES), 40
    mask = random_world(6, 4, ends=0, forbidden=0.3 if normalise == "none" else 0).legal
    mask[:, 0] = True
    masked = world._replace(legal=mask)
    ours = search(
        WorldModel(world, roots, num_simulations, masked=False),
        RootOutput(world.value, world.logits),
        masked.legal,
        num_simulations=num_simulations,
        rng=np.random.default_rng(0),
        method=Gumbel(normalise=normalise, noise_scale=0.0),
        discount=0.95,
    )
    with jax.enable_x64(True):
        next_state, reward, value, logits = (jnp.asarray(array) for array in world[:4])

        def step(params, key, action, state):
            new = next_state[state, action]
            output = mctx.RecurrentFnOutput(
                reward=reward[state, action],
                discount=jnp.full(len(new), 0.95),
                prior_logits=logits[new],
                value=value[new],
            )
            return output, new

        theirs = mctx.gumbel_muzero_policy(
            params=(),
            rng_key=jax.random.PRNGKey(0),
            root=mctx.RootFnOutput(prior_logits=logits, value=value, embedding=jnp.asarray(roots)),
            recurrent_fn=step,
            num_simulations=num_simulations,
            invalid_actions=jnp.asarray(~mask),
            qtransform=lambda tree, node: mctx.qtransform_completed_by_mix_value(
                tree, node, rescale_values=normalise == "node"
            ),
            gumbel_scale=0.0,
        )
        summary = theirs.search_tree.summary()
    assert (np.asarray(summary.visit_counts) == ours.visit_counts).all()
    assert (np.asarray(theirs.action) == ours.actions).all()
    np.testing.assert_allclose(np.asarray(theirs.action_weights), ours.action_weights, atol=1e-6)
    np.testing.assert_allclose(np.asarray(summary.value), ours.values, rtol=1e-6, atol=1e-6)

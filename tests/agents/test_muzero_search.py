"""MuZero's searches: equal to plain Python, to sums by hand and to another library; what must hold of any model."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.muzero.gumbel import Gumbel, schedule
from agents.muzero.puct import Puct
from agents.muzero.search import Root, Step, search
from agents.muzero.tree import plant
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.state import ESTIMATE
from memplace_env.errors import AgentError
from memplace_env.workload.synthetic import random_dag
from tests import reference_search
from tests.reference_search import Answer

STATES = 40


class Tables(NamedTuple):
    """A small world: by state and action the next state and the reward, by state the value, policy, legal actions."""

    following: np.ndarray
    reward: np.ndarray
    value: np.ndarray
    logits: np.ndarray
    legal: np.ndarray

    def answer(self, state, reward=0.0):
        values = (self.value[state].item(), self.logits[state].tolist(), self.legal[state].tolist())
        return Answer(state, reward, *values)

    def play(self, state, action):
        return self.answer(self.following[state, action].item(), self.reward[state, action].item())


class TableModel:
    """Plays in tables; keeps state numbers in slots. `masked` says whether it knows legal actions."""

    def __init__(self, tables, first, simulations, masked=True):
        self.tables, self.masked = tables, masked
        self.states = np.full((len(first), simulations + 1), -1)
        self.states[:, 0] = first
        self.games = np.arange(len(first))

    def step(self, parents, actions, slot):
        states = self.states[self.games, parents]
        assert (states >= 0).all()
        at, self.states[:, slot] = self.tables, self.tables.following[states, actions]
        new = self.states[:, slot]
        legal = at.legal[new] if self.masked else None
        return Step(at.reward[states, actions], at.value[new], at.logits[new], legal)


def random_tables(seed, actions, *, ends=0.15, forbidden=0.3, coarse=False):
    """`coarse` numbers are few, so that there are ties."""
    rng = np.random.default_rng(seed)
    legal = (rng.random((STATES, actions)) >= forbidden) & (rng.random((STATES, 1)) >= ends)
    reward, logits = rng.normal(size=(2, STATES, actions)) * [[[1.0]], [[2.0]]]
    value = rng.normal(size=STATES)
    if coarse:
        reward, value, logits = np.round(reward), np.round(value), np.round(logits / 2)
    return Tables(rng.integers(0, STATES, (STATES, actions)), reward, value, logits, legal)


def plan(tables, first, simulations, method, seed=0, discount=1.0, masked=True):
    """Search with one generator for each game."""
    first = np.asarray(first)
    root = Root(tables.value[first], tables.logits[first])
    rng = [np.random.default_rng([seed, game]) for game in range(len(first))]
    model = TableModel(tables, first, simulations, masked)
    legal = tables.legal[first]
    return search(model, root, legal, simulations=simulations, rng=rng, method=method, discount=discount)


def bandit(rewards, logits=None, value=0.0):
    """State 0 has an arm for each reward; pulling it ends the game."""
    arms = len(rewards)
    following, legal = np.zeros((2, arms), dtype=int), np.zeros((2, arms), dtype=bool)
    following[0], legal[0] = 1, True
    # The value of state 1 must not count, as the game is over there.
    logits = np.zeros(arms) if logits is None else logits
    return Tables(following, np.array([rewards] * 2), np.array([value, 1e6]), np.array([logits] * 2), legal)


gumbels = st.builds(
    Gumbel,
    considered=st.integers(1, 6),
    c_visit=st.sampled_from([0.0, 1.0, 50.0]),
    c_scale=st.sampled_from([0.0, 0.1, 1.0]),
    normalise=st.sampled_from(["none", "node", "tree"]),
    noise_scale=st.sampled_from([0.0, 1.0]),
)
pucts = st.builds(
    Puct,
    pb_c_init=st.sampled_from([0.0, 1.25]),
    pb_c_base=st.sampled_from([10.0, 19652.0]),
    dirichlet=st.sampled_from([0.03, 0.3, 2.0]),
    fraction=st.sampled_from([0.0, 0.25, 1.0]),
    temperature=st.sampled_from([0.0, 0.5, 1.0]),
)
worlds = st.builds(
    random_tables,
    st.integers(0, 2**32),
    st.integers(1, 6),
    ends=st.sampled_from([0.0, 0.15, 0.6]),
    forbidden=st.sampled_from([0.0, 0.3]),
    coarse=st.booleans(),
)
counts = st.integers(1, 40)


@given(worlds, counts, st.one_of(gumbels, pucts), st.sampled_from([1.0, 0.9]), st.booleans())
def test_equals_plain_python(tables, simulations, settings, discount, masked):
    if not masked:
        tables = tables._replace(legal=np.ones_like(tables.legal))
    first = [0, 1, 2]
    found = plan(tables, first, simulations, settings, discount=discount, masked=masked)
    run = reference_search.gumbel_search if isinstance(settings, Gumbel) else reference_search.puct_search
    for game, state in enumerate(first):
        noise = settings.draw(np.random.default_rng([0, game]), 1, tables.legal.shape[1])[0].tolist()
        told = run(tables.play, tables.answer(state), simulations, discount, settings, noise)
        assert found.visits[game].tolist() == told.visits
        assert found.action[game] == told.action
        assert found.policy[game].tolist() == np.float32(told.policy).tolist()
        assert found.value[game] == np.float32(told.value)


@given(worlds, counts, st.one_of(gumbels, pucts), st.integers(0, 9))
def test_what_holds_of_every_search(tables, simulations, settings, seed):
    first = np.arange(STATES)
    found = plan(tables, first, simulations, settings, seed)
    over = ~tables.legal[first].any(axis=1)
    assert (found.visits.sum(axis=1) == np.where(over, 0, simulations)).all()
    assert (found.visits[~tables.legal[first]] == 0).all()
    assert (found.policy[~tables.legal[first]] == 0).all()
    np.testing.assert_allclose(found.policy.sum(axis=1), np.where(over, 0, 1), atol=1e-6)
    assert (found.action[over] == -1).all()
    assert (found.value[over] == 0).all()
    assert tables.legal[first[~over], found.action[~over]].all()
    assert (found.visits[~over, found.action[~over]] > 0).all()
    again = plan(tables, first, simulations, settings, seed)
    assert all((one == two).all() for one, two in zip(found, again, strict=True))


@given(worlds, counts, st.one_of(gumbels, pucts))
def test_games_do_not_depend_on_each_other(tables, simulations, settings):
    first = np.arange(7)
    together = plan(tables, first, simulations, settings)
    for game in first:
        root = Root(tables.value[[game]], tables.logits[[game]])
        model, rng = TableModel(tables, [game], simulations), [np.random.default_rng([0, game])]
        alone = search(model, root, tables.legal[[game]], simulations=simulations, rng=rng, method=settings)
        assert all((one[0] == many[game]).all() for one, many in zip(alone, together, strict=True))


def test_one_generator_for_all_games_is_deterministic_and_matters():
    tables = random_tables(3, 4, ends=0)
    root = Root(tables.value, tables.logits)
    for method in ("gumbel", "puct"):
        one, two, other = (
            search(
                TableModel(tables, np.arange(STATES), 8),
                root,
                tables.legal,
                simulations=8,
                rng=np.random.default_rng(seed),
                method=method,
            )
            for seed in (1, 1, 2)
        )
        assert (one.visits == two.visits).all()
        assert (one.action == two.action).all()
        assert (one.action != other.action).any()


# Two actions and no logits: from state 0, action 0 earns 1 and leads to state 1 of value 0, action 1 earns 0 and leads
# to state 2 of value 2. From state 1 action 0 earns 0 and leads to state 3 of value 1; from state 2 action 0 earns -4
# and leads to state 4 of value 0. Nothing else is played.
BY_HAND = Tables(
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
    found = plan(BY_HAND, [0], 4, Puct(pb_c_init=1.0, pb_c_base=1e18, fraction=0, temperature=0))
    assert found.visits.tolist() == [[2, 2]]
    assert found.policy.tolist() == [[0.5, 0.5]]
    assert found.action.tolist() == [0]
    assert found.value == np.float32((0 + 2 * 1.5 - 2 * 1) / 5)
    third = plan(BY_HAND, [0], 3, Puct(pb_c_init=1.0, pb_c_base=1e18, fraction=0, temperature=0))
    assert third.visits.tolist() == [[1, 2]]
    assert third.value == np.float32((0 + 1 - 2 * 1) / 4)


def test_gumbel_by_hand():
    """Without noise and with sigma(q) = most visits x q; halving visits each twice, and the better one first.

    1: the first: q0 = 1. 2: the other: q1 = 2. 3: sigma is 1 and 2, the second, -4 below it: q1 = (2 - 4) / 2 = -1.
    4: the first, 0 + 1 below it: q0 = (1 + 2) / 2. In the end sigma is 3 and -2.
    """
    found = plan(BY_HAND, [0], 4, Gumbel(c_visit=0.0, c_scale=1.0, normalise="none", noise_scale=0.0))
    assert found.visits.tolist() == [[2, 2]]
    assert found.action.tolist() == [0]
    assert found.value == np.float32((0 + 2 * 1.5 - 2 * 1) / 5)
    np.testing.assert_allclose(found.policy, [[1 / (1 + math.exp(-5)), 1 / (1 + math.exp(5))]], rtol=1e-6)


@pytest.mark.parametrize(("value", "normalise", "sigma"), [
    (0.0, "none", (2, 1)),  # v_mix = (0 + 1 x 1) / 2 = 1/2
    (3.0, "none", (2, 4)),  # v_mix = (3 + 1 x 1) / 2 = 2
    (0.0, "node", (2, 0)),
    (3.0, "node", (0, 2)),
    (3.0, "tree", (0, 2)),
])  # fmt: skip
def test_actions_without_visits_get_the_mixed_value(value, normalise, sigma):
    """One simulation finds q0 = 1, and sigma(q) = (1 + 1) x q."""
    tables = bandit([1.0, 0.0], value=value)
    settings = Gumbel(considered=1, c_visit=1.0, c_scale=1.0, normalise=normalise, noise_scale=0.0)
    policy = plan(tables, [0], 1, settings).policy[0]
    assert policy[0] == pytest.approx(1 / (1 + math.exp(sigma[1] - sigma[0])), rel=1e-6)


def test_illegal_actions_have_no_part_in_the_normalisation():
    """q = 1 and 1/2 become 1 and 0, although v_mix = (10 + 2 x 3/4) / 3 is greater; sigma(q) = (1 + 1) x q."""
    tables = bandit([1.0, 0.5, 0.0], value=10.0)
    tables.legal[0, 2] = False
    policy = plan(tables, [0], 2, Gumbel(c_visit=1.0, c_scale=1.0, noise_scale=0.0)).policy[0]
    assert policy[0] == pytest.approx(1 / (1 + math.exp(-2)), rel=1e-6)


def test_draws_that_are_exactly_0_never_choose_an_action_without_visits():
    tables = bandit([0.0, 1.0])
    tables.legal[0, 0] = False
    tree = plant(tables.value[:1], tables.logits[:1], tables.legal[:1], 2)
    tree.visits[0, 0] = [0, 3]
    action, _ = Puct().begin(tree, np.array([[1.0, 1.0, 0.0]]), 1).decide()
    assert action.tolist() == [1]


def test_inner_actions_follow_the_improved_policy():
    """One action is legal at the root; below it, priors of 1/4 and 3/4 and equal values share the visits 1 : 3."""
    following = np.array([[1, 1], [2, 2], [2, 2]])
    legal = np.array([[True, False], [True, True], [False, False]])
    logits = np.array([[0.0, 0.0], [0.0, math.log(3)], [0.0, 0.0]])
    tables = Tables(following, np.zeros((3, 2)), np.zeros(3), logits, legal)
    model = TableModel(tables, [0], 41)
    played = []

    class Watched:
        def step(self, parents, actions, slot):
            played.append((parents[0].item(), actions[0].item()))
            return model.step(parents, actions, slot)

    root = Root(tables.value[:1], tables.logits[:1])
    search(Watched(), root, legal[:1], simulations=41, rng=np.random.default_rng(0))
    assert played[0] == (0, 0)
    assert [played.count((1, action)) for action in (0, 1)] == [10, 30]


@given(st.integers(1, 40), st.integers(1, 200))
def test_halving(considered, simulations):
    """Actions considered are visited in step, and half as many from phase to phase."""
    plan = schedule(considered, simulations)
    assert list(plan) == reference_search.halving(considered, simulations)
    assert len(plan) == simulations
    visited = [0] * considered
    for wanted in plan:
        visited[visited.index(wanted)] += 1
    assert sum(visited) == simulations
    if simulations >= considered:
        assert min(visited) >= 1


def test_halving_of_sixteen():
    """16 actions, 64 simulations: four phases of 16 simulations each."""
    plan = schedule(16, 64)
    assert plan == (0,) * 16 + (1,) * 8 + (2,) * 8 + (3, 3, 3, 3) + (4,) * 4 + (5,) * 4 + (6,) * 4 + tuple(
        visits for visits in range(7, 15) for _ in range(2)
    )


arms = st.lists(st.integers(-1000, 1000), min_size=1, max_size=8, unique=True)
few_logits = st.lists(st.floats(-3, 3), min_size=8, max_size=8)


@given(arms, few_logits, st.integers(0, 60), st.integers(0, 9))
def test_finds_the_best_arm_with_a_simulation_for_each(rewards, logits, more, seed):
    tables = bandit(np.array(rewards) / 1000, logits[: len(rewards)])
    trusting = Gumbel(c_scale=1000.0, normalise="none")
    found = plan(tables, [0], len(rewards) + more, trusting, seed)
    assert found.action[0] == np.argmax(rewards)
    assert found.policy[0].argmax() == np.argmax(rewards)


@given(arms, few_logits, gumbels, st.integers(0, 9))
def test_improved_policy_is_no_worse_than_the_prior(rewards, logits, settings, seed):
    """Where each arm has been tried, the targets of any sigma that rises are worth at least as much as the prior."""
    logits = np.array(logits[: len(rewards)])
    tables = bandit(np.array(rewards) / 1000, logits)
    settings = Gumbel(8, settings.c_visit, settings.c_scale, settings.normalise, settings.noise_scale)
    found = plan(tables, [0], 3 * len(rewards), settings, seed)
    assert (found.visits[0] > 0).all()
    prior = np.exp(logits) / np.exp(logits).sum()
    assert found.policy[0] @ tables.reward[0] >= prior @ tables.reward[0] - 1e-6


def test_puct_settles_on_the_best_arm():
    found = plan(bandit([0.1, 0.9, 0.5], logits=[1.0, 0.0, 1.0]), [0], 400, Puct(temperature=0))
    assert found.action[0] == 1
    assert found.policy[0, 1] > 0.8


def test_dirichlet_noise_and_temperature():
    """All noise and no values: visits follow the noise; a high temperature evens the draws out."""
    tables = bandit([0.0, 0.0, 0.0])
    shares = np.array([plan(tables, [0], 100, Puct(fraction=1.0), seed).policy[0] for seed in range(40)])
    assert shares.std(axis=0).min() > 0.2
    drawn = [plan(tables, [0], 4, Puct(fraction=0.0, temperature=1e6), seed).action[0].item() for seed in range(60)]
    assert set(drawn) == {0, 1, 2}


def test_nothing_grows_below_the_end_of_a_game():
    """Each arm ends the game: the value there does not count, however often it is pulled."""
    for method in ("gumbel", "puct"):
        found = plan(bandit([0.25, 0.5], value=0.5), [0], 30, method)
        assert found.visits.sum() == 30
        total = 0.5 + 0.25 * found.visits[0, 0] + 0.5 * found.visits[0, 1]
        assert found.value[0] == pytest.approx(total / 31, rel=1e-6)


class GameModel:
    """The true game as a model: rows in slots, rewards as shares of latency, the greedy player's gain as value."""

    def __init__(self, problem, rows, simulations):
        self.problem, self.games = problem, np.arange(len(rows))
        self.rows = np.empty((len(rows), simulations + 1, problem.size), dtype=np.int64)
        self.rows[:, 0] = rows

    def root(self):
        return Root(self.value(self.rows[:, 0]), np.zeros((len(self.rows), 3)))

    def value(self, rows):
        ends = rows.copy()
        self.problem.finish_greedily(ends)
        return (rows[:, ESTIMATE] - ends[:, ESTIMATE]) / self.problem.all_backing_ps

    def step(self, parents, actions, slot):
        rows = self.rows[self.games, parents]
        gains, _ = self.problem.play(rows, actions)
        self.rows[:, slot] = rows
        logits, legal = np.zeros((len(rows), 3), dtype=np.float32), self.problem.legal(rows)
        return Step(gains / self.problem.all_backing_ps, self.value(rows), logits, legal)


@pytest.mark.parametrize("method", [Gumbel(noise_scale=0.0), Puct(fraction=0.0, temperature=0.0)])
def test_plays_the_true_game(method):
    """A search before each decision ends no later than the greedy player, whose ends are its values."""
    problem = MallocGameEnv(random_dag(3, ops=8, largest=60_000_000), "tpu-v4i").problem
    rows, greedy = problem.new_rows(2), problem.new_rows(1)
    problem.finish_greedily(greedy)
    rng = np.random.default_rng(0)
    for decision in range(problem.num_decisions):
        # The second game stops half way, so that it takes part as it is.
        model, legal = GameModel(problem, rows, 16), problem.legal(rows)
        legal[1] &= decision < problem.num_decisions // 2
        found = search(model, model.root(), legal, simulations=16, rng=rng, method=method)
        assert legal[0, found.action[0]]
        assert (found.action[1] == -1) == (not legal[1].any())
        problem.play(rows[:1], found.action[:1])
        if legal[1].any():
            problem.play(rows[1:], found.action[1:])
    assert problem.done(rows).tolist() == [True, False]
    assert rows[0, ESTIMATE] <= greedy[0, ESTIMATE]


def test_bad_input_is_named():
    tables = random_tables(0, 3, ends=0, forbidden=0)
    root, legal = Root(tables.value[:2], tables.logits[:2]), tables.legal[:2]

    def run(root=root, legal=legal, tables=tables, **options):
        model = TableModel(tables, [0, 1], 4)
        return search(model, root, legal, **{"simulations": 4, "rng": np.random.default_rng(0), **options})

    run()
    with pytest.raises(AgentError, match="0 simulations"):
        run(simulations=0)
    with pytest.raises(AgentError, match="'uct'"):
        run(method="uct")
    with pytest.raises(AgentError, match="1 generators for 2 games"):
        run(rng=[np.random.default_rng(0)])
    with pytest.raises(AgentError, match="legal is int64"):
        run(legal=legal.astype(int))
    with pytest.raises(AgentError, match="value has shape"):
        run(root=Root(tables.value[:3], tables.logits[:2]))
    with pytest.raises(AgentError, match="root of game 1"):
        run(root=Root(np.array([0.0, np.nan]), root.logits))
    with pytest.raises(AgentError, match="logits has shape"):
        run(tables=tables._replace(logits=tables.logits[:, :2]))
    for name in ("reward", "value", "logits"):
        with pytest.raises(AgentError, match="not finite in simulation 1"):
            run(tables=tables._replace(**{name: np.full_like(getattr(tables, name), np.inf)}))
    for method, name, value in [
        (Gumbel, "considered", 0),
        (Gumbel, "c_visit", -1),
        (Gumbel, "c_scale", np.inf),
        (Gumbel, "normalise", "all"),
        (Puct, "pb_c_base", 0),
        (Puct, "dirichlet", 0),
        (Puct, "fraction", 1.5),
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

    tables = random_tables(5, 4, ends=0, forbidden=0)
    first, simulations = np.arange(STATES), 40
    mask = random_tables(6, 4, ends=0, forbidden=0.3 if normalise == "none" else 0).legal
    mask[:, 0] = True
    masked = tables._replace(legal=mask)
    ours = search(
        TableModel(tables, first, simulations, masked=False),
        Root(tables.value, tables.logits),
        masked.legal,
        simulations=simulations,
        rng=np.random.default_rng(0),
        method=Gumbel(normalise=normalise, noise_scale=0.0),
        discount=0.95,
    )
    with jax.enable_x64(True):
        following, reward, value, logits = (jnp.asarray(array) for array in tables[:4])

        def step(params, key, action, state):
            new = following[state, action]
            answer = mctx.RecurrentFnOutput(
                reward=reward[state, action],
                discount=jnp.full(len(new), 0.95),
                prior_logits=logits[new],
                value=value[new],
            )
            return answer, new

        theirs = mctx.gumbel_muzero_policy(
            params=(),
            rng_key=jax.random.PRNGKey(0),
            root=mctx.RootFnOutput(prior_logits=logits, value=value, embedding=jnp.asarray(first)),
            recurrent_fn=step,
            num_simulations=simulations,
            invalid_actions=jnp.asarray(~mask),
            qtransform=lambda tree, node: mctx.qtransform_completed_by_mix_value(
                tree, node, rescale_values=normalise == "node"
            ),
            gumbel_scale=0.0,
        )
        summary = theirs.search_tree.summary()
    assert (np.asarray(summary.visit_counts) == ours.visits).all()
    assert (np.asarray(theirs.action) == ours.action).all()
    np.testing.assert_allclose(np.asarray(theirs.action_weights), ours.policy, atol=1e-6)
    np.testing.assert_allclose(np.asarray(summary.value), ours.value, rtol=1e-6, atol=1e-6)

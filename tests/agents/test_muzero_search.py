"""MuZero's search: equal to plain Python and to another library; what must hold of any model."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.muzero.batched_search import search
from memplace_agents.muzero.gumbel import Gumbel, considered_visits_sequence
from memplace_agents.muzero.search_types import NO_ACTION, ROOT_INDEX, RecurrentOutput, RootOutput
from memplace_env._lib.errors import AgentError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.state import ESTIMATE
from memplace_env.placement.synthetic import random_dag
from tests.agents.worlds import STATES, GameGenerators, WorldModel, counts, gumbels, random_world, run_search, worlds
from tests.references import reference_search

DERATED = str(Path(__file__).parents[2] / "benchmarks" / "data" / "tpu-v4i-derated.toml")
"""The chip on which a few games were seen to suffice."""


@given(worlds, counts, gumbels, st.sampled_from([1.0, 0.9]), st.booleans())
def test_equals_plain_python(world, num_simulations, settings, discount, masked):
    if not masked:
        world = world._replace(legal=np.ones_like(world.legal))
    roots = [0, 1, 2]
    result = run_search(world, roots, num_simulations, settings, discount=discount, masked=masked)
    for game, state in enumerate(roots):
        noise = settings.sample_noise(np.random.default_rng([0, game]), 1, world.legal.shape[1])[0].tolist()
        evaluation = world.evaluation(state)
        expected = reference_search.gumbel_search(
            world.evaluate, evaluation, num_simulations, discount, settings, noise
        )
        assert result.visit_counts[game].tolist() == expected.visit_counts
        assert result.actions[game] == expected.action
        assert result.action_weights[game].tolist() == np.float32(expected.action_weights).tolist()
        assert result.values[game] == np.float32(expected.value)


@given(st.integers(1, 40), st.integers(1, 200))
def test_sequential_halving(num_considered, num_simulations):
    sequence = considered_visits_sequence(num_considered, num_simulations)
    assert list(sequence) == reference_search.sequential_halving(num_considered, num_simulations)


@given(worlds, counts, gumbels, st.integers(0, 9))
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


@given(worlds, counts, gumbels)
def test_games_do_not_depend_on_each_other(world, num_simulations, settings):
    roots = np.arange(7)
    together = run_search(world, roots, num_simulations, settings)
    for game in roots:
        model, rng = WorldModel(world, [game], num_simulations), GameGenerators([game])
        legal = world.legal[[game]]
        alone = search(model, world.root([game]), legal, num_simulations=num_simulations, rng=rng, settings=settings)
        assert all((one[0] == many[game]).all() for one, many in zip(alone, together, strict=True))


def test_one_generator_for_all_games_is_deterministic_and_matters():
    world = random_world(3, 4, ends=0)
    root = RootOutput(world.value, world.logits)
    one, two, other = (
        search(
            WorldModel(world, np.arange(STATES), 8),
            root,
            world.legal,
            num_simulations=8,
            rng=np.random.default_rng(seed),
            settings=Gumbel(),
        )
        for seed in (1, 1, 2)
    )
    assert (one.visit_counts == two.visit_counts).all()
    assert (one.actions == two.actions).all()
    assert (one.actions != other.actions).any()


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


def test_plays_the_true_game():
    """A search before each decision ends no later than the greedy player, whose ends are its values."""
    problem = MallocGameEnv(random_dag(3, ops=8, largest=60_000_000), DERATED).problem
    states, greedy = problem.new_states(2), problem.new_states(1)
    problem.finish_greedily(greedy)
    rng, settings = np.random.default_rng(0), Gumbel(noise_scale=0.0)
    for decision in range(problem.num_decisions):
        # The second game stops half way, so that it takes part as it is.
        model, legal = GameModel(problem, states, 16), problem.legal(states)
        legal[1] &= decision < problem.num_decisions // 2
        result = search(model, model.root(), legal, num_simulations=16, rng=rng, settings=settings)
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
        given = {"num_simulations": 4, "rng": np.random.default_rng(0), "settings": Gumbel(), **options}
        return search(model, root, legal, **given)

    run()
    with pytest.raises(AgentError, match="num_simulations"):
        run(num_simulations=0)
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
    for name, value in (
        ("max_num_considered_actions", 0),
        ("c_visit", -1),
        ("c_scale", np.inf),
        ("noise_scale", np.array([1.0, np.nan])),
    ):
        with pytest.raises(AgentError, match=name):
            Gumbel(**{name: value})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("normalise", [False, True])
def test_agrees_with_mctx(normalise):
    """The library of the Gumbel paper's authors, without noise, on random worlds without ends.

    Where it normalises it counts illegal actions in, so then all are legal.
    """
    mctx = pytest.importorskip("mctx")
    import jax
    import jax.numpy as jnp

    world = random_world(5, 4, ends=0, forbidden=0)
    roots, num_simulations = np.arange(STATES), 40
    mask = random_world(6, 4, ends=0, forbidden=0 if normalise else 0.3).legal
    mask[:, 0] = True
    masked = world._replace(legal=mask)
    ours = search(
        WorldModel(world, roots, num_simulations, masked=False),
        RootOutput(world.value, world.logits),
        masked.legal,
        num_simulations=num_simulations,
        rng=np.random.default_rng(0),
        settings=Gumbel(normalise=normalise, noise_scale=0.0),
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
            qtransform=lambda tree, node: mctx.qtransform_completed_by_mix_value(tree, node, rescale_values=normalise),
            gumbel_scale=0.0,
        )
        summary = theirs.search_tree.summary()
    assert (np.asarray(summary.visit_counts) == ours.visit_counts).all()
    assert (np.asarray(theirs.action) == ours.actions).all()
    np.testing.assert_allclose(np.asarray(theirs.action_weights), ours.action_weights, atol=1e-6)
    np.testing.assert_allclose(np.asarray(summary.value), ours.values, rtol=1e-6, atol=1e-6)

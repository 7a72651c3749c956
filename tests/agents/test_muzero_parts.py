"""The parts of MuZero for mallocGame: its game, numbers, networks, replay and training."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_agents.evaluator import GameEvaluator
from memplace_agents.muzero.batched_search import search
from memplace_agents.muzero.episodes import Episode
from memplace_agents.muzero.free_game import (
    LOOKAHEAD_COLUMN,
    NUM_FEATURES,
    PROFILE_SIZE,
    FreeGame,
    Observation,
    greedy_game,
)
from memplace_agents.muzero.gumbel import Gumbel
from memplace_agents.muzero.models import LearnedModel, SimulatorModel
from memplace_agents.muzero.muzero_replay import MuZeroReplay
from memplace_agents.muzero.muzero_run import MuZeroRun
from memplace_agents.muzero.networks import Support, inverse_value_transform, value_transform
from memplace_agents.muzero.selfplay import play_policy
from memplace_agents.muzero.trainer import Trainer
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.envs.malloc_game.state import ESTIMATE, USE
from memplace_env.testing.strategies import game_tasks
from tests.agents.muzero import crowded, fresh_network, small

# The game


@settings(max_examples=30)
@given(game_tasks(), st.integers(0, 2**32))
def test_free_game_is_the_game_without_forced_decisions(task, seed):
    problem = MallocGameProblem(task)
    game, rng = FreeGame(problem), np.random.default_rng(seed)
    states, plain, total = game.new_states(1), problem.new_states(1), 0.0
    while not problem.done(plain)[0]:
        legal = problem.legal(plain)[0]
        action = rng.choice(np.flatnonzero(legal))
        if legal.sum() > 1:
            assert (states == plain).all()
            total += game.play(states, np.array([action]))[0]
        problem.play(plain, np.array([action]))
    assert (states == plain).all()
    greedy = problem.new_states(1)
    problem.finish_greedily(greedy)
    assert total == pytest.approx((greedy[0, ESTIMATE] - plain[0, ESTIMATE]) / game.point_ps, abs=1e-6)


@settings(max_examples=30)
@given(game_tasks())
def test_greedy_game_is_the_greedy_players(task):
    problem = MallocGameProblem(task)
    actions, estimates = greedy_game(problem)
    states, greedy = problem.new_states(2), problem.new_states(1)
    problem.finish_greedily(greedy)
    for use, action in enumerate(actions):
        assert states[0, ESTIMATE] == estimates[use]
        problem.play(states, np.full(2, action))
    assert (states == greedy).all()
    assert estimates[-1] == greedy[0, ESTIMATE]


def test_observations_keep_what_the_environment_shows():
    game = FreeGame(crowded(ops=20).problem)
    states = game.new_states(3)
    for _ in range(10):
        game.play(states, np.arange(3))
    seen, full = game.observe(states), game.problem.observe(states)
    assert seen.profile.shape == (3, 2, PROFILE_SIZE, PROFILE_SIZE)
    assert seen.features.shape == (3, NUM_FEATURES)
    halves = full.profile.reshape(3, 2, PROFILE_SIZE, 2, PROFILE_SIZE, 2).mean(axis=(3, 5))
    assert np.abs(seen.profile - halves).max() <= 2
    np.testing.assert_allclose(seen.features[:, :64], full.bandwidth, atol=1e-3)
    np.testing.assert_allclose(seen.features[:, LOOKAHEAD_COLUMN:], full.lookahead.reshape(3, -1), atol=1e-3)
    assert (seen.legal == game.problem.legal(states)).all()


# Numbers and networks


@given(st.floats(-1000, 1000))
def test_value_transform_and_back(value):
    transformed = value_transform(torch.tensor(value, dtype=torch.float64))
    assert inverse_value_transform(transformed).item() == pytest.approx(value, abs=1e-6, rel=1e-6)
    assert value_transform(torch.tensor(-value, dtype=torch.float64)) == -transformed


@given(st.floats(-300, 300), st.sampled_from([3, 21, 61]))
def test_support_and_back(value, bins):
    support = Support(bins, 200.0)
    distribution = support.encode(torch.tensor([value]))
    assert distribution.shape == (1, bins)
    assert distribution.sum().item() == pytest.approx(1)
    assert (distribution > 0).sum() <= 2
    assert support.decode(distribution.log())[0].item() == pytest.approx(min(max(value, -200), 200), abs=1e-2)
    assert support.decode(torch.zeros(bins)).item() == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("lookahead", [True, False])
def test_networks_have_the_documented_shapes(lookahead):
    network = fresh_network(lookahead=lookahead)
    game = FreeGame(crowded(ops=20).problem)
    observation = game.observe(game.new_states(5))
    latents = network.representation(observation)
    next_latents, reward_logits = network.dynamics(latents, torch.tensor([0, 1, 2, 0, 1]))
    prediction = network.prediction(next_latents)
    assert latents.shape == next_latents.shape == (5, 8)
    assert reward_logits.shape == prediction.value_logits.shape == (5, 21)
    assert prediction.policy_logits.shape == (5, 3)
    blind = observation.features.copy()
    blind[:, LOOKAHEAD_COLUMN:] = 0
    assert torch.equal(network.representation(Observation(observation.profile, blind)), latents) != lookahead


def test_simulator_answers_with_the_rules():
    game = FreeGame(crowded(ops=20).problem)
    states = game.new_states(2)
    game.play(states[:1], np.array([2]))
    model = SimulatorModel(fresh_network(), game, states, 3)
    actions = np.array([2, 1])
    first, again = (model.evaluate(np.zeros(2, dtype=int), actions, node) for node in (1, 2))
    assert (first.rewards == again.rewards).all()
    deeper = model.evaluate(np.array([1, 2]), actions, 3)
    expected = states.copy()
    assert (game.play(expected, actions) == first.rewards).all()
    assert (game.problem.legal(expected) == first.legal).all()
    assert (game.play(expected, actions) == deeper.rewards).all()


def test_learned_model_plays_in_latent_states():
    network, game = fresh_network(), FreeGame(crowded(ops=20).problem)
    observation = game.observe(game.new_states(3))
    model = LearnedModel(network, observation, 2)
    actions = np.array([0, 1, 2])
    one = model.evaluate(np.zeros(3, dtype=int), actions, 1)
    two = model.evaluate(np.ones(3, dtype=int), actions, 2)
    with torch.no_grad():
        latents = network.representation(observation)
        for output in (one, two):
            latents, reward_logits = network.dynamics(latents, torch.from_numpy(actions))
            prediction = network.prediction(latents)
            np.testing.assert_allclose(output.rewards, network.support.decode(reward_logits), atol=1e-4)
            np.testing.assert_allclose(output.values, network.support.decode(prediction.value_logits), atol=1e-4)
            np.testing.assert_allclose(output.prior_logits, prediction.policy_logits, atol=1e-5)


# Replay


def toy_episode(rng, length):
    """Random observations; action 0 earns 5 points, 2 costs 5."""
    profile = rng.integers(0, 255, (length, 2, PROFILE_SIZE, PROFILE_SIZE)).astype(np.uint8)
    features = rng.random((length, NUM_FEATURES)).astype(np.float16)
    actions = rng.integers(3, size=length).astype(np.int8)
    rewards = (5.0 - 5.0 * actions).astype(np.float32)
    policies = rng.dirichlet(np.ones(3), length).astype(np.float32)
    values = rng.normal(0, 5, length).astype(np.float32)
    return Episode(profile, features, actions, rewards, policies, values, np.full(length, -np.inf, dtype=np.float32))


@settings(max_examples=50)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.integers(5, 40),
    st.integers(0, 6),
    st.integers(0, 5),
    st.integers(0, 99),
)
def test_windows_equal_a_plain_reference(lengths, capacity, unroll, td_steps, seed):
    """All decisions ever played, each with the rest of its game, in one list, of which the last `capacity` are held."""
    rng = np.random.default_rng(seed)
    replay, everything = MuZeroReplay(capacity), []
    for length in lengths:
        episode = toy_episode(rng, length)
        episode.known_returns[0] = rng.normal(0, 20)
        replay.add(episode)
        everything += [(episode, decision) for decision in range(length)][-capacity:]
    held = everything[-capacity:]
    assert replay.size == len(held)
    positions, weights = replay.sample(rng, 20, 0.7, 1.0)
    windows = replay.windows(rng, positions, weights, unroll, td_steps)
    assert (weights <= 1).all()
    assert weights.max() == 1
    for number, position in enumerate(positions):
        index = max(i for i in range(len(everything)) if i % capacity == position)
        episode, first = everything[index]
        assert (windows.observation.features[number] == episode.features[first]).all()
        assert (windows.observation.profile[number] == episode.profile[first]).all()
        for step in range(unroll + 1):
            decision = first + step
            if decision >= len(episode.actions):
                assert windows.values[number, step] == 0
                assert (windows.policies[number, step] == 0).all()
                assert step == unroll or windows.rewards[number, step] == 0
                continue
            assert (windows.policies[number, step] == episode.policies[decision]).all()
            if step < unroll:
                assert windows.actions[number, step] == episode.actions[decision]
                assert windows.rewards[number, step] == episode.rewards[decision]
            end = decision + td_steps
            target = episode.rewards[decision:].sum()
            if td_steps and end < len(episode.actions):
                target = episode.rewards[decision:end].sum() + episode.values[end]
            assert windows.values[number, step] == pytest.approx(max(target, episode.known_returns[decision]), abs=1e-3)


def test_priorities_draw_what_was_misjudged():
    rng = np.random.default_rng(0)
    replay = MuZeroReplay(100)
    replay.add(toy_episode(rng, 10))
    errors = np.ones(10)
    errors[3] = -91.0
    replay.update_priorities(np.arange(10), errors)
    positions, weights = replay.sample(rng, 1000, 1.0, 1.0)
    assert 0.85 < (positions == 3).mean() < 0.95
    np.testing.assert_allclose(weights, np.where(positions == 3, 1 / 91, 1), rtol=1e-3)
    positions, weights = replay.sample(rng, 1000, 0.0, 1.0)
    assert np.bincount(positions, minlength=10).min() > 50
    assert (weights == 1).all()


def test_replay_never_grows():
    rng, replay = np.random.default_rng(0), MuZeroReplay(50)
    before = sum(array.nbytes for array in replay._arrays.values())
    for _ in range(30):
        replay.add(toy_episode(rng, 13))
    replay.add(toy_episode(rng, 200))
    assert replay.size == 50
    assert sum(array.nbytes for array in replay._arrays.values()) == before
    windows = replay.windows(rng, np.arange(50), np.ones(50, np.float32), 3, 0)
    assert np.isfinite(windows.values).all()


# Learning


def test_learned_model_learns_a_toy():
    """Whatever is seen, action 0 earns 5 points; with reanalyse the policy targets become the search's own."""
    rng = np.random.default_rng(0)
    network, replay = fresh_network(hidden=32), MuZeroReplay(500)
    replay.add(toy_episode(rng, 400))
    config = small(batch=64, unroll=2, learning_rate=5e-3, reanalyse=0.5, simulations=8)
    trainer = Trainer(config, network)
    losses = [trainer.step(rng, replay, MuZeroReplay(1)) for _ in range(100)]
    assert losses[-1].reward < 0.2 * losses[0].reward
    observation = replay.observation(np.arange(40))
    model = LearnedModel(network, observation, 8)
    output = model.evaluate(np.zeros(40, dtype=int), np.arange(40) % 3, 1)
    assert np.abs(output.rewards - (5.0 - 5.0 * (np.arange(40) % 3))).mean() < 1
    model = LearnedModel(network, observation, 8)
    trusting = Gumbel(c_scale=0.02, normalise=False, noise_scale=0.0)
    result = search(model, model.root, np.ones((40, 3), bool), num_simulations=8, rng=rng, settings=trusting)
    assert (result.actions == 0).mean() > 0.9
    policy = network.prediction(network.representation(observation)).policy_logits.softmax(-1)
    assert policy[:, 0].mean() > 0.5


def test_best_game_is_whole_however_it_was_found():
    """Games that follow the best one and deviate are put together with what they followed."""
    evaluator = GameEvaluator(crowded(ops=20), budget=80)
    run, best = (
        MuZeroRun(small("simulator", deviations=1.0, games=8, simulations=1, noise=5.0), [evaluator], None, 2),
        set(),
    )
    while not run.done:
        run.step()
        player = run.players[0]
        game, episode = player._game, player.best.episode()
        states = game.new_states(1)
        for decision, action in enumerate(episode.actions):
            assert (game.observe(states).features == episode.features[decision]).all()
            assert game.play(states, np.array([action]))[0] == pytest.approx(episode.rewards[decision], abs=1e-3)
        assert game.problem.done(states)[0]
        assert game.points(states)[0] == player._best_points
        best.add(player._best_points)
    assert len(best) > 1


def test_bare_policy_plays_a_whole_game():
    game = FreeGame(crowded(ops=20).problem)
    states = play_policy(game, fresh_network())
    assert states[0, USE] == game.problem.num_decisions

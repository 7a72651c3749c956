"""The parts of MuZero for mallocGame: its game, networks, models, targets, training and annealing."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.muzero.free_game import FreeGame, GamesAside, greedy_game
from memplace_agents.muzero.guided_annealing import GuidedAnnealing
from memplace_agents.muzero.models import LearnedModel, RulesModel, predicted
from memplace_agents.muzero.muzero_rollout import (
    MuZeroRollout,
    RolloutTargets,
    followed,
    improved_policies,
    mixed_advantages,
    search_advantages,
    spread,
)
from memplace_agents.muzero.muzero_run import MuZeroRun
from memplace_agents.muzero.networks import NUM_FEATURES
from memplace_agents.muzero.player import demonstration_of
from memplace_agents.muzero.trainer import Trainer
from memplace_agents.search import annealing_kernels
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.search.preferences import finished, first_preferences
from memplace_env.envs.malloc_game import GameBatch, MallocGameProblem
from memplace_env.envs.malloc_game.state import DROP, ESTIMATE, USE
from tests.agents.muzero import crowded, fresh_network, small
from tests.strategies import game_tasks
from tests.thorough import examples

# The game


@examples(30)
@given(game_tasks(), st.integers(0, 2**32))
def test_free_game_is_the_game_without_forced_decisions(task, seed):
    problem = MallocGameProblem(task)
    rng = np.random.default_rng(seed)
    games, plain, total = GamesAside(FreeGame(problem), 1), problem.new_states(1), 0.0
    while not problem.done(plain)[0]:
        legal = problem.legal(plain)[0]
        action = rng.choice(np.flatnonzero(legal))
        if legal.sum() > 1:
            assert (games.batch.states[0] == plain).all()
            np.testing.assert_array_equal(games.observations, GameBatch([problem], plain, flat=True).observe())
            total += games.play(np.array([action]))[0][0]
        problem.play(plain, np.array([action]))
    assert (games.batch.states[0] == plain).all()
    greedy = problem.new_states(1)
    problem.finish_greedily(greedy)
    assert total == pytest.approx((greedy[0, ESTIMATE] - plain[0, ESTIMATE]) / games.game.point_ps, abs=1e-2, rel=1e-5)


@examples(30)
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


def test_a_game_that_goes_on_from_another_is_that_game():
    game, rng = FreeGame(crowded(ops=20).problem), np.random.default_rng(0)
    one, other = GamesAside(game, 1), GamesAside(game, 2)
    for _ in range(9):
        one.play(rng.choice(np.flatnonzero(one.batch.legal()[0]), size=1))
    other.restart(1, one.preferences[0], int(one.batch.heads[0, USE]))
    assert (other.batch.states[1] == one.batch.states[0]).all()
    assert (other.batch.profiles[1] == one.batch.profiles[0]).all()
    assert (other.observations[1] == one.observations[0]).all()
    assert (other.batch.states[0] == game.first_state).all()


def test_a_demonstration_is_the_game_decision_by_decision():
    game = FreeGame(crowded(ops=20).problem)
    preferences = first_preferences(game.problem)[1]
    shown, games = demonstration_of(game, preferences), GamesAside(game, 1)
    for use, observation, legal, action in zip(*shown[:4], strict=True):
        assert games.batch.heads[0, USE] == use
        assert (games.observations[0] == observation).all()
        assert (games.batch.legal()[0] == legal).all()
        assert legal[action]
        games.play(np.array([action]))
    assert (games.batch.states[0] == finished(game.problem, preferences[None])).all()
    ahead = game.points(games.batch.heads)[0] - game.points(game.first_state)
    assert shown.returns[0] == pytest.approx(ahead, abs=1e-2)


# Networks and models


def test_networks_have_the_documented_shapes():
    network, games = fresh_network(), GamesAside(FreeGame(crowded(ops=20).problem), 5)
    latents = network.representation(torch.from_numpy(games.observations))
    next_latents, rewards = network.dynamics(latents, torch.tensor([0, 1, 2, 0, 1]))
    prediction = network.prediction(next_latents)
    assert games.observations.shape == (5, NUM_FEATURES)
    assert latents.shape == next_latents.shape == (5, 32)
    assert rewards.shape == prediction.values.shape == (5,)
    assert prediction.policy_logits.shape == (5, 3)


@given(st.floats(-500, 500), st.floats(1e-2, 500))
def test_a_new_unit_changes_no_value(mean, scale):
    network, latents = fresh_network(), torch.rand(7, 32)

    def outputs():
        with torch.no_grad():
            values = network.points(network.prediction(latents).values)
            return torch.stack(
                [values, network.scale * network.dynamics(latents, torch.zeros(7, dtype=torch.int64))[1]]
            )

    before = outputs()
    network.renormalise(3.0, 2.0)
    network.renormalise(mean, scale)
    assert torch.allclose(outputs(), before, atol=1e-3 * (1 + abs(mean) + scale))
    assert torch.allclose(network.points(network.normalised(torch.tensor([5.0]))), torch.tensor([5.0]), atol=1e-3)


def test_the_rules_answer_as_the_game():
    game = FreeGame(crowded(ops=20).problem)
    games = GamesAside(game, 2)
    games.play(np.array([2, 1]))
    network, actions = fresh_network(), np.array([2, 1])
    model = RulesModel(network, games, 3)
    root = model.root()
    first, again = (model.evaluate(np.zeros(2, dtype=int), actions, node) for node in (1, 2))
    deeper = model.evaluate(np.array([1, 2]), actions, 3)
    assert (first.rewards == again.rewards).all()
    assert (root.values == predicted(network, games.observations).values).all()
    for output in (first, deeper):
        rewards, _ = games.play(actions)
        np.testing.assert_allclose(output.rewards, rewards, atol=1e-4)
        assert (output.legal == games.batch.legal()).all()
        assert (output.values == predicted(network, games.observations).values).all()


def test_learned_model_plays_in_latent_states():
    network, games = fresh_network(), GamesAside(FreeGame(crowded(ops=20).problem), 3)
    network.renormalise(4.0, 3.0)
    model, actions = LearnedModel(network, games.observations, 2), np.array([0, 1, 2])
    one = model.evaluate(np.zeros(3, dtype=int), actions, 1)
    two = model.evaluate(np.ones(3, dtype=int), actions, 2)
    with torch.no_grad():
        latents = network.representation(torch.from_numpy(games.observations))
        for output in (one, two):
            latents, rewards = network.dynamics(latents, torch.from_numpy(actions))
            prediction = network.prediction(latents)
            np.testing.assert_allclose(output.rewards, 3 * rewards, atol=1e-5)
            np.testing.assert_allclose(output.values, 4 + 3 * prediction.values, atol=1e-4)
            np.testing.assert_allclose(output.prior_logits, prediction.policy_logits, atol=1e-5)


# What is learned from games


def toy_rollout(rng, decisions=12, games=3):
    """Random observations; action 0 earns 5 points, 2 costs 5; nothing is illegal, and the search saw nothing."""
    shape = decisions, games
    actions = rng.integers(3, size=shape)
    return MuZeroRollout(
        observations=rng.random((*shape, NUM_FEATURES), dtype=np.float32),
        actions=actions,
        rewards=(5.0 - 5.0 * actions).astype(np.float32),
        ends=rng.random(shape) < 0.2,
        log_priors=np.log(rng.dirichlet(np.ones(3), shape)).astype(np.float32),
        advantages=np.zeros((*shape, 3), np.float32),
        values=rng.normal(0, 5, (decisions + 1, games)).astype(np.float32),
    )


@given(st.integers(0, 99), st.sampled_from([0.0, 0.7, 1.0]))
def test_what_followed_equals_a_plain_reference(seed, trace):
    """Lambda-returns as the weighted mean of returns over 1, 2, ... decisions."""
    rollout = toy_rollout(np.random.default_rng(seed))
    exceeds = followed(rollout, trace)
    decisions, games = rollout.rewards.shape
    for game in range(games):
        for first in range(decisions):
            total, weight, earned = 0.0, 1.0, 0.0
            for step in range(first, decisions):
                earned += rollout.rewards[step, game]
                over = rollout.ends[step, game] or step == decisions - 1
                ahead = 0.0 if rollout.ends[step, game] else rollout.values[step + 1, game]
                total += (weight if over else weight * (1 - trace)) * (earned + ahead)
                weight *= trace
                if over:
                    break
            assert exceeds[first, game] + rollout.values[first, game] == pytest.approx(total, abs=1e-3)


def test_advantages_are_relative_to_the_prior():
    log_priors = np.log(np.array([[0.5, 0.25, 0.25], [0.5, 0.5, 1e-30]], np.float32))
    log_priors[1, 2] = -np.inf
    qvalues, visits = np.array([[4.0, 0.0, 8.0], [1.0, 3.0, 0.0]]), np.array([[1, 1, 1], [1, 2, 0]])
    assert search_advantages(log_priors, qvalues, visits).tolist() == [[0, -4, 4], [-1, 1, 0]]
    visits[0, 2] = 0
    qvalues[0, 2] = 0
    np.testing.assert_allclose(search_advantages(log_priors, qvalues, visits)[0], [4 / 3, -8 / 3, 0], atol=1e-5)


def test_what_followed_counts_for_the_action_played():
    rollout = toy_rollout(np.random.default_rng(1))
    exceeds = np.full_like(rollout.rewards, 6.0)
    mixed = mixed_advantages(rollout, exceeds, 0.5)
    played = np.eye(3)[rollout.actions]
    assert (mixed == 3 * played).all()
    share = (np.exp(rollout.log_priors) * played).sum(axis=2)
    assert spread(rollout, mixed) == pytest.approx(3 * np.sqrt(share.mean()), rel=1e-5)
    policies = improved_policies(rollout.log_priors, mixed)
    np.testing.assert_allclose(policies.sum(axis=2), 1, atol=1e-5)
    odds = (policies * played).sum(axis=2) / (1 - (policies * played).sum(axis=2))
    np.testing.assert_allclose(odds, np.e * share / (1 - share), rtol=1e-3)


@pytest.mark.parametrize("model", ["rules", "learned"])
def test_a_toy_is_learned(model):
    """Whatever is seen, action 0 earns 5 points."""
    rng, network = np.random.default_rng(0), fresh_network(hidden=32)
    rollout = toy_rollout(rng, 40, 4)
    policies = np.zeros_like(rollout.log_priors)
    policies[..., 0] = 1
    targets = RolloutTargets(policies, np.full(rollout.rewards.shape, 50.0, np.float32))
    trainer = Trainer(small(model, batch=40, learning_rate=5e-3), network)
    trainer.renormalise([RolloutTargets(policies, np.array([[45.0, 55.0]], np.float32))])
    for _ in range(60):
        losses = trainer.epoch(rng, rollout, targets, None)
    output = predicted(network, rollout.observations[0])
    np.testing.assert_allclose(output.values, 50, atol=2)
    assert (output.prior_logits.argmax(axis=1) == 0).all()
    if model == "learned":
        learned = LearnedModel(network, rollout.observations[0], 2)
        answer = learned.evaluate(np.zeros(4, dtype=int), np.array([0, 1, 2, 0]), 1)
        np.testing.assert_allclose(answer.rewards, [5, 0, -5, 5], atol=1.5)
    else:
        assert losses[-1].reward == 0


def test_the_best_game_is_imitated_and_kept():
    evaluator = GameEvaluator(crowded(ops=40), budget=300)
    run = MuZeroRun(small(learning_rate=3e-3, batch=64, annealing=0.3), [evaluator], None, 2)
    run.begin()
    player, found = run.players[0], set()
    first = player.demonstration
    run._trainer.imitate(np.random.default_rng(0), first, 80)
    logits = np.where(first.legal, predicted(run.policy, first.observations).prior_logits, -np.inf)
    assert (logits.argmax(axis=1) == first.actions).mean() > 0.9
    dropped = np.full((1, len(player.best)), DROP, np.int8)
    player._best_ps = np.inf
    player._keep(dropped, finished(player.game.problem, dropped))
    while not run.done:
        run.step()
        state = finished(player.game.problem, player.best[None])[0]
        assert state[ESTIMATE] == player._best_ps
        found.add(player._best_ps)
    assert evaluator.evaluations == 300
    assert len(found) > 1


# Annealing


def test_pieces_of_annealing_report_games_that_they_played():
    problem = crowded(ops=20).problem
    best, annealing = first_preferences(problem)[0], GuidedAnnealing(problem)
    guide = demonstrated_guide(problem, best)
    latency = finished(problem, best[None])[0, ESTIMATE]
    while (left := annealing.games_left()) > 0 and left <= 2000:
        annealing.start_from(best, 9000)
        found = annealing.run(min(left, 700), float(latency), guide, left)
        if (now := finished(problem, found[None])[0, ESTIMATE]) < latency:
            best, latency = found, now
    assert annealing.games_left() == 4000
    annealing.start_from(best, 11_999)
    assert annealing.games_left() == 11_999  # the next cycle has no room
    assert latency < finished(problem, first_preferences(problem)[:1])[0, ESTIMATE]


def demonstrated_guide(problem, preferences):
    """A policy that takes any legal action with equal chances along a game."""
    shown, guide = demonstration_of(FreeGame(problem), preferences), np.zeros((problem.num_decisions, 3), np.float32)
    guide[shown.uses] = shown.legal / shown.legal.sum(axis=1, keepdims=True)
    return guide


def test_a_certain_guide_decides_the_first_move():
    """A guide that doubts one decision alone begins there, with its action."""
    problem = crowded(ops=20).problem
    preferences = first_preferences(problem)[0]
    shown = demonstration_of(FreeGame(problem), preferences)
    first = problem.new_states(1)[0]
    for index in range(0, len(shown.uses), 3):
        use, guide = shown.uses[index], np.eye(3, dtype=np.float32)[preferences]
        wanted = (preferences[use] + 1) % 3
        guide[use] = np.eye(3)[wanted]
        current, best = preferences.copy(), preferences.copy()
        groups = GuidedAnnealing(problem)._groups
        heats = np.full(1, 1e30)  # so hot that any move is accepted
        args = problem.tables, problem.layout, *groups, first, 7, heats, index, current, best, guide, 1.0
        annealing_kernels.anneal(*args)
        changed = np.flatnonzero(current != preferences)
        assert set(current[changed]) <= {wanted}
        assert not len(changed) or changed[0] >= use

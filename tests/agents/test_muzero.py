"""MuZero for mallocGame: its game, numbers, networks, replay and files, seeds and resumed runs."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.evaluator import GameEvaluator
from agents.game import GreedyPlayer
from agents.learning import files
from agents.learning.training import CHECKPOINT, CURVES, POLICY
from agents.muzero import MuZero, MuZeroConfig
from agents.muzero.free_game import BEFORE_LOOKAHEAD, FLAT, SIDE, FreeGame, Seen, greedy_game
from agents.muzero.gumbel import Gumbel
from agents.muzero.models import LearnedModel, SimulatorModel
from agents.muzero.networks import MuZeroNetwork, Support, squash, unsquash
from agents.muzero.policy_file import load_policy, save_policy
from agents.muzero.replay import Replay
from agents.muzero.run import Run
from agents.muzero.search import search
from agents.muzero.selfplay import Episode, play_policy
from agents.muzero.trainer import Trainer, legal_of
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.state import ESTIMATE, USE
from memplace_env.errors import AgentError
from memplace_env.plan import validate
from memplace_env.workload.synthetic import planted, random_dag
from tests.agents.planted import optimum_ps, reach
from tests.strategies import programs, two_level_accelerators

SMALL = {"games": 4, "simulations": 4, "latent": 8, "hidden": 16, "batch": 16, "most_steps": 4, "replay": 500}
MODELS = ["learned", "simulator"]


def crowded(seed=3, ops=8):
    """A program larger than fast memory, so that there is something to decide."""
    return MallocGameEnv(random_dag(seed, ops=ops, largest=60_000_000), "tpu-v4i")


def small(model="learned", **options):
    return MuZeroConfig(**{"model": model, **SMALL, **options})


def weights(network):
    return torch.nn.utils.parameters_to_vector(network.parameters()).detach()


def fresh_network(**options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MuZeroNetwork(**{"latent": 8, "hidden": 16, "bins": 21, **options})


# The game


@settings(max_examples=20)
@given(programs(), two_level_accelerators(), st.integers(0, 2**32))
def test_free_game_is_the_game_without_forced_decisions(program, chip, seed):
    problem = MallocGameEnv(program, chip).problem
    game, rng = FreeGame(problem), np.random.default_rng(seed)
    rows, plain, total = game.new_rows(1), problem.new_rows(1), 0.0
    while not problem.done(plain)[0]:
        legal = problem.legal(plain)[0]
        action = rng.choice(np.flatnonzero(legal))
        if legal.sum() > 1:
            assert (rows == plain).all()
            total += game.play(rows, np.array([action]))[0]
        problem.play(plain, np.array([action]))
    assert (rows == plain).all()
    greedy = problem.new_rows(1)
    problem.finish_greedily(greedy)
    assert total == pytest.approx((greedy[0, ESTIMATE] - plain[0, ESTIMATE]) / game.point_ps, abs=1e-6)


@settings(max_examples=20)
@given(programs(), two_level_accelerators())
def test_greedy_game_is_the_greedy_players(program, chip):
    problem = MallocGameEnv(program, chip).problem
    actions, estimates = greedy_game(problem)
    rows, greedy = problem.new_rows(2), problem.new_rows(1)
    problem.finish_greedily(greedy)
    for use, action in enumerate(actions):
        assert rows[0, ESTIMATE] == estimates[use]
        problem.play(rows, np.full(2, action))
    assert (rows == greedy).all()
    assert estimates[-1] == greedy[0, ESTIMATE]


def test_observations_keep_what_the_environment_shows():
    game = FreeGame(crowded(ops=20).problem)
    rows = game.new_rows(3)
    for _ in range(10):
        game.play(rows, np.arange(3))
    seen, full = game.observe(rows), game.problem.observe(rows)
    assert seen.profile.shape == (3, 2, SIDE, SIDE)
    assert seen.flat.shape == (3, FLAT)
    halves = full.profile.reshape(3, 2, SIDE, 2, SIDE, 2).mean(axis=(3, 5))
    assert np.abs(seen.profile - halves).max() <= 2
    np.testing.assert_allclose(seen.flat[:, :64], full.bandwidth, atol=1e-3)
    np.testing.assert_allclose(seen.flat[:, BEFORE_LOOKAHEAD:], full.lookahead.reshape(3, -1), atol=1e-3)
    assert (legal_of(seen) == game.problem.legal(rows)).all()


# Numbers and networks


@given(st.floats(-1000, 1000))
def test_transform_and_back(x):
    there = squash(torch.tensor(x, dtype=torch.float64))
    assert unsquash(there).item() == pytest.approx(x, abs=1e-6, rel=1e-6)
    assert squash(torch.tensor(-x, dtype=torch.float64)) == -there


@given(st.floats(-300, 300), st.sampled_from([3, 21, 61]))
def test_support_and_back(x, bins):
    support = Support(bins, 200.0)
    chances = support.encode(torch.tensor([x]))
    assert chances.shape == (1, bins)
    assert chances.sum().item() == pytest.approx(1)
    assert (chances > 0).sum() <= 2
    assert support.decode(chances.log())[0].item() == pytest.approx(min(max(x, -200), 200), abs=1e-2)
    assert support.decode(torch.zeros(bins)).item() == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("lookahead", [True, False])
def test_networks_have_the_documented_shapes(lookahead):
    network = fresh_network(lookahead=lookahead)
    game = FreeGame(crowded(ops=20).problem)
    seen = game.observe(game.new_rows(5))
    latent = network.look(seen)
    moved, reward = network.advance(latent, torch.tensor([0, 1, 2, 0, 1]))
    said = network.predict(moved)
    assert latent.shape == moved.shape == (5, 8)
    assert reward.shape == said.value.shape == (5, 21)
    assert said.policy.shape == (5, 3)
    blind = seen.flat.copy()
    blind[:, BEFORE_LOOKAHEAD:] = 0
    assert torch.equal(network.look(Seen(seen.profile, blind)), latent) != lookahead


def test_simulator_answers_with_the_rules():
    game = FreeGame(crowded(ops=20).problem)
    rows = game.new_rows(2)
    game.play(rows[:1], np.array([2]))
    model = SimulatorModel(fresh_network(), game, rows, 3)
    actions = np.array([2, 1])
    first, again = (model.step(np.zeros(2, dtype=int), actions, slot) for slot in (1, 2))
    assert (first.reward == again.reward).all()
    deeper = model.step(np.array([1, 2]), actions, 3)
    expected = rows.copy()
    assert (game.play(expected, actions) == first.reward).all()
    assert (game.problem.legal(expected) == first.legal).all()
    assert (game.play(expected, actions) == deeper.reward).all()


def test_learned_model_plays_in_latent_states():
    network, game = fresh_network(), FreeGame(crowded(ops=20).problem)
    seen = game.observe(game.new_rows(3))
    model = LearnedModel(network, seen, 2)
    actions = np.array([0, 1, 2])
    one = model.step(np.zeros(3, dtype=int), actions, 1)
    two = model.step(np.ones(3, dtype=int), actions, 2)
    with torch.no_grad():
        latent = network.look(seen)
        for step in (one, two):
            latent, reward = network.advance(latent, torch.from_numpy(actions))
            said = network.predict(latent)
            np.testing.assert_allclose(step.reward, network.support.decode(reward), atol=1e-4)
            np.testing.assert_allclose(step.value, network.support.decode(said.value), atol=1e-4)
            np.testing.assert_allclose(step.logits, said.policy, atol=1e-5)


# Replay


def toy_episode(rng, length):
    """Random observations; action 0 earns 5 points, 2 costs 5."""
    profile = rng.integers(0, 255, (length, 2, SIDE, SIDE)).astype(np.uint8)
    flat = rng.random((length, FLAT)).astype(np.float16)
    action = rng.integers(3, size=length).astype(np.int8)
    reward = (5.0 - 5.0 * action).astype(np.float32)
    policy = rng.dirichlet(np.ones(3), length).astype(np.float32)
    value = rng.normal(0, 5, length).astype(np.float32)
    return Episode(profile, flat, action, reward, policy, value, np.full(length, -np.inf, dtype=np.float32))


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
    replay, everything = Replay(capacity), []
    for length in lengths:
        episode = toy_episode(rng, length)
        episode.known[0] = rng.normal(0, 20)
        replay.add(episode)
        everything += [(episode, decision) for decision in range(length)][-capacity:]
    held = everything[-capacity:]
    assert replay.size == len(held)
    at, weight = replay.draw(rng, 20, 0.7, 1.0)
    windows = replay.windows(rng, at, weight, unroll, td_steps)
    assert (weight <= 1).all()
    assert weight.max() == 1
    for number, place in enumerate(at):
        index = max(i for i in range(len(everything)) if i % capacity == place)
        episode, first = everything[index]
        assert (windows.seen.flat[number] == episode.flat[first]).all()
        assert (windows.seen.profile[number] == episode.profile[first]).all()
        for step in range(unroll + 1):
            decision = first + step
            if decision >= len(episode.action):
                assert windows.value[number, step] == 0
                assert (windows.policy[number, step] == 0).all()
                assert step == unroll or windows.reward[number, step] == 0
                continue
            assert (windows.policy[number, step] == episode.policy[decision]).all()
            if step < unroll:
                assert windows.action[number, step] == episode.action[decision]
                assert windows.reward[number, step] == episode.reward[decision]
            end = decision + td_steps
            target = episode.reward[decision:].sum()
            if td_steps and end < len(episode.action):
                target = episode.reward[decision:end].sum() + episode.value[end]
            assert windows.value[number, step] == pytest.approx(max(target, episode.known[decision]), abs=1e-3)


def test_priorities_draw_what_was_misjudged():
    rng = np.random.default_rng(0)
    replay = Replay(100)
    replay.add(toy_episode(rng, 10))
    errors = np.ones(10)
    errors[3] = -91.0
    replay.judge(np.arange(10), errors)
    at, weight = replay.draw(rng, 1000, 1.0, 1.0)
    assert 0.85 < (at == 3).mean() < 0.95
    np.testing.assert_allclose(weight, np.where(at == 3, 1 / 91, 1), rtol=1e-3)
    even, weight = replay.draw(rng, 1000, 0.0, 1.0)
    assert np.bincount(even, minlength=10).min() > 50
    assert (weight == 1).all()


def test_replay_never_grows():
    rng, replay = np.random.default_rng(0), Replay(50)
    before = sum(array.nbytes for array in replay._arrays.values())
    for _ in range(30):
        replay.add(toy_episode(rng, 13))
    replay.add(toy_episode(rng, 200))
    assert replay.size == 50
    assert sum(array.nbytes for array in replay._arrays.values()) == before
    windows = replay.windows(rng, np.arange(50), np.ones(50, np.float32), 3, 0)
    assert np.isfinite(windows.value).all()


# Learning


def test_learned_model_learns_a_toy():
    """Whatever is seen, action 0 earns 5 points; with reanalyse the policy targets become the search's own."""
    rng = np.random.default_rng(0)
    network, replay = fresh_network(hidden=32), Replay(500)
    replay.add(toy_episode(rng, 400))
    config = small(batch=64, unroll=2, learning_rate=5e-3, reanalyse=0.5, simulations=8)
    trainer = Trainer(config, network)
    losses = [trainer.step(rng, replay, Replay(1)) for _ in range(100)]
    assert losses[-1].reward < 0.2 * losses[0].reward
    seen = replay.seen(np.arange(40))
    model = LearnedModel(network, seen, 8)
    told = model.step(np.zeros(40, dtype=int), np.arange(40) % 3, 1)
    assert np.abs(told.reward - (5.0 - 5.0 * (np.arange(40) % 3))).mean() < 1
    model = LearnedModel(network, seen, 8)
    method = Gumbel(c_scale=0.02, normalise="none", noise_scale=0.0)
    found = search(model, model.root, np.ones((40, 3), bool), simulations=8, rng=rng, method=method)
    assert (found.action == 0).mean() > 0.9
    assert network.predict(network.look(seen)).policy.softmax(-1)[:, 0].mean() > 0.5


def test_best_game_is_whole_however_it_was_found():
    """Games that follow the best one and deviate are put together with what they followed."""
    evaluator = GameEvaluator(crowded(ops=20), budget=80)
    run, best = Run(small("simulator", deviations=1.0, games=8, simulations=1, noise=5.0), [evaluator], None, 2), set()
    while not run.done:
        run.step()
        player = run.players[0]
        game, episode = player._game, player.best.episode()
        rows = game.new_rows(1)
        for decision, action in enumerate(episode.action):
            assert (game.observe(rows).flat == episode.flat[decision]).all()
            assert game.play(rows, np.array([action]))[0] == pytest.approx(episode.reward[decision], abs=1e-3)
        assert game.problem.done(rows)[0]
        assert game.standing(rows)[0] == player._best_points
        best.add(player._best_points)
    assert len(best) > 1


def test_bare_policy_plays_a_whole_game():
    game = FreeGame(crowded(ops=20).problem)
    rows = play_policy(game, fresh_network())
    assert rows[0, USE] == game.problem.num_decisions


# The agent


@pytest.mark.parametrize("model", MODELS)
def test_solutions_are_valid_and_within_budget(model):
    env, heard = crowded(), []
    solution = MuZero(small(model)).solve(env, budget=23, seed=1, callback=heard.append)
    assert validate(env.program, env.accelerator, solution.plan) == []
    assert heard[-1].evaluations == solution.evaluations == 23
    assert solution.report.latency_ps <= GreedyPlayer().solve(env).report.latency_ps
    assert MuZero(small(model)).solve(env, budget=1).report.latency_ps == GreedyPlayer().solve(env).report.latency_ps


@settings(max_examples=8)
@given(programs(), two_level_accelerators(), st.sampled_from(MODELS))
def test_any_program_on_any_machine(program, chip, model):
    env = MallocGameEnv(program, chip)
    solution = MuZero(small(model)).solve(env, budget=9)
    assert validate(program, chip, solution.plan) == []
    assert solution.report.latency_ps <= GreedyPlayer().solve(env).report.latency_ps


@pytest.mark.parametrize("model", MODELS)
def test_same_seed_same_plan(model, tmp_path):
    one, two, _ = (
        MuZero(small(model), out=tmp_path / str(number)).solve(crowded(), budget=30, seed=seed)
        for number, seed in enumerate((7, 7, 8))
    )
    assert one.plan == two.plan
    assert [(p.evaluations, p.latency_s) for p in one.history] == [(p.evaluations, p.latency_s) for p in two.history]
    first, second, third = (weights(load_policy(tmp_path / str(number) / POLICY)) for number in range(3))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


class KilledError(Exception):
    """Ends a run from its callback."""


@pytest.mark.parametrize("model", MODELS)
def test_killed_and_resumed_is_as_if_nothing_had_happened(model, tmp_path):
    def kill(progress):
        if progress.evaluations >= 24:
            raise KilledError

    whole, halves = (MuZero(small(model), out=tmp_path / name, every=2) for name in ("whole", "halves"))
    expected = whole.solve(crowded(), budget=41, seed=3)
    with pytest.raises(KilledError):
        halves.solve(crowded(), budget=41, seed=3, callback=kill)
    assert not (tmp_path / "halves" / POLICY).exists()
    again = MuZero(small(model), out=tmp_path / "halves", resume=True, every=2)
    solution = again.solve(crowded(), budget=41, seed=3)
    assert solution.plan == expected.plan
    assert solution.evaluations == expected.evaluations
    assert [(p.evaluations, p.latency_s) for p in solution.history] == [
        (p.evaluations, p.latency_s) for p in expected.history
    ]
    both = [weights(load_policy(tmp_path / name / POLICY)) for name in ("whole", "halves")]
    assert torch.equal(*both)
    with pytest.raises(AgentError, match="another run \\(other seed\\)"):
        again.solve(crowded(), budget=41, seed=4)


def test_one_network_for_several_programs(tmp_path):
    """Each program has its solution; a run that goes on is the whole run; one network comes out."""
    envs = [crowded(), crowded(seed=5, ops=11)]
    whole = MuZero(small(), out=tmp_path / "whole").train(envs, budget=21, seed=2)
    assert [solution.evaluations for solution in whole.solutions] == [21, 21]
    for env, solution in zip(envs, whole.solutions, strict=True):
        assert validate(env.program, env.accelerator, solution.plan) == []
        assert solution.report.latency_ps <= GreedyPlayer().solve(env).report.latency_ps
    MuZero(small(), out=tmp_path / "halves", every=1).train(envs, budget=10, seed=2)
    halves = MuZero(small(), out=tmp_path / "halves", resume=True).train(envs, budget=21, seed=2)
    assert [solution.evaluations for solution in halves.solutions] == [21, 21]
    assert torch.equal(weights(load_policy(tmp_path / "whole" / POLICY)), weights(whole.policy))
    with pytest.raises(AgentError, match="other programs"):
        MuZero(small(), out=tmp_path / "halves", resume=True).train(envs[:1], budget=30, seed=2)
    with pytest.raises(AgentError, match="at least one"):
        MuZero(small()).train([])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("topology", "ops"), [("chain", 8), ("chain", 16), ("diamond", 8), ("fan-out", 8)])
def test_planted_optima_are_reached_and_never_beaten(model, topology, ops):
    """Within 600 games, where the greedy player does not see the optimum and the game can reach it."""
    program = planted(topology, ops=ops, seed=4, hot=0.8, accelerator="tpu-v4i").program
    env = MallocGameEnv(program, "tpu-v4i")
    assert GreedyPlayer().solve(env).report.latency_ps > optimum_ps(env)
    reach(MuZero(small(model)), env, budget=600, seed=4)


def test_curves_and_policies_are_kept_and_of_use(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    MuZero(small(), out=tmp_path).solve(crowded(), budget=20)
    curves = EventAccumulator(str(tmp_path / CURVES))
    curves.Reload()
    tags = set(curves.Tags()["scalars"])
    assert {
        "speedup/best/0",
        "latency/mean/0",
        "points/best/0",
        "loss/policy",
        "loss/value",
        "loss/reward",
        "entropy",
    } <= tags
    network = load_policy(tmp_path / POLICY)
    save_policy(tmp_path / "copy.pt", network)
    assert torch.equal(weights(load_policy(tmp_path / "copy.pt")), weights(network))
    solution = MuZero(small(hidden=99), policy=tmp_path / POLICY).solve(crowded(seed=5), budget=9)
    assert solution.outcome == "feasible"


def test_files_that_are_something_else_are_named(tmp_path):
    class Boom:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    torch.save({"format": "memplace", "kind": "muzero-policy/1", "content": Boom()}, tmp_path / "evil.pt")
    (tmp_path / "torn.pt").write_bytes(b"PK")
    files.save(tmp_path / "other.pt", "graph-policy/1", {})
    files.save(tmp_path / "huge.pt", "muzero-policy/1", {"options": {"latent": 10**9}, "weights": {}})
    files.save(tmp_path / "empty.pt", "muzero-policy/1", {"options": fresh_network().options, "weights": {}})
    for name in ("evil", "torn", "other", "huge", "empty", "missing"):
        with pytest.raises(AgentError, match=name):
            MuZero(policy=tmp_path / f"{name}.pt")
    assert not (tmp_path / "executed").exists()
    MuZero(small(), out=tmp_path).solve(crowded(), budget=5)
    content = files.load(tmp_path / CHECKPOINT, "muzero-run/1")
    del content["run"]["players"][0]["replay"]["arrays"]["reward"]
    files.save(tmp_path / CHECKPOINT, "muzero-run/1", content)
    with pytest.raises(AgentError, match="damaged"):
        MuZero(small(), out=tmp_path, resume=True).solve(crowded(), budget=9)


def test_time_limit_ends_games_early():
    env = crowded(ops=60)
    solution = MuZero(MuZeroConfig(games=16, simulations=200)).solve(env, budget=10**6, time_limit=0.5)
    assert solution.outcome == "feasible"
    assert validate(env.program, env.accelerator, solution.plan) == []


def test_bad_settings_are_named():
    for name, value in [
        ("model", "perfect"),
        ("games", 0),
        ("noise", -1.0),
        ("bins", 4),
        ("reach", 0.0),
        ("demonstrated", 1.5),
        ("learning_rate", float("nan")),
    ]:
        with pytest.raises(AgentError, match=name):
            MuZeroConfig(**{name: value})
    with pytest.raises(AgentError, match="reanalyse"):
        MuZeroConfig(model="simulator", reanalyse=0.5)
    with pytest.raises(AgentError, match="pass out"):
        MuZero(resume=True)
    with pytest.raises(AgentError, match="every"):
        MuZero(every=0)
    with pytest.raises(AgentError, match="no environment of mallocGame"):
        MuZero().solve("MemPlace-AlexNet-v0", budget=1)

"""Games without forced decisions: the same games, returns and plans in fewer steps."""

import pickle
import warnings
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.env_checker import check_env as sb3_check_env

import memplace_env  # noqa: F401
from memplace_env._lib.errors import EnvError
from memplace_env.envs.datasets import states_along
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.plan_actions import greedy_actions
from memplace_env.envs.malloc_game.state import USE
from memplace_env.placement.simulator import BuiltinSimulator
from memplace_env.testing import RandomCosts
from tests.strategies import game_tasks
from tests.test_all_envs import GENERIC, assert_same
from tests.thorough import examples

WORKLOAD = "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"


@examples(60)
@given(game_tasks(), st.integers(0, 99), st.sampled_from(["dict", "flat"]), st.booleans())
def test_the_game_is_the_same(task, seed, form, black_box):
    """Step by step against a plain environment that plays forced decisions by hand."""
    if black_box:
        task = replace(task, simulator=BuiltinSimulator(RandomCosts(seed)))
    plain = MallocGameEnv(task, observation=form)
    env = MallocGameEnv(task, observation=form, skip_forced=True)
    rng, decided, over = np.random.default_rng(seed), 0, False

    def play_forced(seen, last):
        """Play the plain environment's forced decisions; returns reward, observation and how many there were."""
        total, count, latency_s = 0.0, 0, plain.latency_s
        while len(legal := plain.legal_actions()) == 1 and plain.get_state()[USE] <= last:
            seen, reward, _, _, info = plain.step(legal[0])
            total, count, latency_s = total + reward, count + 1, info["latency_s"]
        return total, seen, count, latency_s

    seen, info = env.reset(seed=seed)
    earned, expected, count, _ = play_forced(plain.reset(seed=seed)[0], task.program.num_uses - 2)
    assert earned == 0
    assert info["skipped"] == count
    total = whole = 0.0
    while not over:
        assert_same(seen, expected)
        assert (env.get_state() == plain.get_state()).all()
        assert len(env.legal_actions()) > 1 or (decided == 0 and env.get_state()[USE] == task.program.num_uses - 1)
        action = int(rng.integers(3))
        seen, reward, terminated, truncated, info = env.step(action)
        expected, alone, _, _, first = plain.step(action)
        earned, expected, count, latency_s = play_forced(expected, task.program.num_uses)
        assert reward == pytest.approx(alone + earned, abs=1e-9)
        played = {"latency_s": latency_s, "played": first["played"], "illegal": first["illegal"], "skipped": count}
        assert info == played
        assert terminated == (not plain.legal_actions())
        assert not truncated
        over = terminated
        total, whole, decided = total + reward, whole + alone + earned, decided + 1
    assert_same(seen, expected)
    assert env.plan() == plain.plan()
    assert total == pytest.approx(whole, abs=1e-7)


@pytest.mark.parametrize("form", ["dict", "flat"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_native_vector_environment_equals_gymnasiums_own(mode, form):
    """Games get different lengths, so that they end and begin apart from each other."""
    given = GENERIC["MallocGame-v0"] | {"observation": form, "skip_forced": True}
    native = gym.make_vec("MallocGame-v0", num_envs=5, autoreset_mode=mode, **given)
    single = SyncVectorEnv([lambda: gym.make("MallocGame-v0", **given)] * 5, autoreset_mode=mode)
    assert_same(native.reset(seed=1), single.reset(seed=1))
    native.action_space.seed(1)
    rng, ended, partly = np.random.default_rng(1), np.zeros(5, bool), False
    for step in range(150):
        again = ended | (rng.random(5) < 0.3) if step % 20 == 7 else ended
        if again.any() and (step % 20 == 7 or mode == AutoresetMode.DISABLED):
            results = [env.reset(seed=3, options={"reset_mask": again.copy()}) for env in (native, single)]
            assert_same(*results)
            ended[again] = False
        actions = native.action_space.sample()
        mine = native.step(actions)
        assert_same(mine, single.step(actions))
        ended = mine[2].copy()
        partly |= 0 < ended.sum() < 5
        rows = mine[0]["action_mask"] if form == "dict" else mine[0][:, 23:26]
        assert (rows.sum(axis=1) >= np.where(ended & (mode != AutoresetMode.SAME_STEP), 0, 2)).all()
    assert partly


def test_states_forks_and_copies():
    env = MallocGameEnv(WORKLOAD, skip_forced=True)
    env.reset(seed=0)
    env.step(1)
    state, fork = env.get_state(), env.fork()
    copied = pickle.loads(pickle.dumps(env))
    other = MallocGameEnv(WORKLOAD, skip_forced=True)
    other.set_state(state)
    results = [game.step(0) for game in (env, fork, copied, other)]
    for result in results[1:]:
        assert_same(result, results[0])
    assert (env.get_state() != state).any()
    env.set_state(state)
    assert_same(env.step(0), results[0])


@pytest.mark.parametrize("form", ["dict", "flat"])
def test_games_that_begin_from_a_state(form):
    """Forced decisions after it count among those before, in native vectors too."""
    given = GENERIC["MallocGame-v0"] | {"observation": form, "skip_forced": True}
    native = gym.make_vec("MallocGame-v0", num_envs=3, **given)
    sync = SyncVectorEnv([lambda: gym.make("MallocGame-v0", **given)] * 3)
    problem = native.unwrapped.problem
    plain = MallocGameEnv(native.unwrapped.env.task)
    for decision in range(problem.num_decisions):
        state = states_along(problem, problem.plan(problem.first_state), [decision])[0]
        plain.reset(options={"state": state})
        options = {"state": state, "reset_mask": np.array([True, False, True])}
        native.reset(), sync.reset()
        mine = native.reset(options=dict(options))
        assert_same(mine, sync.reset(options=dict(options)))
        while len(legal := plain.legal_actions()) == 1 and plain.get_state()[USE] < problem.num_decisions - 1:
            plain.step(legal[0])
        assert (native.unwrapped.states[0] == plain.get_state()).all()
        assert mine[1]["skipped"].tolist() == [plain.get_state()[USE] - decision, 0, plain.get_state()[USE] - decision]
        native.action_space.seed(0)
        actions = native.action_space.sample()
        assert_same(native.step(actions), sync.step(actions))


@pytest.mark.parametrize("form", ["dict", "flat"])
def test_checkers(form):
    env = gym.make("MallocGame-v0", workload=WORKLOAD, observation=form, skip_forced=True)
    check_env(env.unwrapped, skip_render_check=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*has an unconventional shape")
        sb3_check_env(env, skip_render_check=True)


@pytest.mark.parametrize("player", ["random", "greedy"])
def test_many_of_berts_decisions_are_forced(player):
    """Counted by steps and by `skipped`; how many depends on who plays."""
    env = MallocGameEnv("BERT", skip_forced=True)
    _, info = env.reset(seed=0)
    greedy, rng = greedy_actions(env.problem), np.random.default_rng(0)
    steps, skipped, total, over = 0, info["skipped"], 0.0, False
    while not over:
        action = rng.integers(3) if player == "random" else greedy[steps + skipped]
        _, reward, over, _, info = env.step(action)
        steps, skipped, total = steps + 1, skipped + info["skipped"], total + reward
    assert steps + skipped == env.problem.num_decisions
    assert skipped > 0.2 * (steps + skipped)
    assert total == pytest.approx(100 * (1 - info["latency_s"] / (env.problem.all_backing_ps * 1e-12)))


@pytest.mark.parametrize("flag", [None, 1, "yes", [True]])
def test_flags_are_refused(flag):
    with pytest.raises(EnvError, match="skip_forced is True or False, not"):
        gym.make("MallocGame-v0", workload=WORKLOAD, skip_forced=flag)

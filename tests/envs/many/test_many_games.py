"""The game with another program in each episode: single, and native vectors against Gymnasium's own."""

import pickle
from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

import memplace_env  # noqa: F401
from memplace_env._lib.errors import EnvError, WorkloadError
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game import GameBatch
from memplace_env.envs.malloc_game.env import drawn_game
from memplace_env.envs.many.drawn import MOST_LOADED
from memplace_env.envs.many.setting import Setting, known_settings
from memplace_env.envs.registration import Formulation
from memplace_env.placement.simulator import BuiltinSimulator
from memplace_env.placement.synthetic import planted
from tests.test_all_envs import assert_same
from tests.thorough import examples

COPIES = 3
SMALL = "synthetic:random?ops={}&seed={}"


def legal_play(env, seed):
    """Return of an episode of random legal actions, and the last info."""
    rng, total, over = np.random.default_rng(seed), 0.0, False
    while not over:
        legal = np.flatnonzero(env.unwrapped.action_masks())
        _, reward, over, _, info = env.step(int(rng.choice(legal)))
        total += reward
    return total, info


@pytest.mark.parametrize("form", ["dict", "flat"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_native_equals_gymnasiums_own(mode, form):
    """Observations, rewards, infos and the programs drawn at each reset, with resets of some in between."""
    name = "MallocGame-Synthetic-v0"
    native = gym.make_vec(name, num_envs=COPIES, autoreset_mode=mode, observation=form)
    single = SyncVectorEnv([lambda: gym.make(name, observation=form)] * COPIES, autoreset_mode=mode)
    assert native.observation_space == single.observation_space
    assert native.action_space == single.action_space
    assert_same(native.reset(seed=[3, 1, 4]), single.reset(seed=[3, 1, 4]))
    native.action_space.seed(1)
    ended, ends, programs = np.zeros(COPIES, bool), 0, set()
    for step in range(400):
        again = ended | (step % 150 == 70) & (np.arange(COPIES) == 1)
        if again.any() and (step % 150 == 70 or mode == AutoresetMode.DISABLED):
            seed, chip = (9, "tpu-v4i") if step == 70 else (None, None)
            results = [
                env.reset(seed=seed, options={"reset_mask": again.copy(), "accelerator": chip})
                for env in (native, single)
            ]
            assert_same(*results)
            ended[again] = False
        actions = native.action_space.sample()
        mine = native.step(actions)
        assert_same(mine, single.step(actions))
        assert native.observation_space.contains(mine[0])
        programs |= set(mine[4]["program"])
        ended, ends = mine[2].copy(), ends + mine[2].sum()
    assert ends > COPIES
    assert len(programs) > ends, "each reset draws anew"
    native.close()
    single.close()


def test_native_equals_gymnasiums_own_on_the_zoo():
    """The same over one episode's beginning on programs of every size and chip of the test split."""
    native = gym.make_vec("MallocGame-Test-v0", num_envs=8)
    single = SyncVectorEnv([lambda: gym.make("MallocGame-Test-v0")] * 8)
    assert_same(native.reset(seed=2), single.reset(seed=2))
    native.action_space.seed(1)
    for _ in range(60):
        actions = native.action_space.sample()
        assert_same(native.step(actions), single.step(actions))


problems = st.builds(
    lambda ops, seed: Setting(SMALL.format(ops, seed), "tpu-v4i"), st.integers(2, 9), st.integers(0, 9)
)


@examples(20, deadline=None)
@given(
    games=st.lists(problems, min_size=1, max_size=5),
    seed=st.integers(0, 2**32 - 1),
    flat=st.booleans(),
    skip_forced=st.booleans(),
)
def test_games_of_many_programs_are_played_as_alone(games, seed, flat, skip_forced):
    """One call on games of different programs gives what a call for each gives, to the bit, past their ends too."""
    rng = np.random.default_rng(seed)
    problems = [drawn_game(setting).problem for setting in games]
    together = GameBatch(problems, [problem.first_state for problem in problems], flat)
    alone = [GameBatch([problem], [problem.first_state], flat) for problem in problems]
    seen, shown = together.observe(), [one.observe() for one in alone]
    for _ in range(25):
        for index, own in enumerate(shown):
            assert_same(*((rows[row] if flat else rows.of(row)) for rows, row in ((seen, index), (own, 0))))
        actions = rng.integers(0, 3, len(games))
        moves = together.step(actions, seen, skip_forced)
        for index, (one, own) in enumerate(zip(alone, shown, strict=True)):
            assert np.array(one.step(actions[index : index + 1], own, skip_forced)).T.tolist() == [
                [column[index] for column in moves]
            ]
            assert (together.heads[index] == one.heads[0]).all()
            assert (together.states[index] == one.states[0]).all()


@examples(15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_planted_optimum_returns_100(seed):
    """Playing the planted levels reaches `optimal_latency_s`, which no game beats, and returns 100."""
    env = gym.make("MallocGame-Synthetic-v0", skip_forced=False)
    info = env.reset(seed=seed)[1]
    core = env.unwrapped
    topology, _, query = core.setting.program.removeprefix("synthetic:").partition("?")
    arguments = dict(pair.split("=") for pair in query.split("&"))
    levels = planted(
        topology,
        ops=int(arguments["ops"]),
        seed=int(arguments["seed"]),
        hot=float(arguments["hot"]),
        accelerator=arguments["accelerator"],
    ).levels
    total = 0.0
    for tensor in core.program.use_tensor:
        _, reward, over, _, info = env.step(1 if levels[tensor] == 0 else 2)
        total += reward
    assert over
    assert info["latency_s"] == info["optimal_latency_s"] == core.report().latency_s
    gain = 1 - info["optimal_latency_s"] / (core.problem.all_backing_ps * PS)
    assert total == pytest.approx(100 if gain >= 0.01 else 1e4 * gain)
    assert total == pytest.approx(info["optimal_return"])
    env.reset(options=core.setting.options)
    assert legal_play(env, seed)[1]["latency_s"] >= info["optimal_latency_s"]


def test_gain_is_in_units_of_the_best_cheap_plan():
    """Listed settings have their measured unit, others that of the greedy player, whose own return is then 100."""
    env = gym.make("MallocGame-Train-v0")
    info = env.reset(seed=11)[1]
    reference = known_settings(Formulation.GAME)[env.unwrapped.setting]
    total, info = legal_play(env, 0)
    expected = (reference.backing_s - info["latency_s"]) / (reference.backing_s - reference.cheap_s)
    assert total == pytest.approx(100 * expected)
    percent = gym.make("MallocGame-Train-v0", reward="percent")
    percent.reset(seed=11)
    assert legal_play(percent, 0)[0] == pytest.approx(100 * (1 - info["latency_s"] / reference.backing_s))

    options = {"program": "ResNet18", "accelerator": "tpu-v4i", "batch": 7}
    env.reset(options=options)
    core = env.unwrapped
    assert core.setting not in known_settings(Formulation.GAME)
    states = core.problem.new_states(1)
    core.problem.finish_greedily(states)
    saved = 1 - core.problem.latency_s(states)[0] / (core.problem.all_backing_ps * PS)
    assert core.scale * saved == pytest.approx(100)


def test_infos_name_what_is_played():
    env = gym.make("MallocGame-Validation-v0")
    for seed in range(3):
        info = env.reset(seed=seed)[1]
        setting = env.unwrapped.setting
        assert info["program"] == setting.program
        assert info["accelerator"] == setting.accelerator
        assert info["batch"] == (setting.batch or 0)
        assert setting.info.items() <= env.step(2)[4].items()
        assert env.unwrapped.program.name.lower().startswith(setting.program.lower()[:3])
        again = env.reset(options=setting.options)[1]
        assert again == info


@pytest.mark.parametrize("env_id", ["MallocGame-Train-v0", "MemPlaceSteps-Train-v0"])
def test_no_simulator_is_that_of_all_programs(env_id):
    with pytest.raises(EnvError, match="has no simulator of its own"):
        gym.make(env_id).unwrapped.with_simulator(BuiltinSimulator())


def test_wrong_options_leave_everything_as_it_was():
    native = gym.make_vec("MallocGame-Train-v0", num_envs=2, autoreset_mode="Disabled")
    native.reset(seed=1)
    native.unwrapped._ended[1] = True
    states = pickle.dumps(native.unwrapped.states)
    for options, error in (
        ({"program": "NoSuch"}, WorkloadError),
        ({"batch": "a"}, EnvError),
        ({"state": np.zeros(3)}, EnvError),
    ):
        with pytest.raises(error):
            native.reset(options=options)
        with pytest.raises(error):
            gym.make("MallocGame-Train-v0").reset(options=options)
    assert pickle.dumps(native.unwrapped.states) == states
    with pytest.raises(EnvError, match=r"The episodes \[1\] have ended"):
        native.step(np.array([2, 2]))
    native.reset(options={"reset_mask": np.array([False, True])})
    native.step(np.array([2, 2]))
    with pytest.raises(EnvError, match="reward must be one of percent, fraction, gain, not 'speedup'"):
        gym.make("MallocGame-Train-v0", reward="speedup")


@pytest.mark.parametrize("again", [deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_of_vectors_play_on_alike(again):
    native = gym.make_vec("MallocGame-Synthetic-v0", num_envs=COPIES).unwrapped
    native.reset(seed=5)
    native.action_space.seed(2)
    for _ in range(20):
        native.step(native.action_space.sample())
    copy = again(native)
    for _ in range(120):
        actions = native.action_space.sample()
        assert_same(copy.step(actions), native.step(actions))


def test_programs_are_made_once_and_few_are_kept():
    first, second = (gym.make("MallocGame-Train-v0").unwrapped for _ in range(2))
    first.reset(seed=5)
    second.reset(seed=5)
    assert first.problem is second.problem
    assert drawn_game.cache_info().maxsize == MOST_LOADED

"""The steps with another program in each episode: single, and native vectors against Gymnasium's own."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

import memplace_env  # noqa: F401
from memplace_env._lib.errors import EnvError
from memplace_env._lib.units import PS
from memplace_env.envs.many.setting import Setting, known_settings
from memplace_env.envs.registration import Formulation
from memplace_env.envs.steps import StepsBatch
from memplace_env.envs.steps.env import CHEAP, drawn_steps
from memplace_env.envs.wrappers import MeasurementNoise
from memplace_env.placement.compiler import HEURISTICS, all_backing_report
from memplace_env.placement.simulator import evaluate_plan
from tests.envs.many.test_many_games import legal_play
from tests.test_all_envs import assert_same
from tests.thorough import examples

COPIES = 3


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_native_equals_gymnasiums_own(mode, dense):
    """Observations, rewards, infos and the programs drawn at each reset, on every kind of chip."""
    settings_of = {"dense": dense, "observation": "dict" if dense else "flat"}
    for name, steps in (("MemPlaceSteps-Synthetic-v0", 200), ("MemPlaceSteps-Test-v0", 40)):
        native = gym.make_vec(name, num_envs=COPIES, autoreset_mode=mode, **settings_of)
        single = SyncVectorEnv([lambda name=name: gym.make(name, **settings_of)] * COPIES, autoreset_mode=mode)
        assert native.observation_space == single.observation_space
        assert_same(native.reset(seed=[3, 1, 4]), single.reset(seed=[3, 1, 4]))
        native.action_space.seed(1)
        ended, ends, programs = np.zeros(COPIES, bool), 0, set()
        for step in range(steps):
            again = ended | (step == 30) & (np.arange(COPIES) == 1)
            if again.any() and (step == 30 or mode == AutoresetMode.DISABLED):
                chosen = {"accelerator": "ethos-u65"} if step == 30 else {}
                results = [env.reset(options={"reset_mask": again.copy(), **chosen}) for env in (native, single)]
                assert_same(*results)
                ended[again] = False
            actions = native.action_space.sample()
            mine = native.step(actions)
            assert_same(mine, single.step(actions))
            assert (native.action_masks() == mine[4]["action_mask"].astype(bool)).all()
            programs |= set(mine[4]["program"])
            ended, ends = mine[2].copy(), ends + mine[2].sum()
        assert len(programs) > ends
        assert ends or steps < 200


problems = st.builds(
    lambda chip, ops, seed: Setting(f"synthetic:fan-out?ops={ops}&seed={seed}&accelerator={chip}", chip),
    st.sampled_from(["nnp-i", "tpu-v4i", "edge-tpu"]),
    st.integers(5, 12),
    st.integers(0, 9),
)


@examples(20, deadline=None)
@given(episodes=st.lists(problems, min_size=1, max_size=5), seed=st.integers(0, 2**32 - 1))
def test_steps_of_many_programs_are_decided_as_alone(episodes, seed):
    """One call on steps of different programs gives what a call for each gives, to the bit, past their ends too."""
    rng = np.random.default_rng(seed)
    problems = [drawn_steps(setting, "schedule").problem for setting in episodes]
    together = StepsBatch(problems, [problem.tables.first_state for problem in problems])
    alone = [StepsBatch([problem], [problem.tables.first_state]) for problem in problems]
    seen = together.observe()
    for index, one in enumerate(alone):
        assert (seen[index] == one.observe()[0]).all()
    for _ in range(30):
        actions = rng.integers(0, 3, len(problems))
        levels = together.step(actions, seen)
        for index, one in enumerate(alone):
            row = one.empty(1)
            own = one.step(actions[index : index + 1], row)
            assert [column[index] for column in levels] == [column[0] for column in own]
            assert (seen[index] == row[0]).all()
            assert (together.states[index] == one.states[0]).all()


@pytest.mark.parametrize("dense", [False, True])
def test_gain_is_in_units_of_the_best_cheap_plan(dense):
    env = gym.make("MemPlaceSteps-Train-v0", dense=dense)
    env.reset(seed=11)
    reference = known_settings(Formulation.STEPS)[env.unwrapped.setting]
    total, info = legal_play(env, 0)
    latency_s = env.unwrapped.report().latency_s
    assert info["latency_s"] == latency_s
    assert total == pytest.approx(100 * (reference.backing_s - latency_s) / (reference.backing_s - reference.cheap_s))
    percent = gym.make("MemPlaceSteps-Train-v0", dense=dense, reward="percent")
    percent.reset(seed=11)
    assert legal_play(percent, 0)[0] == pytest.approx(100 * (1 - latency_s / reference.backing_s))


def test_settings_outside_the_list_take_the_compilers_rules():
    setting = Setting("ResNet18", "nnp-i", 3, (), "float16")
    task, drawn = setting.task(), drawn_steps(setting, "density")
    assert setting not in known_settings(Formulation.STEPS)
    best_s = min(evaluate_plan(task, HEURISTICS[name](task)).latency_s for name in CHEAP)
    backing_s = all_backing_report(task).latency_s
    assert drawn.problem.all_backing_ps * PS == pytest.approx(backing_s)
    assert drawn.gain == pytest.approx(1 - best_s / backing_s)


@examples(10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_plan_beats_a_planted_optimum(seed):
    env = gym.make("MemPlaceSteps-Synthetic-v0")
    first = env.reset(seed=seed)[1]
    total, info = legal_play(env, seed)
    assert info["latency_s"] >= first["optimal_latency_s"] == info["optimal_latency_s"] > 0
    assert total <= info["optimal_return"] + 1e-9


def test_noise_is_paid_in_the_same_unit():
    plain, noisy = gym.make("MemPlaceSteps-Train-v0"), MeasurementNoise(gym.make("MemPlaceSteps-Train-v0"), 0.1)
    for env in (plain, noisy):
        env.reset(seed=5)
    exact, measured = legal_play(plain, 1), legal_play(noisy, 1)
    drawn = drawn_steps(plain.unwrapped.setting, "density")
    backing_s = drawn.problem.all_backing_ps * PS
    change_s = exact[1]["latency_s"] - measured[1]["latency_s"]
    assert change_s
    assert measured[0] - exact[0] == pytest.approx(100 / drawn.gain * change_s / backing_s)


def test_copies_of_vectors_play_on_alike():
    native = gym.make_vec("MemPlaceSteps-Synthetic-v0", num_envs=COPIES).unwrapped
    native.reset(seed=5)
    copy = pickle.loads(pickle.dumps(native))
    native.action_space.seed(2)
    for _ in range(100):
        actions = native.action_space.sample()
        assert_same(copy.step(actions), native.step(actions))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"reward": "end"}, "reward must be one of speedup, percent, fraction, gain, not 'end'"),
        ({"dense": 1}, "dense is True or False, not 1"),
        ({"order": "size"}, "order"),
        ({"order": [[1]]}, r"order must be 'density' or 'schedule', not \[\[1\]\]"),
        ({"order": {}}, "order must be 'density' or 'schedule', not {}"),
        ({"programs": "all"}, "programs must be one of"),
        ({"workload": "BERT"}, "An environment that draws its programs takes no workload"),
        ({"batch": 2}, "An environment that draws its programs takes no batch"),
    ],
)
def test_wrong_arguments_get_a_sentence(arguments, sentence):
    with pytest.raises(EnvError, match=sentence):
        gym.make("MemPlaceSteps-Train-v0", **arguments)
    with pytest.raises(EnvError, match=sentence):
        gym.make_vec("MemPlaceSteps-Train-v0", num_envs=2, **arguments)

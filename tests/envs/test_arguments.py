"""Arguments of making, resetting and stepping environments: one error sentence for each invalid one."""

import gymnasium as gym
import numpy as np
import pytest

from memplace_env._lib.errors import ActionError, EnvError, MemPlaceError, WorkloadError
from memplace_env.envs import arguments
from memplace_env.envs.placement_env import formulation_of
from memplace_env.envs.registration import Formulation
from tests.offenders import every
from tests.test_all_envs import GENERIC

HUGE = 10**5000
"""Too long to be written in decimal, which Python refuses."""
SENTENCE = "integer of at least 0 and below"


@pytest.fixture(params=sorted(GENERIC))
def env_id(request):
    return request.param


@pytest.fixture
def env(env_id):
    return gym.make(env_id, **GENERIC[env_id]).unwrapped


@pytest.fixture
def many(env_id):
    return gym.make_vec(env_id, num_envs=3, **GENERIC[env_id])


@every("seed", [-1, True, 2**128, HUGE, -HUGE, 1.0, "1", np.timedelta64(1, "s"), {}, np.array(1.5)])
def test_seeds_are_refused(env, many, seed):
    for asked in (env, many):
        with pytest.raises(EnvError, match=SENTENCE):
            asked.reset(seed=seed)
    with pytest.raises(EnvError, match=SENTENCE):
        many.reset(seed=[1, seed, 2])
    with pytest.raises(EnvError, match="2 seeds for 3 environments"):
        many.reset(seed=[1, 2])


@every("seed", [None, 0, 2**64, 2**128 - 1, np.uint64(2**63)])
def test_seeds_are_taken(env, many, seed):
    env.reset(seed=seed)
    many.reset(seed=seed)
    many.reset(seed=[seed, 1, None])


@every("options", ["a", 3, [("reset_mask", 1)], np.ones(3, bool)])
def test_options_are_refused(env, many, options):
    for asked in (env, many):
        with pytest.raises(EnvError, match="options of a reset are None or a dictionary"):
            asked.reset(options=options)


@every("number", [True, np.True_, 0, -1, 2.5, "a", None, -HUGE, np.timedelta64(2, "s"), np.array(2), [2]])
def test_numbers_of_environments_are_refused(env_id, number):
    with pytest.raises(EnvError, match="num_envs is an integer of at least 1"):
        gym.make_vec(env_id, num_envs=number, **GENERIC[env_id])


@every("number", [2**40, 2**63, HUGE, np.uint64(2**64 - 1)])
def test_no_more_environments_than_there_is_memory_for(env_id, number):
    with pytest.raises(EnvError, match=r"is more than the [\d,]+ copies of [\d,]+ bytes"):
        gym.make_vec(env_id, num_envs=number, **GENERIC[env_id])


def test_the_limit_is_that_of_the_machine(monkeypatch):
    monkeypatch.setattr(arguments, "_memory_bytes", lambda: 1000)
    assert arguments.checked_count(np.int8(10), 100) == 10
    with pytest.raises(EnvError, match="num_envs 11 is more than the 10 copies of 100 bytes"):
        arguments.checked_count(11, 100)


class Refuses:
    def __array__(self, *_, **__):
        raise RuntimeError


@every(
    "action",
    [np.nan, None, "a", [[1], [2, 3]], Refuses(), HUGE, np.timedelta64(1, "s"), np.ones(3, "m8[s]"), [None] * 3],
)
def test_actions_are_refused(env, many, action):
    env.reset()
    many.reset()
    for asked in (env, many):
        with pytest.raises(ActionError, match=r"An action .*; this"):
            asked.step(action)


def test_before_a_reset_and_after_closing(env, many):
    for asked in (env, many):
        asked.action_space.seed(0)
        asked.step(asked.action_space.sample())
        asked.reset()
        asked.close()
        asked.step(asked.action_space.sample())


@every(
    ("settings", "sentence"),
    [
        ({"observation": np.array(["flat", "dict"])}, "observation must be 'dict', 'flat' or 'graph'"),
        ({"workload": "x" * 100_000}, "There is no workload"),
        ({"workload": "synthetic:chain?ops=" + "1" * 13}, r"4\.\.100000 ops"),
        ({"accelerator": 3}, "not int"),
        ({"accelerator": b"nnp-i"}, "not bytes"),
        ({"simulator": np.zeros(3)}, "is not a simulator"),
        ({"costs": HUGE}, "is not a cost model"),
        ({"batch": "2"}, "'batch' is '2'; a dim is a whole number"),
        ({"batch": HUGE}, "'batch' is an object of int that cannot be shown"),
        ({"dims": [1]}, r"dims are a dictionary from names to sizes, not \[1\]"),
        ({"pins": "a"}, "pins are a dictionary from names of tensors to memories, not 'a'"),
        ({"pins": ["x"]}, r"pins are a dictionary from names of tensors to memories, not \['x'\]"),
        ({"dims": {1: 2}}, "The name of a dim is text, not 1"),
        ({"dtype": ["int8"]}, r"dtype is a name, not \['int8'\]"),
        ({"fusion": np.zeros(2)}, "fusion is a name"),
        *[
            ({name: list(range(3000))}, "a list of 3,000 items")
            for name in ("costs", "dtype", "batch", "dims", "fusion", "simulator", "observation")
        ],
    ],
)
def test_settings_are_refused(env_id, settings, sentence):
    with pytest.raises(MemPlaceError, match=sentence) as caught:
        gym.make(env_id, **GENERIC[env_id] | {"workload": "ResNet50"} | settings)
    assert len(str(caught.value)) < 1000


@every("returned", [3.0, [1.0], np.ones((1, 1)), np.array(["a"]), None])
def test_reward_functions_that_return_something_else(returned):
    env = gym.make("MemPlace-v0", **GENERIC["MemPlace-v0"], reward=lambda scores: returned)
    env.reset()
    with pytest.raises(EnvError, match=r"The reward function returned .*; it must return float64\[1\]"):
        env.step(env.action_space.sample())


@every("mode", [["ansi"], np.array(["ansi", "x"]), "human", 3])
def test_modes_of_rendering(env, mode):
    with pytest.raises(EnvError, match=r"render_mode must be one of rgb_array, ansi, not "):
        type(env)(env.task, render_mode=mode)


@pytest.mark.parametrize(
    "env_id", ["MemPlace-Tiny-v0", "MallocGame-Tiny-v0", "MemPlaceSteps-Tiny-v0", "MallocGame-Train-v0"]
)
@pytest.mark.parametrize("mode", ["rgb_array", "ansi"])
def test_a_batch_that_shall_be_drawn(env_id, mode):
    with pytest.raises(EnvError, match=f"draws nothing, so it has no render_mode='{mode}'"):
        gym.make_vec(env_id, num_envs=2, render_mode=mode)
    envs = gym.make_vec(env_id, num_envs=2, render_mode=mode, vectorization_mode="sync")
    envs.reset()
    assert len(envs.render()) == 2


def test_rewards_without_a_name():
    with pytest.raises(MemPlaceError, match=r"No reward is called \['speedup'\]"):
        gym.make("MemPlace-v0", **GENERIC["MemPlace-v0"], reward=["speedup"])


def test_texts_that_are_no_url():
    with pytest.raises(WorkloadError, match="No synthetic workload is called"):
        gym.make("MemPlace-v0", workload="synthetic://[")


def test_any_object_may_be_handed_in_as_a_mode():
    class Mute:
        def __repr__(self):
            raise RuntimeError

    for mode in (Mute(), np.zeros(3, dtype=[("field", int)]), "Next"):
        with pytest.raises(EnvError, match="must be one of 'NextStep'"):
            gym.make_vec("MemPlace-v0", num_envs=2, autoreset_mode=mode, **GENERIC["MemPlace-v0"])


@every("formulation", [None, "chess", "game"])
def test_formulation_of_other_environments(formulation):
    env = gym.make("CartPole-v1")
    if formulation is not None:
        env.unwrapped.formulation = formulation
    if formulation == "game":
        assert formulation_of(env) is Formulation.GAME
    else:
        with pytest.raises(EnvError, match="needs an attribute `formulation`, 'one-shot' or 'game'"):
            formulation_of(env)

"""The native vector environments against Gymnasium's own, in every mode, and what they refuse."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as vector_wrappers

import memplace_env  # noqa: F401
from memplace_env._lib.errors import EnvError
from tests.test_all_envs import GENERIC, assert_same

COPIES = 5


def make(env_id, **kwargs):
    return gym.make_vec(env_id, num_envs=kwargs.pop("num_envs", COPIES), **GENERIC[env_id], **kwargs)


@pytest.fixture(params=sorted(GENERIC))
def env_id(request):
    return request.param


@pytest.mark.parametrize("form", ["dict", "flat"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_equals_gymnasiums_own(env_id, mode, form):
    """The same actions, and now and then a reset of some, which sets the episodes apart from each other."""
    native = make(env_id, autoreset_mode=mode, observation=form)
    settings = GENERIC[env_id] | {"observation": form}
    single = SyncVectorEnv([lambda: gym.make(env_id, **settings)] * COPIES, autoreset_mode=mode)
    assert native.metadata["autoreset_mode"] == native.autoreset_mode == single.metadata["autoreset_mode"]
    assert native.single_observation_space == single.single_observation_space
    assert native.observation_space == single.observation_space
    assert native.action_space == single.action_space
    assert_same(native.reset(seed=1), single.reset(seed=1))
    native.action_space.seed(1)
    rng, ended, ends = np.random.default_rng(1), np.zeros(COPIES, bool), 0
    for step in range(12 if env_id == "MemPlace-v0" else 100):
        again = ended | (rng.random(COPIES) < 0.3) if step % 20 == 7 else ended
        if again.any() and (step % 20 == 7 or mode == AutoresetMode.DISABLED):
            results = [env.reset(seed=3, options={"reset_mask": again.copy()}) for env in (native, single)]
            assert_same(*results)
            ended[again] = False
        actions = native.action_space.sample()
        mine = native.step(actions)
        assert_same(mine, single.step(actions))
        assert native.observation_space.contains(mine[0])
        ended, ends = mine[2].copy(), ends + mine[2].sum()
    assert ends > COPIES
    native.close()
    single.close()


def test_the_default_mode_is_gymnasiums(env_id):
    sync = gym.make_vec(env_id, num_envs=2, vectorization_mode="sync", **GENERIC[env_id])
    assert make(env_id).metadata["autoreset_mode"] == sync.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP


def test_ended_episodes_wait_for_their_reset(env_id):
    env = make(env_id, autoreset_mode="Disabled")
    env.reset(seed=0)
    ended = np.zeros(COPIES, bool)
    while not ended.all():
        ended = env.step(env.action_space.sample())[2]
    env.reset(options={"reset_mask": np.arange(COPIES) != 2})
    with pytest.raises(EnvError, match=r"\[2\]"):
        env.step(env.action_space.sample())
    assert_same(env.reset(options={"reset_mask": np.arange(COPIES) == 2})[0], env.reset()[0])


def test_wasted_steps_evaluate_nothing():
    """In NEXT_STEP every second step of a one-shot environment is empty; a slow simulator must not run for it."""
    counted = []

    class Counting:
        def run(self, program, accelerator, plan):
            from memplace_env.placement.simulator import BuiltinSimulator

            counted.append(plan)
            return BuiltinSimulator().run(program, accelerator, plan)

    env = make("MemPlace-v0", simulator=Counting())
    env.reset()
    first = len(counted)
    for _ in range(4):
        env.step(env.action_space.sample())
    assert len(counted) - first == 2 * COPIES


@pytest.mark.parametrize("mask", [np.zeros(COPIES, bool), np.ones(3, bool), np.ones(COPIES), [True] * COPIES])
def test_reset_masks_are_refused(env_id, mask):
    with pytest.raises(EnvError, match=r"reset_mask is a boolean array of shape \(5,\)"):
        make(env_id).reset(options={"reset_mask": mask})


def test_modes_and_forms_are_refused(env_id):
    with pytest.raises(EnvError, match="'NextStep', 'SameStep', 'Disabled'"):
        make(env_id, autoreset_mode="now")
    with pytest.raises(EnvError, match="observation must be 'dict', 'flat' or 'graph'"):
        make(env_id, observation="list")
    with pytest.raises(EnvError, match="shows no graphs; pass vectorization_mode='sync'"):
        make(env_id, observation="graph")


def test_gymnasiums_vector_wrappers(env_id):
    """Without a word about modes: its wrappers of observations take NEXT_STEP only."""
    flattened = vector_wrappers.FlattenObservation(make(env_id))
    normal = vector_wrappers.NormalizeObservation(make(env_id, observation="flat"))
    counted = vector_wrappers.RecordEpisodeStatistics(make(env_id))
    for env in (flattened, normal, counted):
        env.reset(seed=0)
        env.action_space.seed(0)
        ended = False
        while not ended:
            seen, _, terminations, _, infos = env.step(env.action_space.sample())
            assert env is not flattened or env.observation_space.contains(seen)
            assert env is not normal or np.isfinite(seen).all()
            ended = terminations.all()
    assert infos["episode"]["l"].tolist() == [infos["episode"]["l"][0]] * COPIES

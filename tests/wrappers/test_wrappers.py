"""Wrappers and the Stable-Baselines3 adapter."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO

import memplace_env  # noqa: F401
from memplace_env.errors import EnvError
from memplace_env.wrappers import GraphObservation, MeasurementNoise, SB3VecEnv
from tests.test_all_envs import assert_same

WORKLOAD = {"workload": "synthetic:diamond?ops=9&seed=1"}


def make() -> gym.Env:
    return gym.make("MemPlace-v0", **WORKLOAD)


def test_graph_observation():
    env = GraphObservation(make())
    graph, _ = env.reset(seed=0)
    assert graph in env.observation_space
    assert graph.nodes.shape == (9, 19)
    assert (graph.edge_links.T == env.unwrapped.program.edges).all()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*different from the unwrapped version")
        check_env(env, skip_render_check=True)
    with pytest.raises(EnvError, match="nodes"):
        GraphObservation(gym.make("CartPole-v1"))


def test_noise_is_seeded_and_spares_penalties():
    env = MeasurementNoise(make(), sigma=0.1)
    slow = np.full(18, 2)

    def rewards(seed):
        env.reset(seed=seed)
        return [env.step(slow)[1] for _ in range(4)]

    exact = make().unwrapped.step(slow)[1]
    assert rewards(1) == rewards(1) != rewards(2)
    assert np.mean([rewards(seed) for seed in range(100)]) == pytest.approx(exact, rel=0.03)
    full = np.zeros(18, dtype=int)
    penalty = make().unwrapped.step(full)[1]
    assert penalty < 0
    assert env.step(full)[1] == penalty
    with pytest.raises(EnvError, match="sigma"):
        MeasurementNoise(make(), sigma=2)


def test_sb3_adapter_steps_like_the_vector_env():
    native = gym.make_vec("MemPlace-v0", num_envs=4, **WORKLOAD)
    venv = SB3VecEnv(gym.make_vec("MemPlace-v0", num_envs=4, **WORKLOAD), seed=1)
    observation, _ = native.reset(seed=1)
    mine = venv.reset()
    assert all((mine[key] == observation[key]).all() for key in observation)
    mine["nodes"][:] = 0
    actions = np.random.default_rng(0).integers(0, 3, (4, 18))
    _, rewards, done, infos = venv.step(actions)
    expected = native.step(actions)
    np.testing.assert_allclose(rewards, expected[1], rtol=1e-6)
    assert done.all()
    assert [info["latency_s"] for info in infos] == expected[4]["latency_s"].tolist()
    assert all((info["terminal_observation"]["nodes"] == observation["nodes"][0]).all() for info in infos)
    assert not any(info["TimeLimit.truncated"] for info in infos)
    assert np.stack(venv.env_method("action_masks")).shape == (4, 54)
    assert venv.get_attr("accelerator")[0].name == "nnp-i"
    assert venv.env_is_wrapped(gym.Wrapper) == [False] * 4
    with pytest.raises(EnvError, match="colour"):
        venv.set_attr("colour", 1)
    with pytest.raises(EnvError, match="SAME_STEP"):
        SB3VecEnv(gym.make_vec("CartPole-v1", num_envs=2))
    venv.close()


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("MallocGame-v0", {"workload": "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"}),
        ("MallocGame-v0", {"workload": "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i", "observation": "flat"}),
        ("MemPlace-v0", WORKLOAD),
        ("CartPole-v1", {"vectorization_mode": "sync"}),
    ],
)
def test_sb3_adapter_is_the_same_in_every_mode(env_id, kwargs):
    """Stable-Baselines3 sees new episodes begin in the step that ends old ones, however the environment does it."""

    def played(mode):
        if "vectorization_mode" in kwargs:
            venv = SB3VecEnv(gym.make_vec(env_id, num_envs=3, vector_kwargs={"autoreset_mode": mode}, **kwargs), seed=1)
        else:
            venv = SB3VecEnv(gym.make_vec(env_id, num_envs=3, autoreset_mode=mode, **kwargs), seed=1)
        venv.action_space.seed(1)
        first = venv.reset()
        return first, [venv.step(np.array([venv.action_space.sample() for _ in range(3)])) for _ in range(60)]

    expected = played("SameStep")
    assert sum(step[2].sum() for step in expected[1]) > 3
    for mode in ("Disabled",) if env_id == "CartPole-v1" else ("Disabled", "NextStep"):
        assert_same(played(mode), expected)


@pytest.mark.parametrize("algorithm", [PPO, MaskablePPO])
def test_any_algorithm_trains_through_the_adapter(algorithm):
    venv = SB3VecEnv(gym.make_vec("MemPlace-v0", num_envs=8, **WORKLOAD))
    model = algorithm("MultiInputPolicy", venv, n_steps=8, batch_size=32, n_epochs=2, seed=0, device="cpu")
    model.learn(128)
    assert model.num_timesteps == 128


@pytest.mark.slow
def test_ppo_trains_by_id():
    model = PPO("MultiInputPolicy", "MemPlace-ResNet50-v0", n_steps=32, batch_size=32, n_epochs=1, seed=0, device="cpu")
    model.learn(64)
    assert model.num_timesteps == 64

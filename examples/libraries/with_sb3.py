"""Stable-Baselines3: PPO without masks; an illegal action is replaced by a legal one."""

import gymnasium as gym
import torch
from stable_baselines3 import PPO

from memplace_env.envs.wrappers import SB3VecEnv


def train(env_id: str, steps: int, seed: int) -> PPO:
    """Return the trained model."""
    torch.set_num_threads(1)
    venv = SB3VecEnv(gym.make_vec(env_id, num_envs=32, observation="flat", skip_forced=True, autoreset_mode="SameStep"))
    model = PPO(
        "MlpPolicy", venv, n_steps=320, batch_size=512, n_epochs=4, gamma=1.0, gae_lambda=1.0, ent_coef=0.01,
        learning_rate=lambda left: 1e-3 * left, policy_kwargs={"net_arch": [128, 128]}, seed=seed,
    )  # fmt: skip
    return model.learn(steps)

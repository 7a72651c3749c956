"""A plain PPO on vectors, in one file as in CleanRL and for any Gymnasium environment: here it must need no glue."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical

import memplace_env  # noqa: F401
from memplace_agents.learning.training import one_thread
from tests.test_all_envs import GENERIC


class ActorCritic(nn.Module):
    """Two small perceptrons; a `Discrete` action is a `MultiDiscrete` one with a single choice."""

    def __init__(self, envs):
        super().__init__()
        size, actions = int(np.prod(envs.single_observation_space.shape)), envs.single_action_space
        self.choices = [int(actions.n)] if isinstance(actions, gym.spaces.Discrete) else actions.nvec.tolist()
        self.actor = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, sum(self.choices)))
        self.critic = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, seen, chosen=None):
        heads = [Categorical(logits=part) for part in self.actor(seen).split(self.choices, dim=1)]
        chosen = torch.stack([head.sample() for head in heads], 1) if chosen is None else chosen
        log_prob = sum(head.log_prob(column) for head, column in zip(heads, chosen.T, strict=True))
        return chosen, log_prob, sum(head.entropy() for head in heads), self.critic(seen)[:, 0]


def train(envs, steps, updates, rate=3e-3, gamma=0.99, smoothing=0.95, clip=0.2):
    """Mean reward of each update's steps."""
    torch.manual_seed(0)
    policy, rewards_of, shape = ActorCritic(envs), [], (steps, envs.num_envs)
    optimizer = torch.optim.Adam(policy.parameters(), lr=rate, eps=1e-5)
    is_discrete = isinstance(envs.single_action_space, gym.spaces.Discrete)
    seen, done = torch.Tensor(envs.reset(seed=0)[0]), torch.zeros(envs.num_envs)
    for _ in range(updates):
        kept, rewards, dones, values = [], torch.zeros(shape), torch.zeros((steps + 1, shape[1])), torch.zeros(shape)
        for step in range(steps):
            with torch.no_grad():
                action, log_prob, _, values[step] = policy(seen)
            dones[step] = done
            kept.append((seen, action, log_prob))
            array = action[:, 0].numpy() if is_discrete else action.numpy()
            seen, reward, terminations, truncations, _ = envs.step(array)
            seen, rewards[step] = torch.Tensor(seen), torch.Tensor(reward)
            done = torch.Tensor(terminations | truncations)
        dones[steps] = done
        with torch.no_grad():
            following, gained, advantages = policy(seen)[3], torch.zeros(shape[1]), torch.zeros(shape)
        for step in reversed(range(steps)):
            goes_on = 1 - dones[step + 1]
            error = rewards[step] + gamma * following * goes_on - values[step]
            gained = error + gamma * smoothing * goes_on * gained
            advantages[step], following = gained, values[step]
        batch = [torch.cat(column) for column in zip(*kept, strict=True)]
        targets, advantages = (advantages + values).ravel(), advantages.ravel()
        for _ in range(4):
            for rows in torch.randperm(len(targets)).split(len(targets) // 4):
                _, log_prob, entropy, value = policy(batch[0][rows], batch[1][rows])
                ratio, advantage = (log_prob - batch[2][rows]).exp(), advantages[rows]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                gain = torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()
                loss = (value - targets[rows]).square().mean() / 2 - gain - 0.001 * entropy.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                optimizer.step()
        rewards_of.append(float(rewards.mean()))
    return rewards_of


@pytest.mark.parametrize("normalised", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("env_id", "steps", "updates"), [("MallocGame-v0", 32, 8), ("MemPlace-v0", 8, 6)])
def test_it_learns(env_id, steps, updates, normalised):
    envs = gym.make_vec(env_id, num_envs=16, observation="flat", **GENERIC[env_id])
    if normalised:
        envs = gym.wrappers.vector.NormalizeObservation(envs)
    with one_thread():
        rewards = train(envs, steps, updates)
    assert np.mean(rewards[-2:]) > np.mean(rewards[:2]) + 0.1 * abs(np.mean(rewards[:2])), rewards

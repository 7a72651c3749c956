"""Write a learning algorithm in ten minutes.

This page trains a policy from nothing but Gymnasium's interface and forty lines of PyTorch: REINFORCE with a baseline,
on a small game whose optimum is known. The real thing, PPO in one file, is [examples/ppo.py](ppo.py).
"""

import gymnasium as gym
import numpy as np
import torch

import memplace_env  # noqa: F401 (registers the ids)

# ## The game
#
# `make_vec` makes 64 games that one compiled call plays. `observation="flat"` turns what a player sees into one vector
# of numbers in 0..1. Rewards add up to the percentage of latency saved, so a game's return is its score, and
# `optimal_return` is the best score there is.


torch.manual_seed(0)
torch.set_num_threads(1)
envs = gym.make_vec("MallocGame-Tiny-v0", num_envs=64, observation="flat", autoreset_mode="Disabled")
observation, info = envs.reset(seed=0)
optimum = float(info["optimal_return"][0])

# ## The policy
#
# A small network gives a logit to each of the three actions: copy, use in place, drop. The mask takes away those that
# the rules forbid.
policy = torch.nn.Sequential(torch.nn.Linear(observation.shape[1], 64), torch.nn.Tanh(), torch.nn.Linear(64, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


def act(observation):
    """Sample a legal action for each game; return actions, and the logarithms of their probabilities."""
    legal = torch.from_numpy(envs.unwrapped.action_masks())
    logits = policy(torch.from_numpy(observation)).masked_fill(~legal, -torch.inf)
    choice = torch.distributions.Categorical(logits=logits)
    action = choice.sample()
    return action.numpy(), choice.log_prob(action)


# ## Learning
#
# Play all 64 games to the end. Then make the actions of the games that scored above the mean more likely, and those of
# the others less.
scores = []
for _ in range(60):
    observation, _ = envs.reset()
    score, log_probabilities, over = np.zeros(64), [], np.zeros(64, dtype=bool)
    while not over.all():
        action, log_probability = act(observation)
        observation, reward, over, _, _ = envs.step(action)
        score += reward
        log_probabilities.append(log_probability)
    advantage = torch.from_numpy((score - score.mean()) / (score.std() + 1e-8)).float()
    loss = -(torch.stack(log_probabilities).sum(0) * advantage).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scores.append(score.mean())

assert scores[-1] > 0.95 * optimum
print("mean score of the last round within 5 % of the optimum:", scores[-1] > 0.95 * optimum)

# ## Further
#
# Change the id to `MallocGame-BERT-v0` and the same lines play a real program, only slower to learn: 546 numbers, some
# hundred decisions. [What learning reaches](../docs/learning.md) has curves and settings;
# [Other libraries](../docs/environments.md#other-libraries) has the same for Stable-Baselines3, RLlib and others.

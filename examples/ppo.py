"""Train a masked PPO on any environment of MemPlace, with one configuration for all of them.

    python examples/ppo.py MallocGame-BERT-v0 --seconds 60 --seed 0
    python examples/ppo.py MemPlace-ResNet50-v0 --steps 200000 --json

One-shot ids, step-by-step ids, games and ids of many programs: observations are flat, environments native vectors,
illegal actions are masked. Two networks of two layers are trained on one core. Returns are scaled by their running mean
and deviation, as they differ by orders of magnitude between programs. Time is processor time. The result depends on
nothing but the seed if the budget is given as `--steps`.
"""

import argparse
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

import memplace_env  # noqa: F401 - registers the ids

ENVS, STEPS = 64, 128
EPOCHS, MINIBATCH, LEARNING_RATE, CLIP, ENTROPY, LAMBDA, LARGEST_KL = 4, 1024, 1e-3, 0.2, 0.01, 0.95, 0.03
SHOWN = 256
"""Episodes that the mean return is over."""


def mlp(inputs: int, outputs: int, last_gain: float) -> nn.Sequential:
    """Return two hidden layers of 128 tanh units, with orthogonal weights."""
    layers = [nn.Linear(inputs, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, outputs)]
    for layer, gain in zip(layers[::2], (2**0.5, 2**0.5, last_gain), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class ActorCritic(nn.Module):
    """Policy over `decisions` independent choices among `choices`, and value in units of the running deviation."""

    def __init__(self, inputs: int, decisions: int, choices: int) -> None:
        super().__init__()
        self.shape = (decisions, choices)
        self.actor, self.critic = mlp(inputs, decisions * choices, 0.01), mlp(inputs, 1, 0.01)
        self.mean, self.deviation = 0.0, 1.0  # of returns

    def log_probabilities(self, seen: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return float32[B, decisions, choices]; `mask` is bool[B, 1, choices] or all True."""
        logits = self.actor(seen).view(-1, *self.shape)
        return torch.log_softmax(logits.masked_fill(~mask, -1e9), dim=-1)

    def value(self, seen: torch.Tensor) -> torch.Tensor:
        """Return float32[B], the expected return."""
        return self.critic(seen)[:, 0] * self.deviation + self.mean

    @torch.no_grad()
    def rescale(self, returns: torch.Tensor, share: float) -> None:
        """Move mean and deviation towards those of new returns, and the last layer so that values stay (PopArt)."""
        mean, deviation = self.mean, self.deviation
        square = (1 - share) * (deviation**2 + mean**2) + share * float(returns.square().mean())
        self.mean += share * (float(returns.mean()) - mean)
        self.deviation = max(square - self.mean**2, 1e-8) ** 0.5
        last = self.critic[-1]
        last.weight *= deviation / self.deviation
        last.bias.copy_((last.bias * deviation + mean - self.mean) / self.deviation)


def train(
    env_id: str,
    seed: int = 0,
    seconds: float | None = None,
    steps: int | None = None,
    report: Callable[[dict[str, Any]], None] = lambda point: None,
    **kwargs: Any,
) -> list[dict[str, Any]]:
    """Return the learning curve: after each round processor seconds, steps, mean of the last 256 returns, best one."""
    began = time.process_time()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    envs = gym.make_vec(
        env_id, num_envs=ENVS, observation="flat", autoreset_mode="SameStep", **kwargs
    )
    masks = getattr(envs, "action_masks", None)
    space = envs.single_action_space
    choices = np.atleast_1d(space.n if isinstance(space, gym.spaces.Discrete) else space.nvec)
    net = ActorCritic(envs.single_observation_space.shape[0], len(choices), int(choices[0]))
    optimiser = torch.optim.Adam(net.parameters(), eps=1e-5)
    envs.reset(seed=seed)
    envs.step(envs.action_space.sample())  # compiles kernels before the clock begins
    began = time.process_time()
    seen = torch.from_numpy(envs.reset(seed=seed)[0])
    mask = torch.ones(ENVS, 1, net.shape[1], dtype=torch.bool)
    episode, finished, best, curve = np.zeros(ENVS), deque(maxlen=SHOWN), -np.inf, []
    used = 0.0
    while used < 1:
        batch = []
        for _ in range(STEPS):
            if masks:
                mask = torch.from_numpy(masks()[:, None])
            with torch.no_grad():
                log_p = net.log_probabilities(seen, mask)
                action = (log_p - torch.empty_like(log_p).exponential_().log()).argmax(-1)  # Gumbel's trick
                taken = log_p.gather(-1, action[..., None]).sum((1, 2))
                after, reward, over, _, _ = envs.step(action.numpy().reshape(ENVS, *space.shape))
            episode += reward
            finished.extend(episode[over])
            best = max(best, episode[over].max(initial=-np.inf))
            episode[over] = 0
            batch.append((seen, mask, action, taken, net.value(seen).detach(), torch.from_numpy(reward).float(), torch.from_numpy(~over)))
            seen = torch.from_numpy(after)
        seens, maskss, actions, takens, values, rewards, goes_on = (torch.stack(part) for part in zip(*batch, strict=True))
        advantages, following, advantage = torch.empty_like(values), net.value(seen).detach(), torch.zeros(ENVS)
        for t in reversed(range(STEPS)):
            advantage = rewards[t] + goes_on[t] * (following + LAMBDA * advantage) - values[t]
            advantages[t], following = advantage, values[t]
        returns = advantages + values
        net.rescale(returns, 1.0 if not curve else 0.1)
        update(net, optimiser, LEARNING_RATE * (1 - used), *(part.flatten(0, 1) for part in (seens, maskss, actions, takens, advantages, returns)))
        spent = time.process_time() - began
        point = {"seconds": spent, "steps": (len(curve) + 1) * ENVS * STEPS, "mean": float(np.mean(finished)) if finished else None, "best": float(best)}
        curve.append(point)
        report(point)
        used = max(spent / seconds if seconds else 0, point["steps"] / steps if steps else 0)
    return curve


def update(net, optimiser, rate, seen, mask, action, taken, advantage, returns) -> None:
    optimiser.param_groups[0]["lr"] = rate
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(seen)).split(MINIBATCH):
            log_p = net.log_probabilities(seen[rows], mask[rows])
            ratio = log_p.gather(-1, action[rows][..., None]).sum((1, 2)) - taken[rows]
            kl = float((ratio.exp() - 1 - ratio).detach().mean())
            if kl > LARGEST_KL:
                return
            ratio = ratio.exp()
            gain = torch.minimum(ratio * advantage[rows], ratio.clamp(1 - CLIP, 1 + CLIP) * advantage[rows]).mean()
            entropy = -(log_p.exp() * log_p).sum((1, 2)).mean()
            error = ((net.value(seen[rows]) - returns[rows]) / net.deviation).square().mean()
            optimiser.zero_grad()
            (error / 2 - gain - ENTROPY * entropy).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimiser.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env_id")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    curve = train(o.env_id, o.seed, o.seconds, o.steps, lambda p: print({k: round(v, 4) if v is not None else None for k, v in p.items()}, flush=True))

if __name__ == "__main__":
    main()

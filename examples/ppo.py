"""Train a masked PPO on any id of MemPlace, with the same settings for all ids of a kind.

    python examples/ppo.py MallocGame-BERT-v0 --seconds 60 --seed 0
    python examples/ppo.py MemPlace-ResNet50-v0 --steps 500000 --json

Seconds are processor seconds of one core. With --steps alone the seed determines the result. Returns differ by orders
of magnitude between programs, so values are learned in units of their running mean and deviation.
"""

import argparse
import json
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

import memplace_env  # noqa: F401 (registers the ids)
from memplace_agents import Agent, make_agent

CLIP, LARGEST_KL, LARGEST_NORM = 0.2, 0.05, 0.5
EPISODES = 256  # the mean return shown is theirs


class Settings(NamedTuple):
    """Settings that differ between kinds of environments; `steps` of None are those of whole episodes, at least 100."""

    envs: int = 64
    steps: int | None = 128
    epochs: int = 4
    minibatch: int = 1024
    rate: float = 1e-3
    entropy: float = 0.01
    lambda_: float = 0.95
    width: int = 128


SETTINGS = {
    "MallocGame": Settings(),  # games with skip_forced=True are half as long and learn less well
    "MemPlace": Settings(),
    "MemPlaceSteps": Settings(128, None, 3, 2048, 2e-3, 0.06, lambda_=1, width=64),
}
RULES = {"MallocGame": ("greedy-player", "xla-msa"), "MemPlace": ("native", "all-fastest", "density-greedy")}
"""Agents and compiler's rules that need no search, by the first part of the ids."""


class Point(NamedTuple):
    """Training after a round: processor seconds, steps, mean of the last returns (NaN: none yet), best return."""

    seconds: float
    steps: int
    mean: float
    best: float


class ActorCritic(nn.Module):
    """A policy over `decisions` independent choices among `choices`, and a value in units of `deviation`."""

    def __init__(self, inputs: int, width: int, decisions: int, choices: int) -> None:
        super().__init__()
        self.shape, self.mean, self.deviation = (decisions, choices), 0.0, 1.0
        self.actor, self.critic = mlp(inputs, width, decisions * choices), mlp(inputs, width, 1)

    def log_policy(self, observation: Tensor, mask: Tensor) -> Tensor:
        """Return float32[B, decisions, choices], logarithms of probabilities; `mask` is True where legal."""
        return self.actor(observation).unflatten(1, self.shape).masked_fill(~mask, -1e9).log_softmax(-1)

    def value(self, observation: Tensor) -> Tensor:
        """Return float32[B], the expected sum of rewards to come."""
        return self.critic(observation)[:, 0] * self.deviation + self.mean

    @torch.no_grad()
    def rescale(self, returns: Tensor, weight: float) -> None:
        """Move mean and deviation towards those of `returns`, and the last layer such that values stay (PopArt)."""
        mean, deviation, last = self.mean, self.deviation, self.critic[-1]
        self.mean += weight * (float(returns.mean()) - mean)
        square = (1 - weight) * (deviation**2 + mean**2) + weight * float(returns.square().mean())
        self.deviation = max(square - self.mean**2, 1e-12) ** 0.5
        last.weight *= deviation / self.deviation
        last.bias.copy_((last.bias * deviation + mean - self.mean) / self.deviation)


def mlp(inputs: int, width: int, outputs: int) -> nn.Sequential:
    """Return a network with two hidden layers, whose first outputs are nearly 0."""
    layers = [nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, outputs)]
    for layer, gain in zip(layers, (2**0.5, 2**0.5, 0.01), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def train(env_id: str, seed: int = 0, seconds: float = np.inf, steps: float = np.inf) -> Iterator[Point]:
    """Train until the seconds or the steps are over, and yield a point of the learning curve after each round."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    chosen = SETTINGS[env_id.split("-")[0]]
    envs = gym.make_vec(env_id, num_envs=chosen.envs, observation="flat", autoreset_mode="SameStep")
    problem = getattr(envs.unwrapped, "problem", None)  # ids of many programs have none
    episode = problem.num_decisions if problem else 512
    length = chosen.steps or episode * -(-100 // episode)  # whole episodes, rounded up
    space, (inputs,) = envs.single_action_space, envs.single_observation_space.shape
    decisions, choices = (len(space.nvec), space.nvec[0]) if hasattr(space, "nvec") else (1, space.n)
    masks = getattr(envs, "action_masks", lambda: np.ones((chosen.envs, choices), dtype=bool))
    net = ActorCritic(inputs, chosen.width, decisions, int(choices))
    optimiser = torch.optim.Adam(net.parameters(), eps=1e-5)
    envs.reset(seed=seed)
    envs.step(np.zeros((chosen.envs, *space.shape), np.int64))  # loads compiled kernels before the clock starts
    observation = torch.from_numpy(envs.reset(seed=seed)[0])
    began, used, done = time.process_time(), 0.0, 0
    running, returns, best = np.zeros(chosen.envs), deque[float](maxlen=EPISODES), -np.inf
    while used < 1:
        rows = []
        for _ in range(length):
            mask = torch.from_numpy(masks())[:, None]
            with torch.no_grad():
                log_policy, value = net.log_policy(observation, mask), net.value(observation)
            action = (log_policy - torch.empty_like(log_policy).exponential_().log()).argmax(-1, keepdim=True)
            taken = log_policy.gather(-1, action).sum((1, 2))
            after, reward, over, _, _ = envs.step(action.numpy().reshape(chosen.envs, *space.shape))
            rows.append((observation, mask, action, taken, value, torch.tensor(reward).float(), torch.tensor(~over)))
            observation, running = torch.from_numpy(after), running + reward
            returns.extend(running[over])
            best = max(best, running[over].max(initial=-np.inf))
            running[over] = 0
        *batch, values, rewards, goes_on = (torch.stack(column) for column in zip(*rows, strict=True))
        advantages = torch.zeros(length + 1, chosen.envs)  # generalised advantage estimation, without a discount
        following = torch.cat([values[1:], net.value(observation).detach()[None]])
        for t in reversed(range(length)):
            advantages[t] = rewards[t] - values[t] + goes_on[t] * (following[t] + chosen.lambda_ * advantages[t + 1])
        batch += [advantages[:-1], advantages[:-1] + values]
        net.rescale(batch[-1], weight=0.1 if done else 1.0)
        update(net, optimiser, chosen, 1 - used, *(column.flatten(0, 1) for column in batch))
        done, spent = done + chosen.envs * length, time.process_time() - began
        used = max(spent / seconds, done / steps)
        yield Point(spent, done, float(np.mean(returns)) if returns else np.nan, float(best))


def update(net: ActorCritic, optimiser: torch.optim.Adam, by: Settings, left: float, *batch: Tensor) -> None:
    """Fit policy and values to a batch; learning rate and entropy bonus shrink with the share of the budget `left`."""
    optimiser.param_groups[0]["lr"] = by.rate * left
    for rows in (rows for _ in range(by.epochs) for rows in torch.randperm(len(batch[0])).split(by.minibatch)):
        observation, mask, action, taken, advantage, returns = (column[rows] for column in batch)
        log_policy = net.log_policy(observation, mask)
        change = log_policy.gather(-1, action).sum((1, 2)) - taken
        ratio = change.exp()
        if float((ratio - 1 - change).detach().mean()) > LARGEST_KL:
            return
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
        entropy = -(log_policy.exp() * log_policy).sum((1, 2)).mean()
        error = ((net.value(observation) - returns) / net.deviation).square().mean()
        optimiser.zero_grad()
        (error / 2 - gain - by.entropy * left * entropy).backward()
        nn.utils.clip_grad_norm_(net.parameters(), LARGEST_NORM)
        optimiser.step()


def rules(env_id: str) -> dict[str, float]:
    """Return what agents without a search reach, in units of the return; nothing for ids of many programs."""
    problem = env_id.replace("MemPlaceSteps", "MemPlace")  # the same one, in one step
    if any(word in problem for word in ("-Train-", "-Validation-", "-Test-", "-Synthetic-")):
        return {}
    found = {name: agent(name).solve(problem) for name in RULES[problem.split("-")[0]]}
    return {name: in_units(problem, solution.speedup) for name, solution in found.items()}


def agent(name: str) -> Agent[Any]:
    """Return the agent that is called so, or that of the compiler's rule."""
    return make_agent("native", rule=name) if name == "all-fastest" else make_agent(name)


def in_units(env_id: str, speedup: float) -> float:
    """Return the return of a plan that has this speed-up: itself, or in games the percentage of latency saved."""
    return 100 * (1 - 1 / speedup) if env_id.startswith("MallocGame") else speedup


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("id", help="id of an environment, see `memplace envs`")
    parser.add_argument("--seconds", type=float, default=np.inf, help="processor seconds; 60 without --steps")
    parser.add_argument("--steps", type=float, default=np.inf, help="decisions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the learning curve and the rules as JSON")
    options = parser.parse_args()
    seconds = 60 if options.seconds == options.steps else options.seconds
    curve = []
    for point in train(options.id, options.seed, seconds, options.steps):
        curve.append(point._asdict())
        if not options.json:
            print("{:6.0f} s {:10,} steps   mean {:.4f}   best {:.4f}".format(*point), flush=True)
    found = rules(options.id)
    if options.json:
        print(json.dumps({"curve": curve, "rules": found}))
    else:
        print(*(f"{name:14} {value:.4f}" for name, value in found.items()), sep="\n")


if __name__ == "__main__":
    main()

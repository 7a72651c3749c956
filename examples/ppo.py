"""Train Stable-Baselines3's PPO on any id of MemPlace, with settings that keep it at its peak.

    python examples/ppo.py MallocGame-BERT-v0 --steps 300000 --seed 0
    python examples/ppo.py MemPlaceSteps-BERT-v0 --json

Rounds are whole episodes and lambda is 1, or rises to it: a critic errs by more than what decisions still differ by, so
a smaller lambda, or a round that ends within episodes, lets returns fall again. Steps and seed determine the result.
"""

import argparse
import json
import time
from collections import deque
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor

from memplace_env.envs.wrappers import SB3VecEnv

EPISODES = 256  # the mean return shown is theirs


class Settings(NamedTuple):
    """Settings that differ between kinds of environments; `first_lambda` rises to 1 over the first half."""

    envs: int = 32
    episodes: int = 1  # of each environment in a round
    minibatch: int = 1024
    epochs: int = 4
    rate: float = 1e-3  # falls to 0
    entropy: float = 0.01  # falls likewise
    first_lambda: float = 0.95
    width: int = 128


SETTINGS = {
    "MallocGame": Settings(),
    "MemPlaceSteps": Settings(128, 1, 2048, 3, 2e-3, 0.06, first_lambda=1.0, width=64),
    "MemPlace": Settings(256, 4, entropy=0.0, first_lambda=1.0, width=64),
}


class Point(NamedTuple):
    """Training after a round: processor seconds, steps, episodes, mean of the last returns (NaN: none), best return."""

    seconds: float
    steps: int
    episodes: int
    mean: float
    best: float


class Recipe(BaseCallback):
    """Schedules that the library lacks, and the learning curve."""

    def __init__(self, chosen: Settings) -> None:
        super().__init__()
        self.chosen, self.curve, self.best, self.began = chosen, list[Point](), -np.inf, time.process_time()
        self.returns, self.episodes = deque[float](maxlen=EPISODES), 0

    def _on_rollout_start(self) -> None:
        left = 1 - self.num_timesteps / self.locals["total_timesteps"]
        self.model.ent_coef = self.chosen.entropy * left
        self.model.rollout_buffer.gae_lambda = 1 - (1 - self.chosen.first_lambda) * max(2 * left - 1, 0)

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.returns.append(float(info["episode"]["r"]))
                self.best, self.episodes = max(self.best, self.returns[-1]), self.episodes + 1
        return True

    def _on_rollout_end(self) -> None:
        mean = float(np.mean(self.returns)) if self.returns else np.nan
        spent = time.process_time() - self.began
        self.curve.append(Point(spent, self.num_timesteps, self.episodes, mean, self.best))
        if self.verbose:
            line = "{:6.0f} s {:10,} steps {:8,} episodes   mean {:.4f}   best {:.4f}"
            print(line.format(*self.curve[-1]), flush=True)


def train(env_id: str, steps: int, seed: int = 0, verbose: int = 0) -> list[Point]:
    """Train for so many steps, rounded up to whole rounds, and return the learning curve."""
    torch.set_num_threads(1)
    kind = env_id.split("-")[0]
    chosen, options = SETTINGS[kind], {"skip_forced": True} if kind == "MallocGame" else {}
    envs = gym.make_vec(env_id, num_envs=chosen.envs, observation="flat", **options)
    model = (PPO if kind == "MemPlace" else MaskablePPO)(
        "MlpPolicy", VecMonitor(SB3VecEnv(envs, seed)), n_steps=chosen.episodes * envs.unwrapped.n_steps,
        batch_size=chosen.minibatch, n_epochs=chosen.epochs, gamma=1, learning_rate=lambda left: chosen.rate * left,
        policy_kwargs={"net_arch": [chosen.width, chosen.width]}, seed=seed, device="cpu",
    )  # fmt: skip
    recipe = Recipe(chosen)
    recipe.verbose = verbose
    model.learn(steps, recipe)
    return recipe.curve


def peak_and_fall(curve: list[Point]) -> tuple[float, float]:
    """Return the highest mean of a curve, and the deepest fall from a peak; means of fewer episodes do not count."""
    means = np.array([point.mean for point in curve if point.episodes >= EPISODES] or [curve[-1].mean])
    return float(means.max()), float((np.maximum.accumulate(means) - means).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("id", help="id of an environment, see `memplace envs`")
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the learning curve as JSON")
    options = parser.parse_args()
    curve = train(options.id, options.steps, options.seed, verbose=not options.json)
    peak, fall = peak_and_fall(curve)
    if options.json:
        print(json.dumps({"curve": [point._asdict() for point in curve], "peak": peak, "fall": fall}))
    else:
        print(f"peak {peak:.4f}   end {curve[-1].mean:.4f}   deepest fall {fall:.4f}")


if __name__ == "__main__":
    main()

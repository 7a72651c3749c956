"""Train Stable-Baselines3's PPO on any id.

    python examples/ppo.py MallocGame-BERT-v0 --steps 700000 --seed 0
    python examples/ppo.py MemPlaceSteps-BERT-v0 --steps 2500000 --csv curve.csv --tensorboard runs

Rounds are whole episodes and lambda is 1: a critic errs by more than what decisions still differ by, so a smaller
lambda, or a round that ends within episodes, lets returns fall again. Steps and seed determine the result.
"""

import argparse
import csv
import json
import sys
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
    """Settings that differ between kinds of environments."""

    envs: int = 64
    episodes: int = 1  # of each environment in a round
    minibatch: int = 512
    epochs: int = 4
    rate: float = 1e-3  # falls to 0
    entropy: float = 0.0  # falls likewise


SETTINGS = {
    "MallocGame": Settings(),
    "MemPlaceSteps": Settings(128, 1, 2048, 3, 2e-3, 0.06),
    "MemPlace": Settings(256, 4, 1024),
}


class Point(NamedTuple):
    """Training after a round: processor seconds, steps, episodes, mean of the last returns (NaN: none), best return."""

    seconds: float
    steps: int
    episodes: int
    mean: float
    best: float


class Curve(BaseCallback):
    """The learning curve, a point for each round."""

    def __init__(self, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.curve, self.best, self.began = list[Point](), -np.inf, time.process_time()
        self.returns, self.episodes = deque[float](maxlen=EPISODES), 0

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
        peak, fall = peak_and_fall(self.curve)
        for name, value in {"mean": mean, "best": self.best, "peak": peak, "deepest fall": fall}.items():
            self.logger.record(f"return/{name}", value)
        if self.verbose:
            line = "{:6.0f} s {:10,} steps {:8,} episodes   mean {:.4f}   best {:.4f}"
            print(line.format(*self.curve[-1]), flush=True)


class Recipe(Curve):
    """The curve, and an entropy bonus that falls, which the library lacks."""

    def __init__(self, entropy: float, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.entropy = entropy

    def _on_rollout_start(self) -> None:
        self.model.ent_coef = self.entropy * (1 - self.num_timesteps / self.locals["total_timesteps"])


def settings_of(env_id: str) -> tuple[str, Settings]:
    """Return the kind of an environment and its settings."""
    kind = env_id.removeprefix("memplace_env:").split("-")[0]
    if kind not in SETTINGS:
        raise SystemExit(f"{env_id!r} is no id of {', '.join(SETTINGS)}; pass one such as MallocGame-BERT-v0.")
    return kind, SETTINGS[kind]


def train(env_id: str, steps: int, seed: int = 0, verbose: int = 0, tensorboard: str | None = None) -> list[Point]:
    """Train for so many steps, rounded up to whole rounds, and return the learning curve."""
    torch.set_num_threads(1)
    kind, chosen = settings_of(env_id)
    options = {"skip_forced": True} if kind == "MallocGame" else {}
    envs = gym.make_vec(env_id, num_envs=chosen.envs, observation="flat", **options)
    model = (PPO if kind == "MemPlace" else MaskablePPO)(
        "MlpPolicy", VecMonitor(SB3VecEnv(envs, seed)), n_steps=chosen.episodes * envs.unwrapped.n_steps,
        batch_size=chosen.minibatch, n_epochs=chosen.epochs, gamma=1, gae_lambda=1,
        learning_rate=lambda left: chosen.rate * left, seed=seed, device="cpu", tensorboard_log=tensorboard,
    )  # fmt: skip
    recipe = Recipe(chosen.entropy, verbose)
    try:
        model.learn(steps, recipe)
    except KeyboardInterrupt:
        print(f"Stopped after {model.num_timesteps:,} steps.", file=sys.stderr)
    return recipe.curve


def peak_and_fall(curve: list[Point]) -> tuple[float, float]:
    """Return the highest mean of a curve, and the deepest fall from a peak; means of fewer episodes do not count."""
    means = np.array([point.mean for point in curve if point.episodes >= EPISODES] or [curve[-1].mean])
    return float(means.max()), float((np.maximum.accumulate(means) - means).max())


def write_csv(path: str, env_id: str, seed: int, curve: list[Point]) -> None:
    """Write a curve with the columns of all curves of MemPlace."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "algorithm", "seed", "step", "seconds", "return"])
        for point in curve:
            rows.writerow([env_id, "ppo", seed, point.steps, round(point.seconds, 2), round(point.mean, 6)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("id", help="id of an environment, see `memplace envs`")
    parser.add_argument("--steps", type=int, default=700_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the learning curve as JSON")
    parser.add_argument("--csv", metavar="FILE", help="write the learning curve as a table")
    parser.add_argument("--tensorboard", metavar="DIR", help="write events for TensorBoard, which must be installed")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    curve = train(options.id, options.steps, options.seed, not options.json, options.tensorboard)
    if not curve:
        raise SystemExit("There was no whole round.")
    if options.csv:
        write_csv(options.csv, options.id, options.seed, curve)
    peak, fall = peak_and_fall(curve)
    if options.json:
        print(json.dumps({"curve": [point._asdict() for point in curve], "peak": peak, "fall": fall}))
    else:
        print(f"peak {peak:.4f}   end {curve[-1].mean:.4f}   deepest fall {fall:.4f}")


if __name__ == "__main__":
    main()

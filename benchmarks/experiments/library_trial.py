"""Train one library once, in the Python of its own environment, and print what was measured as JSON.

    python -m benchmarks.experiments.library_trial with_sb3 --env MallocGame-BERT-v0 --steps 1000000 --seconds 60

`python -m benchmarks run libraries` calls this.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from typing import Any, Final

import gymnasium as gym
import numpy as np
import psutil
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray

import memplace_env  # noqa: F401 - registers the ids
from benchmarks.experiments.libraries import ROUND

MEASURED: Final = "MallocGame-Measured-v0"
"""Id under which a trial hands its environment to a library, in this process."""
FIRST, LAST = 64, 256
"""Episodes at the beginning and at the end whose mean return is reported; the highest is one of `LAST`."""


def processor_seconds() -> float:
    """Return the processor seconds of this process, of those that it started, and of theirs."""
    others = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return time.process_time() + sum(times.user + times.system for times in others)


class BudgetUsedError(Exception):
    """Processor seconds of a trial are used up."""


class Recorder(VectorWrapper):
    """Record the return of every episode, and end training when its processor seconds are used up.

    Args:
        env: a vector environment.
        seconds: processor seconds of this process from the first reset on.

    Attributes:
        steps: steps of single environments.
        used_up: whether the processor seconds are used up; libraries may raise other errors then than ours.
        own_began: processor seconds of this process at the first reset.
        began: processor seconds of this process, and of all that it started, at the first reset; None before.
        returns: returns of the finished episodes, in their order.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], seconds: float) -> None:
        super().__init__(env)
        self.autoreset_mode = env.metadata["autoreset_mode"]  # where TorchRL looks for it
        self.seconds = seconds
        self.steps = 0
        self.used_up = False
        self.began: float | None = None
        self.own_began = 0.0
        self.returns: list[float] = []
        self._marks: list[float] = []
        self._sums = np.zeros(env.num_envs)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begin all episodes."""
        if self.began is None:
            self.began, self.own_began = processor_seconds(), time.process_time()
        self._sums[(kwargs.get("options") or {}).get("reset_mask", ...)] = 0
        return self.env.reset(**kwargs)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the legal actions."""
        masks: NDArray[np.bool_] = self.env.unwrapped.action_masks()
        return masks

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play an action in every environment.

        Raises:
            BudgetUsedError: if the processor seconds are used up.
        """
        spent = time.process_time() - self.own_began
        if self.steps % ROUND == 0:
            self._marks.append(spent)
        if spent > self.seconds:
            self.used_up = True
            raise BudgetUsedError
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        self.steps += self.num_envs
        self._sums += rewards
        ended = terminations | truncations
        if ended.any():
            self.returns += self._sums[ended].tolist()
            self._sums[ended] = 0
        return observations, rewards, terminations, truncations, infos

    def rate(self) -> float:
        """Return steps per processor second in the later half of the rounds: compilation came before."""
        later = self._marks[len(self._marks) // 2 :]
        return ROUND * (len(later) - 1) / (later[-1] - later[0]) if len(later) > 1 else self.steps / self.seconds


def register_measured(env_id: str, seconds: float) -> list[Recorder]:
    """Register `MEASURED`; the list that is returned will have the recorder of each vector environment of that id."""
    recorders: list[Recorder] = []

    def make(num_envs: int, max_episode_steps: int | None = None, **kwargs: Any) -> Recorder:
        game = gym.make_vec(env_id, num_envs=1, **kwargs)
        game.reset()
        while not game.step(game.unwrapped.action_masks().argmax(-1))[2].any():
            continue  # a whole game compiles the kernels before the clock begins
        recorders.append(Recorder(gym.make_vec(env_id, num_envs=num_envs, **kwargs), seconds))
        return recorders[-1]

    gym.registry.pop(MEASURED, None)
    gym.register(MEASURED, entry_point=lambda **kwargs: gym.make(env_id, **kwargs), vector_entry_point=make)
    return recorders


def trial(glue: str, env_id: str, steps: int, seconds: float, seed: int) -> dict[str, Any]:
    """Return the steps, processor seconds and returns of a training run."""
    recorders = register_measured(env_id, seconds)
    module = importlib.import_module(f"examples.libraries.{glue}")
    try:
        module.train(MEASURED, steps, seed)
    except Exception:
        if not any(recorder.used_up for recorder in recorders):
            raise
    recorder = max(recorders, key=lambda recorder: recorder.steps)
    assert recorder.began is not None
    own = time.process_time() - recorder.own_began
    spent = processor_seconds() - recorder.began
    returns = recorder.returns
    means = np.convolve(returns, np.full(LAST, 1 / LAST), "valid") if len(returns) >= LAST else np.array([np.nan])
    return {
        "steps": recorder.steps,
        "seconds": round(spent, 2),
        "rate": recorder.rate() * own / spent,
        "episodes": len(returns),
        "first": float(np.mean(returns[:FIRST])) if returns else None,
        "last": float(np.mean(returns[-LAST:])) if returns else None,
        "peak": float(means.max()),
        "fall": float((np.maximum.accumulate(means) - means).max()),
        "best": max(returns, default=None),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glue")
    parser.add_argument("--env", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    record = trial(options.glue, options.env, options.steps, options.seconds, options.seed)
    print(json.dumps(record), flush=True)
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(0)  # some libraries leave threads that would wait


if __name__ == "__main__":
    main()

"""What pins an instance down: hashes of what is solved, and the latency of the baseline."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np

from memplace_env.compiler import all_backing, native_plan
from memplace_env.costs import Costs
from memplace_env.envs.base import PlacementEnv
from memplace_env.errors import LeaderboardError
from memplace_env.leaderboard.suite import Instance, Suite
from memplace_env.plan import MemoryPlan
from memplace_env.registration import Formulation
from memplace_env.simulator import Simulator, judge_plan
from memplace_env.task import Task, derived

PINNED = ("ops", "program_sha256", "accelerator_sha256", "costs_sha256", "baseline_ps")
"""Fields of an instance that this code computes."""


@lru_cache(maxsize=4)
def pinned(env_id: str) -> dict[str, Any]:
    """What this code says of a registered environment, by the names in `PINNED`."""
    task = task_of(env_id)
    return {
        "ops": task.program.num_ops,
        "program_sha256": task.program.sha256,
        "accelerator_sha256": task.accelerator.sha256,
        "costs_sha256": costs_sha256(task.costs),
        "baseline_ps": judge_plan(task, baseline_plan(task, is_game(env_id)), trusted=True).latency_ps,
    }


def require_pinned(suite: Suite, instance: Instance) -> None:
    """Raise a LeaderboardError unless this code makes of the id what the suite says."""
    now = pinned(instance.env_id)
    for field in PINNED:
        if now[field] != getattr(instance, field):
            raise LeaderboardError(
                f"{instance.env_id} is not what suite {suite.name} pinned: {field} is {now[field]} here and was "
                f"{getattr(instance, field)} then; install the version of memplace that the suite belongs to."
            )


@lru_cache(maxsize=4)
def task_of(env_id: str) -> Task:
    """The task of a registered environment."""
    env: Any = gym.make(env_id, disable_env_checker=True).unwrapped
    assert isinstance(env, PlacementEnv)
    return env.task


def made(env_id: str, simulator: Simulator | None = None) -> PlacementEnv[Any]:
    """A registered environment without wrappers; its program is shared, all that is derived from it is made anew."""
    task = replace(task_of(env_id), simulator=simulator)
    generic = (Formulation.GAME if is_game(env_id) else Formulation.ONE_SHOT).traits.env_id()
    env: Any = gym.make(generic, workload=task, disable_env_checker=True).unwrapped
    env.spec = gym.spec(env_id)
    assert isinstance(env, PlacementEnv)
    return env


def is_game(env_id: str) -> bool:
    """Whether the id is one of mallocGame."""
    return env_id.startswith("MallocGame-")


@derived
def baseline_plan(task: Task, game: bool) -> MemoryPlan:
    """What is free for everybody: native's plan of maps; of games the one of XLA's memory-space assignment with the
    defaults of its open-source code, or everything in the backing memory if that is faster. By the cost arrays, also
    where a black box judges: nobody measured anything."""
    if not game:
        return native_plan(task)
    from agents.xla_msa import MsaOptions, default_plan

    plans = [default_plan(task, MsaOptions.open_source()), all_backing(task)]
    return min(plans, key=lambda plan: judge_plan(task, plan, trusted=True).latency_ps)


def costs_sha256(costs: Costs) -> str:
    """Hash of all arrays of costs."""
    digest = hashlib.sha256()
    for name, value in costs._asdict().items():
        array = np.ascontiguousarray(value, dtype=np.int64)
        digest.update(f"{name}{array.shape}".encode())
        digest.update(array.astype("<i8").tobytes())
    return digest.hexdigest()

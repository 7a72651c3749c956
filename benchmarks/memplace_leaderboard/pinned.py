"""Pinned properties of an instance: hashes of program, chip and costs, and the latency of the baseline."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np

from memplace_env._lib.errors import LeaderboardError
from memplace_env.envs.placement_env import PlacementEnv
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.machine.costs import Costs
from memplace_env.placement.compiler import all_backing, native_plan
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import Simulator, evaluate_plan
from memplace_env.placement.task import Task, derived
from memplace_leaderboard.suite import Instance, Suite

PINNED = ("ops", "program_sha256", "accelerator_sha256", "costs_sha256", "baseline_ps")
"""Fields of an instance that `pinned` computes."""


@lru_cache(maxsize=4)
def pinned(env_id: str) -> dict[str, Any]:
    """Compute the fields `PINNED` of a registered environment."""
    task = task_of(env_id)
    return {
        "ops": task.program.num_ops,
        "program_sha256": task.program.sha256,
        "accelerator_sha256": task.accelerator.sha256,
        "costs_sha256": costs_sha256(task.costs),
        "baseline_ps": evaluate_plan(task, baseline_plan(task, formulation_of_id(env_id)), trusted=True).latency_ps,
    }


def require_pinned(suite: Suite, instance: Instance) -> None:
    """Raise a LeaderboardError unless the fields that the suite pinned are those that this code computes."""
    now = pinned(instance.env_id)
    for field in PINNED:
        if now[field] != getattr(instance, field):
            raise LeaderboardError(
                f"{instance.env_id} is not what suite {suite.name} pinned: {field} is {now[field]} here and was "
                f"{getattr(instance, field)} then; install the version of memplace that the suite belongs to."
            )


@lru_cache(maxsize=4)
def task_of(env_id: str) -> Task:
    """Return the task of a registered environment."""
    env: Any = gym.make(env_id, disable_env_checker=True).unwrapped
    assert isinstance(env, PlacementEnv)
    return env.task


def make_env(env_id: str, simulator: Simulator | None = None) -> PlacementEnv[Any]:
    """Make a registered environment without wrappers; its program is shared, all that is derived from it is new."""
    task = replace(task_of(env_id), simulator=simulator)
    generic = formulation_of_id(env_id).traits.env_id()
    env: Any = gym.make(generic, workload=task, disable_env_checker=True).unwrapped
    env.spec = gym.spec(env_id)
    assert isinstance(env, PlacementEnv)
    return env


@derived
def baseline_plan(task: Task, formulation: Formulation) -> MemoryPlan:
    """Return the plan of the baseline, which is free.

    For one-shot environments it is native's plan; for games that of XLA's memory-space assignment with the defaults of
    its open-source code, or everything in the backing memory if that is faster. It is computed under the cost arrays in
    black-box tracks too, without any measurement.
    """
    if formulation is not Formulation.GAME:
        return native_plan(task)
    from memplace_agents.xla_msa import MsaOptions, default_plan

    plans = [default_plan(task, MsaOptions.open_source()), all_backing(task)]
    return min(plans, key=lambda plan: evaluate_plan(task, plan, trusted=True).latency_ps)


def costs_sha256(costs: Costs) -> str:
    """Return the hash of all arrays of costs."""
    digest = hashlib.sha256()
    for name, value in costs._asdict().items():
        array = np.ascontiguousarray(value, dtype=np.int64)
        digest.update(f"{name}{array.shape}".encode())
        digest.update(array.astype("<i8").tobytes())
    return digest.hexdigest()

"""Programs whose optimum is known, and searching until it is found."""

from __future__ import annotations

import pytest

from memplace_agents.search.agent import Agent
from memplace_agents.solution import Progress
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.synthetic import planted


class ReachedError(Exception):
    """Ends a search that has found what it was sent for."""


def planted_env(topology: str = "chain", ops: int = 8, seed: int = 4, chip: str = "nnp-i") -> OneShotEnv:
    """The one-shot environment of a planted program."""
    return OneShotEnv(planted(topology, ops=ops, seed=seed, accelerator=chip).program, chip, costs="roofline")


def optimum_ps(env: OneShotEnv | MallocGameEnv) -> int:
    """Latency in ps of the best plan of a planted program."""
    return int(env.task.costs.compute_ps.sum())


def reach(agent: Agent, env: OneShotEnv | MallocGameEnv, budget: int, seed: int = 0) -> None:
    """Search until the planted optimum is found, and fail if it is not found within the budget, or beaten."""
    optimum = optimum_ps(env)

    def look(progress: Progress) -> None:
        latency_ps = round(progress.latency_s * 1e12)
        assert latency_ps >= optimum
        if latency_ps == optimum:
            raise ReachedError

    with pytest.raises(ReachedError):
        agent.solve(env, budget=budget, seed=seed, callback=look)

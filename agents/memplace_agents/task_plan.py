"""The plan of a task, for backends, which know agents by their names only."""

from __future__ import annotations

from memplace_agents.registry import make_agent
from memplace_env._lib.errors import AgentError
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task


def best_plan(task: Task, agent: str = "exact", time_limit: float | None = None) -> MemoryPlan:
    """Return the best plan with one level a tensor that an agent finds.

    Args:
        task: the task.
        agent: its name, or "module:Class".
        time_limit: seconds that it has; None: as many as it takes.

    Raises:
        AgentError: if there is no such agent, or it finds no plan.
    """
    plan = make_agent(agent).solve(OneShotEnv(task), time_limit=time_limit).plan
    if plan is None:
        raise AgentError(f"The agent {agent!r} found no plan.")
    return plan

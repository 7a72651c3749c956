"""A bound for agents that prove none: the exact agent, run for some seconds after the search."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memplace_env._lib.errors import AgentError
from memplace_env.cli.agent_run import Limits, search
from memplace_env.cli.console import note
from memplace_env.envs.registration import Formulation

if TYPE_CHECKING:
    from memplace_agents import Agent
    from memplace_env.cli.solve_result import Result

_BUDGET = 1000
"""Plans that the exact agent may try; a proof takes a handful, and without one the time ends the search first."""


def with_proven_bound(result: Result, seconds: float, *, left: str) -> Result:
    """Return the result with what the exact agent finds and proves in that time, if it has no bound yet.

    Args:
        result: result of any agents.
        seconds: time for the proof; 0: none.
        left: a few words on what is left if the proof is interrupted.
    """
    env, solution = result.env, result.solution
    if solution.bound_s is not None or not seconds:
        return result
    if env.task.is_black_box:
        note("No bound is proven: a proof needs the costs of the built-in simulator; leave out --simulator for one.")
        return result
    from memplace_agents import Exact, ExactDynamic

    prover: Agent[Any] = ExactDynamic() if result.formulation is Formulation.DYNAMIC else Exact()
    try:
        return replace(result, proof=search(prover, env, Limits(_BUDGET, solution.seed, seconds), left=left))
    except AgentError as error:
        note(f"No bound is proven: {error}")
        return result

"""A bound for agents that prove none: the exact agent, run for some seconds after the search."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memplace_env.cli.console import note
from memplace_env.cli.search import Limits, search
from memplace_env.errors import AgentError
from memplace_env.registration import Formulation

if TYPE_CHECKING:
    from agents import Agent
    from memplace_env.cli.result import Result

_BUDGET = 1000
"""Plans that the exact agent may try; where it proves the optimum it needs a handful, else the time ends it first."""


def with_proven_bound(result: Result, seconds: float, *, kept: str) -> Result:
    """The result, with what the exact agent proves and finds in that time if there is no bound yet.

    Args:
        result: of any agent.
        seconds: 0 proves nothing.
        kept: what is left if somebody interrupts it.
    """
    env, solution = result.env, result.solution
    if solution.bound_s is not None or not seconds:
        return result
    from agents import Exact, ExactDynamic

    prover: Agent[Any] = ExactDynamic() if result.formulation is Formulation.DYNAMIC else Exact()
    try:
        exact = search(prover, env, Limits(_BUDGET, solution.seed, seconds), kept=kept)
    except AgentError as error:
        note(f"No bound is proven: {error}")
        return result
    return replace(result, found={**result.found, prover.name: exact})

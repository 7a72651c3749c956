"""What a search works on: an environment, and what a plan for it is measured against."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from memplace_env.cli.formulations import TRAITS, Formulation
from memplace_env.cli.options import ModelFlags
from memplace_env.errors import AgentError

if TYPE_CHECKING:
    from agents import Agent
    from memplace_env.envs.malloc_game import MallocGameEnv
    from memplace_env.envs.one_shot import OneShotEnv
    from memplace_env.simulator import Report


class Subject(NamedTuple):
    """An environment, and the baseline of its formulation."""

    env: OneShotEnv | MallocGameEnv
    formulation: Formulation
    baseline_report: Report

    @property
    def baseline(self) -> str:
        """What speed-ups are against."""
        return TRAITS[self.formulation].baseline

    def rivals(self) -> dict[str, float]:
        """Speed-ups over the baseline of who costs next to nothing, by name; of games only."""
        if self.formulation is not Formulation.GAME:
            return {}
        from agents import GreedyPlayer, XlaMsa
        from agents.xla_msa import MsaOptions

        solvers: dict[str, Agent] = {
            "greedy-player": GreedyPlayer(),
            "xla-msa": XlaMsa(),
            "xla-msa tuned": XlaMsa(MsaOptions.tuned()),
        }
        return {name: solver.solve(self.env).speedup for name, solver in solvers.items()}

    @property
    def bound(self) -> float:
        """Speed-up over the baseline that no plan of any kind can beat."""
        return self.baseline_report.latency_s / self.baseline_report.lower_bound_s


def is_id(name: str) -> bool:
    """Whether it looks like an environment's id, and not like a model."""
    return re.search(r"-v\d+$", name) is not None


def subject_of(model: str, flags: ModelFlags, formulation: Formulation) -> Subject:
    """A model, as the flags say.

    Raises:
        MemPlaceError: naming what cannot be resolved.
    """
    return _made(TRAITS[formulation].env_id, flags.arguments(model))


def subject_of_id(env_id: str) -> Subject:
    """A registered environment.

    Raises:
        AgentError: if there is none with that id.
    """
    import gymnasium as gym

    ours = [name for name, spec in gym.registry.items() if str(spec.entry_point).startswith("memplace_env.")]
    if env_id not in ours:
        close = get_close_matches(env_id, ours, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see 'memplace envs'."
        raise AgentError(f"There is no environment {env_id!r}; {hint}")
    return _made(env_id, {})


def _made(env_id: str, arguments: dict[str, Any]) -> Subject:
    import gymnasium as gym

    from memplace_env.compiler import all_backing
    from memplace_env.envs.malloc_game import MallocGameEnv
    from memplace_env.envs.one_shot import OneShotEnv

    env = gym.make(env_id, disable_env_checker=True, **arguments).unwrapped
    if isinstance(env, MallocGameEnv):
        plan = all_backing(env.program, env.accelerator)
        return Subject(env, Formulation.GAME, env.simulator.run(env.program, env.accelerator, plan))
    assert isinstance(env, OneShotEnv)
    return Subject(env, Formulation.ONE_SHOT, env.problem.native_report)

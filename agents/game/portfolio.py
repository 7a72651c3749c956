"""Several solvers in turn, the best plan of all: mallocMuZero's "Prod", which is never worse than XLA's solver."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from agents.base import Agent, Callback, Progress, Solution
from agents.evaluator import GameEvaluator
from agents.game.beam_search import BeamSearch
from agents.game.greedy_player import GreedyPlayer
from agents.game.local_search import GameLocalSearch
from agents.xla_msa import MsaOptions, XlaMsa
from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameProblem
from memplace_env.errors import AgentError
from memplace_env.plan import MemoryPlan
from memplace_env.workload.program import Ints


class Stage(NamedTuple):
    """One solver, and the share of what is left of budget and time that it may spend."""

    agent: Agent
    share: float


class Portfolio:
    """XLA's memory-space assignment with both public option sets, then the searches, within one budget.

    What a solver leaves of its share goes to those after it. An interrupt (Ctrl-C, or a KeyboardInterrupt from the
    callback) ends the search with the best plan so far.

    Args:
        policy: file of a network of `MuZero`; half of what is left after the beam then goes to MuZero.
        beam_share: of what is left after the plans that cost next to nothing; the rest is annealing. Half, as each
            beats the other on some games (docs/game.md); the beam takes less where its passes end early.
        stages: other solvers than these; the first comes first.

    Raises:
        AgentError: if a share is none, or the policy cannot be read.
    """

    name = "portfolio"
    budgeted = True
    anytime = True
    """An interrupt does not lose the plan."""

    def __init__(
        self,
        policy: str | Path | None = None,
        *,
        beam_share: float = 0.5,
        stages: Sequence[Stage] | None = None,
    ) -> None:
        self._stages = [*stages] if stages is not None else _default_stages(policy, beam_share)
        for stage in self._stages:
            if not 0 < stage.share <= 1:
                raise AgentError(
                    f"{stage.agent.name}'s share of {stage.share} makes no sense; pass more than 0, up to 1."
                )

    def solve(
        self,
        env: str | gym.Env[Any, Any],
        *,
        budget: int = 4000,
        seed: int = 0,
        callback: Callback | None = None,
        time_limit: float | None = None,
    ) -> Solution:
        """See `agents.base.Agent.solve`."""
        evaluator = GameEvaluator(env, budget=budget, callback=callback, time_limit=time_limit)
        with suppress(KeyboardInterrupt):
            for stage in self._stages:
                if evaluator.remaining <= 0:
                    break
                _run(stage, evaluator, seed)
        return evaluator.solution(self.name, seed)


class _Watched(MallocGameProblem):
    """A problem that remembers the last game whose plan was asked for: that is an evaluator's best so far."""

    row: Ints | None = None

    def plan(self, row: Ints) -> MemoryPlan:
        self.row = row.copy()
        return super().plan(row)


def _run(stage: Stage, evaluator: GameEvaluator, seed: int) -> None:
    """Let a solver spend its share; what it finds is kept at once, so that nothing is lost if it is stopped."""
    env, problem = _watched(evaluator.env)
    before = evaluator.evaluations

    def listen(progress: Progress) -> None:
        if problem.row is not None:
            evaluator.offer_rows(problem.row[None], games=before + progress.evaluations - evaluator.evaluations)

    left = evaluator.seconds_left
    solution = stage.agent.solve(
        env,
        budget=max(int(stage.share * evaluator.remaining), 1),
        seed=seed,
        callback=listen,
        time_limit=None if left is None else max(stage.share * left, 1e-3),
    )
    if problem.row is None and solution.plan is not None:
        evaluator.evaluations = before + solution.evaluations - 1
        evaluator.offer(solution.plan)


def _watched(env: MallocGameEnv) -> tuple[MallocGameEnv, _Watched]:
    """A fork of the environment with a watched problem."""
    problem = object.__new__(_Watched)
    problem.__dict__.update(env.problem.__dict__)
    fork = env.fork()
    fork.problem = problem
    return fork, problem


def _default_stages(policy: str | Path | None, beam_share: float) -> list[Stage]:
    stages = [
        Stage(XlaMsa(), 1.0),
        Stage(XlaMsa(MsaOptions.tuned()), 1.0),
        Stage(GreedyPlayer(), 1.0),
        Stage(BeamSearch(), beam_share),
        Stage(GameLocalSearch(), 1.0),
    ]
    if policy is not None:
        from agents.muzero import MuZero

        stages.insert(4, Stage(MuZero(policy=policy), 0.5))
    return stages

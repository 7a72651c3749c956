"""EGRL as an agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.base import Callback, Solution
from agents.egrl.config import EGRLConfig
from agents.egrl.run import Run
from agents.evaluator import Evaluator
from agents.learning.graph_policy import GraphPolicy
from agents.learning.policy_file import load_policy, save_policy
from agents.learning.threads import one_thread
from agents.learning.training import POLICY, Folder, Trained, evaluators_of
from memplace_env.errors import AgentError


class EGRL:
    """Evolutionary graph reinforcement learning (Khadka et al., ICLR 2021), and what we added to it.

    A population of graph policies and Boltzmann chromosomes evolves; beside it a graph policy learns by discrete
    soft actor-critic from everything the population tries, and migrates into it each generation. See `EGRLConfig`
    for the options beyond the paper, and agents/egrl/README.md for what each of them is worth.

    Args:
        config: every constant; default: the best we found. `EGRLConfig.paper()` is the published method.
        policy: a graph policy, or a file of one, to start from.
        out: folder for checkpoint.pt, policy.pt and TensorBoard's curves; None keeps nothing.
        resume: go on from the checkpoint in `out`, if there is one, until `budget` is spent.
        every: generations between checkpoints.
    """

    name = "egrl"
    budgeted = True

    def __init__(
        self,
        config: EGRLConfig | None = None,
        *,
        policy: GraphPolicy | str | Path | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        every: int = 10,
    ) -> None:
        self.config = config or EGRLConfig()
        self._policy = load_policy(Path(policy)) if isinstance(policy, str | Path) else policy
        self._folder = Folder("EGRL", out, resume, every)

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
        trained = self.train([env], budget=budget, seed=seed, callback=callback, time_limit=time_limit)
        return trained.solutions[0]

    def train(
        self,
        envs: Sequence[str | gym.Env[Any, Any]],
        *,
        budget: int = 4000,
        seed: int = 0,
        callback: Callback | Sequence[Callback] | None = None,
        time_limit: float | None = None,
    ) -> Trained[GraphPolicy]:
        """One policy for several workloads at once; a member's fitness is its mean reward over them.

        Args:
            envs: ids or made environments, on machines with equally many levels.
            budget: maps to evaluate at most, of each workload.
            seed, time_limit: as in `solve`.
            callback: as in `solve`, for all workloads or one for each.

        Raises:
            AgentError: if the environments or the given policy do not fit together, or the checkpoint is of another
                run.
        """
        evaluators = evaluators_of(Evaluator, envs, callback, budget=budget, time_limit=time_limit)
        self._check(evaluators)
        with one_thread():
            run = Run(self.config, evaluators, self._policy, seed)
            self._folder.train(run, self.config, evaluators, seed)
            policy = run.policy
        if self._folder.path:
            save_policy(self._folder.path / POLICY, policy, [evaluator.env.program.name for evaluator in evaluators])
        return Trained([evaluator.solution(self.name, seed) for evaluator in evaluators], policy)

    def _check(self, evaluators: Sequence[Evaluator]) -> None:
        if not evaluators:
            raise AgentError("EGRL needs at least one environment to train on.")
        levels = {evaluator.env.accelerator.num_levels for evaluator in evaluators}
        if len(levels) > 1:
            raise AgentError(f"The machines have {sorted(levels)} memory levels; train on machines with equally many.")
        if self._policy is not None and self._policy.levels not in levels:
            raise AgentError(
                f"The policy maps to {self._policy.levels} memory levels, the machine has {levels.pop()}; "
                "pass a policy that was trained on such a machine."
            )

"""MuZero as an agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.base import Callback, Solution
from agents.evaluator import GameEvaluator
from agents.learning.threads import one_thread
from agents.learning.training import POLICY, Folder, Trained, evaluators_of
from agents.muzero.config import MuZeroConfig
from agents.muzero.networks import MuZeroNetwork
from agents.muzero.policy_file import load_policy, save_policy
from agents.muzero.run import Run
from memplace_env.errors import AgentError


class MuZero:
    """MuZero (Schrittwieser et al., Nature 2020) for mallocGame, after mallocMuZero (Wang et al., arXiv 2305.07440).

    Games are played by Gumbel MuZero's search, by default in the true rules, by choice in a learned model, and the
    network learns from them; see
    `MuZeroConfig` for the options, and agents/muzero/README.md for what they are worth. Every game played counts, and
    the best is the solution; as the greedy player's game is played first, it is never worse than that.

    Args:
        config: every constant; default: the best we found.
        policy: a network, or a file of one, to start from; it may come from another program. Its layers count, not
            those of the config.
        out: folder for checkpoint.pt, policy.pt and TensorBoard's curves; None keeps nothing.
        resume: go on from the checkpoint in `out`, if there is one, until `budget` is spent.
        every: rounds between checkpoints, which hold the replay: up to 3 kB for each of its decisions.

    Raises:
        AgentError: if the policy cannot be read, or there is no folder to resume from.
    """

    name = "muzero"
    budgeted = True

    def __init__(
        self,
        config: MuZeroConfig | None = None,
        *,
        policy: MuZeroNetwork | str | Path | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        every: int = 20,
    ) -> None:
        self.config = config or MuZeroConfig()
        self._policy = load_policy(Path(policy)) if isinstance(policy, str | Path) else policy
        self._folder = Folder("MuZero", out, resume, every)

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
    ) -> Trained[MuZeroNetwork]:
        """One network for several programs at once, on any machines.

        Args:
            envs: ids or made environments.
            budget: games to play at most, of each program.
            seed, time_limit: as in `solve`.
            callback: as in `solve`, for all programs or one for each.

        Raises:
            AgentError: if there is no environment, or the checkpoint is of another run.
        """
        if not envs:
            raise AgentError("MuZero needs at least one environment to train on.")
        evaluators = evaluators_of(GameEvaluator, envs, callback, budget=budget, time_limit=time_limit)
        with one_thread():
            run = Run(self.config, evaluators, self._policy, seed)
            self._folder.train(run, self.config, evaluators, seed)
        if self._folder.path:
            names = [evaluator.env.program.name for evaluator in evaluators]
            save_policy(self._folder.path / POLICY, run.policy, names)
        return Trained([evaluator.solution(self.name, seed) for evaluator in evaluators], run.policy)

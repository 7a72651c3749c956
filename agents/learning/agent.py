"""What the agents that train a policy round by round have in common: one program or several, files, resuming."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import gymnasium as gym

from agents.base import Agent
from agents.evaluator import Evaluator, evaluator_for
from agents.learning.policy_file import PolicyNetwork, load_policy, save_policy
from agents.learning.threads import one_thread
from agents.learning.training import POLICY, Folder, Run
from agents.solution import Callback, Solution
from memplace_env.errors import AgentError

E = TypeVar("E", bound=Evaluator)
P = TypeVar("P", bound=PolicyNetwork)


class Trained(NamedTuple, Generic[P]):
    """What training leaves: one solution for each program, and the policy."""

    solutions: list[Solution]
    policy: P


class LearningAgent(Agent[E], Generic[E, P]):
    """An agent whose search trains a policy; a subclass writes `new_run`.

    Args:
        config: every constant.
        policy: a policy, or a file of one, to start from.
        out: folder for checkpoint.pt, policy.pt and TensorBoard's curves; None keeps nothing.
        resume: go on from the checkpoint in `out`, if there is one, until `budget` is spent.
        every: rounds between checkpoints.

    Raises:
        AgentError: if the policy cannot be read, there is no folder to resume from, or `every` is below 1.
    """

    network: ClassVar[type[Any]]
    """Class of the policy."""

    def __init__(
        self,
        config: Any,
        policy: P | str | Path | None,
        out: str | Path | None,
        resume: bool,
        every: int,
    ) -> None:
        self.config = config
        self.policy: P | None = load_policy(Path(policy), self.network) if isinstance(policy, str | Path) else policy
        self._folder = Folder(self.name, out, resume, every)

    @abstractmethod
    def new_run(self, evaluators: Sequence[E], seed: int) -> Run[P]:
        """A run before its first round.

        Raises:
            AgentError: if the environments, or they and the given policy, do not fit together.
        """

    def run(self, evaluator: E, seed: int) -> None:
        """Train on one program; everything that is tried on the way counts."""
        self._train([evaluator], seed)

    def train(
        self,
        envs: Sequence[str | gym.Env[Any, Any]],
        *,
        budget: int = 4000,
        seed: int = 0,
        callback: Callback | Sequence[Callback] | None = None,
        time_limit: float | None = None,
    ) -> Trained[P]:
        """One policy for several programs at once.

        Args:
            envs: ids or made environments.
            budget: plans to evaluate at most, of each program.
            seed, time_limit: as in `solve`.
            callback: as in `solve`, for all programs or one for each.

        Raises:
            AgentError: if there is no environment, the environments or the given policy do not fit together, or the
                checkpoint is of another run.
        """
        if not envs:
            raise AgentError(f"{self.name} needs at least one environment to train on.")
        callbacks = [callback] * len(envs) if callback is None or callable(callback) else callback
        evaluators: list[Any] = [
            evaluator_for(env, self.formulations, budget=budget, callback=told, time_limit=time_limit, seed=seed)
            for env, told in zip(envs, callbacks, strict=True)
        ]
        policy = self._train(evaluators, seed)
        return Trained([evaluator.solution(self.name, seed) for evaluator in evaluators], policy)

    def _train(self, evaluators: Sequence[E], seed: int) -> P:
        with one_thread():
            run = self.new_run(evaluators, seed)
            self._folder.train(run, self.config, evaluators, seed)
            policy = run.policy
        if self._folder.path:
            names = [evaluator.env.program.name for evaluator in evaluators]
            save_policy(self._folder.path / POLICY, policy, names)
        return policy

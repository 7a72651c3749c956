"""Base of the agents that train a policy round by round: one program or several, checkpoints, curves, resuming."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import gymnasium as gym

from memplace_agents.built_in_agents import CHECKPOINT, CHECKPOINT_BYTES, CURVES, POLICY
from memplace_agents.learning import safe_files
from memplace_agents.learning.curves import Curves
from memplace_agents.learning.policy_file import PolicyNetwork, load_policy, save_policy
from memplace_agents.learning.training import TrainingRun, one_thread
from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import Evaluator, evaluator_for
from memplace_agents.solution import Callback, Solution
from memplace_env._lib.errors import AgentError

E = TypeVar("E", bound=Evaluator)
P = TypeVar("P", bound=PolicyNetwork)


class Trained(NamedTuple, Generic[P]):
    """Result of training: one solution for each program, and the policy."""

    solutions: list[Solution]
    policy: P


class LearningAgent(Agent[E], Generic[E, P]):
    """An agent whose search trains a policy; a subclass writes `new_run`.

    Args:
        config: every constant; the default is the best we found.
        policy: a policy, or a file of one, to start from.
        out: folder for checkpoint.pt, policy.pt and TensorBoard's curves; None writes nothing.
        resume: go on from the checkpoint in `out`, if there is one, until `budget` is spent.
        every: rounds between checkpoints; the default is `rounds_between_checkpoints`.

    Raises:
        AgentError: if the policy cannot be read or is no `network`, a subclass names a network that the run it inherits
            does not train, there is no folder to resume from, or `every` is below 1.
    """

    settings: ClassVar[type[Any]]
    """Class of the config, a dataclass."""
    network: ClassVar[type[Any]]
    """Class of the policy."""
    rounds_between_checkpoints: ClassVar[int]

    def __init__(
        self,
        config: Any = None,
        *,
        policy: P | str | Path | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        every: int | None = None,
    ) -> None:
        self.config = self.settings() if config is None else config
        every = self.rounds_between_checkpoints if every is None else every
        self.policy: P | None = load_policy(Path(policy), self.network) if isinstance(policy, str | Path) else policy
        self._check_network()
        if resume and out is None:
            raise AgentError(f"To resume, {self.name} needs the folder of the run: pass out.")
        if every < 1:
            raise AgentError(f"every must be at least 1, not {every}.")
        self._folder = Path(out) if out is not None else None
        self._resume, self._every, self._checkpoint_kind = resume, every, f"{self.name}-run/2"

    def _check_network(self) -> None:
        """Refuse networks that `new_run` would replace by its own: runs make theirs anew from options and weights.

        Raises:
            AgentError: if there is one.
        """
        trained = next(kind for kind in type(self).__mro__ if "new_run" in vars(kind)).network  # type: ignore[attr-defined]
        if self.network is not trained:
            raise AgentError(
                f"{type(self).__name__} names the network {self.network.__name__}, and the run that it inherits trains "
                f"{trained.__name__}; override new_run too."
            )
        if self.policy is not None and type(self.policy) is not self.network:
            raise AgentError(
                f"policy is the path of a policy or a {self.network.__name__}, which {self.name} trains, not "
                f"an object of {type(self.policy).__name__}."
            )

    @abstractmethod
    def new_run(self, evaluators: Sequence[E], seed: int) -> TrainingRun[P]:
        """Return a run before its first round.

        Raises:
            AgentError: if the environments, or they and the given policy, do not fit together.
        """

    def run(self, evaluator: E, seed: int) -> None:
        """Train on one program; every plan evaluated on the way counts."""
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
        """Train one policy on several programs at once.

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
            evaluator_for(env, self.formulations, budget=budget, callback=own, time_limit=time_limit, seed=seed)
            for env, own in zip(envs, callbacks, strict=True)
        ]
        policy = self._train(evaluators, seed)
        return Trained([evaluator.solution(self.name, seed) for evaluator in evaluators], policy)

    def _train(self, evaluators: Sequence[E], seed: int) -> P:
        """Train until the run is done, from its checkpoint or its beginning.

        Raises:
            AgentError: if the checkpoint is of another run, or damaged.
        """
        with one_thread():
            run = self.new_run(evaluators, seed)
            identity = self._identity(evaluators, seed)
            checkpoint = self._folder / CHECKPOINT if self._folder else None
            if self._resume and checkpoint and checkpoint.exists():
                self._restore(run, checkpoint, identity)
            else:
                run.begin()
            with Curves(self._folder / CURVES if self._folder else None, run.round) as curves:
                while not run.done:
                    run.step()
                    best = {
                        f"speedup/best/{index}": evaluator.best_speedup for index, evaluator in enumerate(evaluators)
                    }
                    curves.write(run.scalars | best, run.round)
                    if checkpoint and run.round % self._every == 0:
                        self._save(run, checkpoint, identity)
            if checkpoint:
                self._save(run, checkpoint, identity)
            policy = run.policy
        if self._folder:
            save_policy(self._folder / POLICY, policy, [evaluator.env.program.name for evaluator in evaluators])
        return policy

    def _identity(self, evaluators: Sequence[E], seed: int) -> dict[str, Any]:
        """Return the plain values that a checkpoint shares with the run that it belongs to."""
        return {
            "config": asdict(self.config),
            "programs": [evaluator.env.program.sha256 for evaluator in evaluators],
            "accelerators": [evaluator.env.accelerator.sha256 for evaluator in evaluators],
            "noise": [evaluator.noise for evaluator in evaluators],
            "seed": seed,
        }

    def _save(self, run: TrainingRun[P], checkpoint: Path, identity: dict[str, Any]) -> None:
        safe_files.save(checkpoint, self._checkpoint_kind, {"identity": identity, "run": run.state_dict()})

    def _restore(self, run: TrainingRun[P], checkpoint: Path, identity: dict[str, Any]) -> None:
        content = safe_files.load(checkpoint, self._checkpoint_kind, CHECKPOINT_BYTES)
        saved = content.get("identity")
        saved = saved if isinstance(saved, dict) else {}
        other = [key for key, value in identity.items() if _differ(saved.get(key), value)]
        if other:
            raise AgentError(f"{checkpoint} is of another run (other {', '.join(other)}); pass another folder.")
        try:
            run.load_state_dict(content["run"])
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise AgentError(f"{checkpoint} is damaged; start the run anew without resuming.") from error


def _differ(saved: Any, value: Any) -> bool:
    """Return whether plain values differ; a tensor, whose `==` gives a tensor, differs from any."""
    return json.dumps(saved, default=str) != json.dumps(value)

"""EGRL as an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from agents.base import Callback, Solution
from agents.egrl.config import EGRLConfig
from agents.egrl.run import Run
from agents.evaluator import Evaluator
from agents.learning import files
from agents.learning.graph_policy import GraphPolicy
from agents.learning.policy_file import load_policy, save_policy
from agents.learning.threads import one_thread
from memplace_env.errors import AgentError

CHECKPOINT, POLICY, CURVES = "checkpoint.pt", "policy.pt", "tensorboard"
_KIND = "egrl-run/1"


class Trained(NamedTuple):
    """What training leaves: one solution for each workload, and the best graph policy."""

    solutions: list[Solution]
    policy: GraphPolicy


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
        self._out = Path(out) if out is not None else None
        self._resume, self._every = resume, every
        if resume and out is None:
            raise AgentError("To resume, EGRL needs the folder of the run: pass out.")

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
    ) -> Trained:
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
        callbacks = [callback] * len(envs) if callback is None or callable(callback) else callback
        evaluators = [
            Evaluator(env, budget=budget, callback=told, time_limit=time_limit)
            for env, told in zip(envs, callbacks, strict=True)
        ]
        self._check(evaluators)
        with one_thread():
            return self._train(evaluators, seed)

    def _train(self, evaluators: Sequence[Evaluator], seed: int) -> Trained:
        run = Run(self.config, evaluators, self._policy, seed)
        identity = {
            "config": asdict(self.config),
            "programs": [evaluator.env.program.sha256 for evaluator in evaluators],
            "accelerators": [evaluator.env.accelerator.sha256 for evaluator in evaluators],
            "seed": seed,
        }
        checkpoint = self._out / CHECKPOINT if self._out else None
        if self._resume and checkpoint and checkpoint.exists():
            self._restore(run, checkpoint, identity)
        else:
            run.begin()
        with _Curves(self._out / CURVES if self._out else None, run) as curves:
            while not run.done:
                run.step()
                curves.write([evaluator.best_speedup for evaluator in evaluators])
                if checkpoint and run.generation % self._every == 0:
                    files.save(checkpoint, _KIND, {"identity": identity, "run": run.state_dict()})
        policy = run.policy
        if checkpoint and self._out:
            files.save(checkpoint, _KIND, {"identity": identity, "run": run.state_dict()})
            save_policy(self._out / POLICY, policy, [evaluator.env.program.name for evaluator in evaluators])
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

    def _restore(self, run: Run, checkpoint: Path, identity: dict[str, Any]) -> None:
        content = files.load(checkpoint, _KIND)
        saved = content.get("identity")
        if saved != identity:
            other = [key for key, value in identity.items() if not isinstance(saved, dict) or saved.get(key) != value]
            raise AgentError(f"{checkpoint} is of another run (other {', '.join(other)}); pass another folder.")
        try:
            run.load_state_dict(content["run"])
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise AgentError(f"{checkpoint} is damaged; start the run anew without resuming.") from error


class _Curves:
    """TensorBoard's scalars against evaluations, or nothing."""

    def __init__(self, folder: Path | None, run: Run) -> None:
        self._folder, self._run = folder, run
        self._writer: Any = None

    def __enter__(self) -> _Curves:
        if self._folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._folder), purge_step=self._run.generation)
        return self

    def write(self, best: Sequence[float]) -> None:
        """The last generation's figures and the best speed-ups so far."""
        if self._writer is None:
            return
        named = {f"speedup/best/{index}": value for index, value in enumerate(best)}
        for tag, value in (self._run.scalars | named).items():
            self._writer.add_scalar(tag, value, self._run.generation)

    def __exit__(self, *exception: object) -> None:
        if self._writer is not None:
            self._writer.close()

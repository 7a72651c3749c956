"""MuZero as an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from agents.base import Callback, Solution
from agents.evaluator import GameEvaluator
from agents.learning import files
from agents.learning.threads import one_thread
from agents.muzero.config import MuZeroConfig
from agents.muzero.networks import MuZeroNetwork
from agents.muzero.policy_file import load_policy, save_policy
from agents.muzero.run import Run
from memplace_env.errors import AgentError

CHECKPOINT, POLICY, CURVES = "checkpoint.pt", "policy.pt", "tensorboard"
_KIND = "muzero-run/1"


class Trained(NamedTuple):
    """What training leaves: one solution for each program, and the network."""

    solutions: list[Solution]
    policy: MuZeroNetwork


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
        self._out = Path(out) if out is not None else None
        self._resume, self._every = resume, every
        if resume and out is None:
            raise AgentError("To resume, MuZero needs the folder of the run: pass out.")
        if every < 1:
            raise AgentError(f"every={every} makes no sense; pass at least 1.")

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
        callbacks = [callback] * len(envs) if callback is None or callable(callback) else callback
        evaluators = [
            GameEvaluator(env, budget=budget, callback=told, time_limit=time_limit)
            for env, told in zip(envs, callbacks, strict=True)
        ]
        with one_thread():
            policy = self._train(evaluators, seed)
        return Trained([evaluator.solution(self.name, seed) for evaluator in evaluators], policy)

    def _train(self, evaluators: Sequence[GameEvaluator], seed: int) -> MuZeroNetwork:
        run = Run(self.config, evaluators, self._policy, seed)
        identity = {
            "config": asdict(self.config),
            "programs": [evaluator.env.program.sha256 for evaluator in evaluators],
            "accelerators": [evaluator.env.accelerator.sha256 for evaluator in evaluators],
            "seed": seed,
        }
        checkpoint = self._out / CHECKPOINT if self._out else None
        if self._resume and checkpoint and checkpoint.exists():
            _restore(run, checkpoint, identity)
        else:
            run.begin()
        with _Curves(self._out / CURVES if self._out else None, run) as curves:
            while not run.done:
                run.step()
                curves.write([evaluator.best_speedup for evaluator in evaluators])
                if checkpoint and run.round % self._every == 0:
                    files.save(checkpoint, _KIND, {"identity": identity, "run": run.state_dict()})
        if checkpoint and self._out:
            files.save(checkpoint, _KIND, {"identity": identity, "run": run.state_dict()})
            save_policy(self._out / POLICY, run.policy, [evaluator.env.program.name for evaluator in evaluators])
        return run.policy


def _restore(run: Run, checkpoint: Path, identity: dict[str, Any]) -> None:
    content = files.load(checkpoint, _KIND)
    saved = content.get("identity")
    if saved != identity:
        other = [key for key, value in identity.items() if not isinstance(saved, dict) or saved.get(key) != value]
        raise AgentError(f"{checkpoint} is of another run (other {', '.join(other)}); pass another folder.")
    try:
        run.load_state_dict(content["run"])
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise AgentError(f"{checkpoint} is damaged; start the run anew without resuming.") from error


class _Curves:
    """TensorBoard's scalars against rounds, or nothing."""

    def __init__(self, folder: Path | None, run: Run) -> None:
        self._folder, self._run = folder, run
        self._writer: Any = None

    def __enter__(self) -> _Curves:
        if self._folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._folder), purge_step=self._run.round)
        return self

    def write(self, best: Sequence[float]) -> None:
        """The last round's figures, and the best speed-ups so far."""
        if self._writer is None:
            return
        named = {f"speedup/best/{place}": value for place, value in enumerate(best)}
        for tag, value in (self._run.scalars | named).items():
            self._writer.add_scalar(tag, value, self._run.round)

    def __exit__(self, *exception: object) -> None:
        if self._writer is not None:
            self._writer.close()

"""MuZero as an agent."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

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
        """See `agents.base.Agent.solve`.

        Raises:
            AgentError: also if the checkpoint is of another run.
        """
        evaluator = GameEvaluator(env, budget=budget, callback=callback, time_limit=time_limit)
        with one_thread():
            self._train(evaluator, seed)
        return evaluator.solution(self.name, seed)

    def _train(self, evaluator: GameEvaluator, seed: int) -> None:
        run = Run(self.config, evaluator, self._policy, seed)
        identity = {
            "config": asdict(self.config),
            "program": evaluator.env.program.sha256,
            "accelerator": evaluator.env.accelerator.sha256,
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
                curves.write(evaluator)
                if checkpoint and run.round % self._every == 0:
                    files.save(checkpoint, _KIND, {"identity": identity, "run": run.state_dict()})
        if checkpoint and self._out:
            files.save(checkpoint, _KIND, {"identity": identity, "run": run.state_dict()})
            save_policy(self._out / POLICY, run.policy, [evaluator.env.program.name])


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

    def write(self, evaluator: GameEvaluator) -> None:
        """The last round's figures, and the best speed-up so far."""
        if self._writer is None:
            return
        for tag, value in (self._run.scalars | {"speedup/best": evaluator.best_speedup}).items():
            self._writer.add_scalar(tag, value, self._run.round)

    def __exit__(self, *exception: object) -> None:
        if self._writer is not None:
            self._writer.close()

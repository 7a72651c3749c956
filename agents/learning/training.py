"""What learning agents do around a run: checkpoints, curves, and going on from where one stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agents.evaluator import Evaluator
from agents.learning import files
from agents.learning.curves import Curves
from memplace_env.errors import AgentError

CHECKPOINT, POLICY, CURVES = "checkpoint.pt", "policy.pt", "tensorboard"
"""What a run leaves in its folder."""

P = TypeVar("P", covariant=True)


class Run(Protocol[P]):
    """What is trained, round by round.

    Attributes:
        round: rounds done.
        scalars: figures of the last round, by TensorBoard tag.
    """

    round: int
    scalars: dict[str, float]

    @property
    def done(self) -> bool:
        """Whether budget or time is spent."""
        ...

    @property
    def policy(self) -> P:
        """What has been learned so far."""
        ...

    def begin(self) -> None:
        """Try what is known without search."""
        ...

    def step(self) -> None:
        """One round."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that decides how the run goes on, as tensors and plain values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        ...


class Folder:
    """Where a run keeps its checkpoint and curves, or nowhere.

    Args:
        name: of the agent, for people.
        path: the folder; None keeps nothing.
        resume: go on from the checkpoint in it, if there is one.
        every: rounds between checkpoints.

    Raises:
        AgentError: if there is no folder to resume from, or `every` is below 1.
    """

    def __init__(self, name: str, path: str | Path | None, resume: bool, every: int) -> None:
        self.path = Path(path) if path is not None else None
        self._kind, self._resume, self._every = f"{name}-run/2", resume, every
        if resume and path is None:
            raise AgentError(f"To resume, {name} needs the folder of the run: pass out.")
        if every < 1:
            raise AgentError(f"every={every} makes no sense; pass at least 1.")

    def train(self, run: Run[Any], config: Any, evaluators: Sequence[Evaluator], seed: int) -> None:
        """Train until the run is done, from its checkpoint or its beginning.

        Args:
            run: as it is before its first round.
            config: its constants, a dataclass; with the programs and the seed they tell runs apart.
            evaluators: of its programs.
            seed: of all its randomness.

        Raises:
            AgentError: if the checkpoint is of another run, or damaged.
        """
        identity = self.identity(config, evaluators, seed)
        checkpoint = self.path / CHECKPOINT if self.path else None
        if self._resume and checkpoint and checkpoint.exists():
            self._restore(run, checkpoint, identity)
        else:
            run.begin()
        with Curves(self.path / CURVES if self.path else None, run.round) as curves:
            while not run.done:
                run.step()
                best = {f"speedup/best/{place}": each.best_speedup for place, each in enumerate(evaluators)}
                curves.write(run.scalars | best, run.round)
                if checkpoint and run.round % self._every == 0:
                    files.save(checkpoint, self._kind, {"identity": identity, "run": run.state_dict()})
        if checkpoint:
            files.save(checkpoint, self._kind, {"identity": identity, "run": run.state_dict()})

    def identity(self, config: Any, evaluators: Sequence[Evaluator], seed: int) -> dict[str, Any]:
        """What tells runs apart; as for `train`."""
        return {
            "config": asdict(config),
            "programs": [evaluator.env.program.sha256 for evaluator in evaluators],
            "accelerators": [evaluator.env.accelerator.sha256 for evaluator in evaluators],
            "noise": [evaluator.noise for evaluator in evaluators],
            "seed": seed,
        }

    def _restore(self, run: Run[Any], checkpoint: Path, identity: dict[str, Any]) -> None:
        content = files.load(checkpoint, self._kind, files.CHECKPOINT_BYTES)
        saved = content.get("identity")
        other = [key for key, value in identity.items() if not isinstance(saved, dict) or _other(saved.get(key), value)]
        if other:
            raise AgentError(f"{checkpoint} is of another run (other {', '.join(other)}); pass another folder.")
        try:
            run.load_state_dict(content["run"])
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise AgentError(f"{checkpoint} is damaged; start the run anew without resuming.") from error


def _other(saved: Any, value: Any) -> bool:
    """Whether plain values differ; a tensor, which has a `==` of its own, is none."""
    return json.dumps(saved, default=str) != json.dumps(value)

"""What learning agents do around a run: checkpoints, curves, and going on from where one stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agents.evaluator import Evaluator
from agents.learning import files
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
        identity = {
            "config": asdict(config),
            "programs": [evaluator.env.program.sha256 for evaluator in evaluators],
            "accelerators": [evaluator.env.accelerator.sha256 for evaluator in evaluators],
            "noise": [evaluator.noise for evaluator in evaluators],
            "seed": seed,
        }
        checkpoint = self.path / CHECKPOINT if self.path else None
        if self._resume and checkpoint and checkpoint.exists():
            self._restore(run, checkpoint, identity)
        else:
            run.begin()
        with _Curves(self.path / CURVES if self.path else None, run) as curves:
            while not run.done:
                run.step()
                curves.write([evaluator.best_speedup for evaluator in evaluators])
                if checkpoint and run.round % self._every == 0:
                    files.save(checkpoint, self._kind, {"identity": identity, "run": run.state_dict()})
        if checkpoint:
            files.save(checkpoint, self._kind, {"identity": identity, "run": run.state_dict()})

    def _restore(self, run: Run[Any], checkpoint: Path, identity: dict[str, Any]) -> None:
        content = files.load(checkpoint, self._kind, files.CHECKPOINT_BYTES)
        saved = content.get("identity")
        if saved != identity:
            other = [key for key, value in identity.items() if not isinstance(saved, dict) or saved.get(key) != value]
            raise AgentError(f"{checkpoint} is of another run (other {', '.join(other)}); pass another folder.")
        try:
            run.load_state_dict(content["run"])
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise AgentError(f"{checkpoint} is damaged; start the run anew without resuming.") from error


class _Curves:
    """TensorBoard's scalars against rounds, or nothing."""

    def __init__(self, folder: Path | None, run: Run[Any]) -> None:
        self._folder, self._run = folder, run
        self._writer: Any = None

    def __enter__(self) -> _Curves:
        if self._folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self._folder), purge_step=self._run.round)
        return self

    def write(self, best: Sequence[float]) -> None:
        """The last round's figures and the best speed-ups so far."""
        if self._writer is None:
            return
        named = {f"speedup/best/{place}": value for place, value in enumerate(best)}
        for tag, value in (self._run.scalars | named).items():
            self._writer.add_scalar(tag, value, self._run.round)

    def __exit__(self, *exception: object) -> None:
        if self._writer is not None:
            self._writer.close()

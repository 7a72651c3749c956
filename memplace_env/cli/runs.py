"""The runs of one training, a folder for each seed, and going on with those that were interrupted."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memplace_env.cli.console import note
from memplace_env.cli.formulations import Formulation
from memplace_env.cli.learners import CHECKPOINT, LEARNERS, POLICY, make_learner
from memplace_env.cli.output import write_folder
from memplace_env.cli.search import in_thread, new_bar, rivals_line
from memplace_env.cli.subject import Subject
from memplace_env.errors import MemPlaceError
from memplace_env.files import write_atomically
from memplace_env.views.units import ratio

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from agents import Agent, Progress, Solution
    from agents.base import Callback

RUN, PLAN, HISTORY = "run.json", "plan.json", "history.json"

Options = tuple[str | None, tuple[str, ...], Path | None]
"""What `make_learner` takes beside the name: config, settings, policy."""


def slug(name: str) -> str:
    """A name without what file systems dislike."""
    return re.sub(r"[^\w.+-]+", "-", name)


@dataclasses.dataclass(frozen=True)
class Job:
    """What the runs of all seeds have in common.

    Attributes:
        agent: one of `LEARNERS`.
        options: what it is made with.
        config: its settings as plain values, None if it has none to choose.
        subjects: the environments by what the user called them, of one formulation.
        budget: plans to evaluate at most, of each environment.
        folder: where everything goes.
    """

    agent: str
    options: Options
    config: dict[str, Any] | None
    subjects: Mapping[str, Subject]
    budget: int
    folder: Path

    @classmethod
    def claim(cls, agent: str, options: Options, subjects: Mapping[str, Subject], budget: int, folder: Path) -> Job:
        """A new job in an empty folder, or the one that is there.

        Raises:
            MemPlaceError: if an option makes no sense, or another run is in the folder, or none that can be told.
        """
        config = getattr(make_learner(agent, *options), "config", None)
        job = cls(agent, options, dataclasses.asdict(config) if config else None, subjects, budget, folder)
        identity = job._identity()
        if not folder.exists() or not any(folder.iterdir()):
            write_folder(folder, {RUN: _json(identity)})
            return job
        saved = _read(folder / RUN)
        if saved is None:
            raise MemPlaceError(f"{folder} holds no run of 'memplace train'; pass another --out.")
        other = [key for key, value in identity.items() if saved.get(key) != value]
        if other:
            raise MemPlaceError(f"{folder} holds another run (other {', '.join(other)}); pass another --out.")
        return job

    @property
    def formulation(self) -> Formulation:
        """That of the environments."""
        return next(iter(self.subjects.values())).formulation

    def of_seed(self, seed: int) -> Path:
        """Folder of a run."""
        return self.folder / f"seed-{seed}"

    def run(self, seeds: Iterable[int]) -> list[dict[str, Any]]:
        """Train with each seed that is not finished; what `history.json` then holds, with folder and policy."""
        runs = []
        with new_bar(counted=True) as bar:
            for seed in seeds:
                run = self._finished(seed)
                if run is None:
                    run = in_thread(partial(self._train, seed, bar), bar, partial(self._kept, seed))
                    found = ", ".join(f"{item['workload']} {ratio(item['speedup'])}" for item in run["workloads"])
                    note(f"seed {seed}: {found}")
                folder = self.of_seed(seed)
                runs.append({"seed": seed, "folder": str(folder), "policy": str(folder / POLICY), **run})
        return runs

    def _identity(self) -> dict[str, Any]:
        """What must be the same to go on with a run."""
        policy = self.options[-1]
        return {
            "agent": self.agent,
            "config": self.config,
            "policy": sha256(policy.read_bytes()).hexdigest() if policy else None,
            "environments": [
                {
                    "formulation": subject.formulation.value,
                    "program": subject.env.program.sha256,
                    "accelerator": subject.env.accelerator.sha256,
                    "simulator": type(subject.env.simulator).__name__,
                }
                for subject in self.subjects.values()
            ],
        }

    def _finished(self, seed: int) -> dict[str, Any] | None:
        """What an earlier run of that seed wrote when it had spent as much; None if there is more to do."""
        done = _read(self.of_seed(seed) / HISTORY)
        if done is None or done["budget"] >= self.budget:
            return done
        if LEARNERS[self.agent].resumes:
            return None
        raise MemPlaceError(
            f"{self.of_seed(seed)} was trained with a budget of {done['budget']}, and {self.agent} keeps no "
            "checkpoints to go on from; pass another --out."
        )

    def _train(self, seed: int, bar: Bar) -> dict[str, Any]:
        folder = self.of_seed(seed)
        agent = make_learner(self.agent, *self.options, **LEARNERS[self.agent].output(folder))
        solutions = self._solutions(agent, seed, bar)
        files: dict[str, bytes | None] = {}
        results = []
        for (name, subject), solution in zip(self.subjects.items(), solutions, strict=True):
            plan = PLAN if len(self.subjects) == 1 else f"plan-{slug(name)}.json"
            files[plan] = solution.plan.to_json().encode() if solution.plan else None
            results.append(_result(name, subject, solution, plan))
        run = {"budget": self.budget, "workloads": results}
        write_folder(folder, files)
        write_atomically(folder / HISTORY, _json(run))  # last: it says that the run is finished
        return run

    def _solutions(self, agent: Agent, seed: int, bar: Bar) -> list[Solution]:
        envs = [subject.env for subject in self.subjects.values()]
        told = [self._shown(bar, f"seed {seed}, {name}", subject) for name, subject in self.subjects.items()]
        if len(envs) == 1:
            return [agent.solve(envs[0], budget=self.budget, seed=seed, callback=told[0])]
        several: Any = agent
        solutions: list[Solution] = several.train(envs, budget=self.budget, seed=seed, callback=told).solutions
        return solutions

    def _shown(self, bar: Bar, what: str, subject: Subject) -> Callback:
        """A line of the progress bar, and who is to tell it of progress."""
        line, baseline_s = bar.add_task(what, total=self.budget), subject.baseline_report.latency_s
        rivals = subject.rivals() if not bar.disable else {}
        others = f" ({rivals_line(rivals | {'bound': subject.bound})})" if rivals else ""

        def progressed(progress: Progress) -> None:
            best = ratio(baseline_s / progress.latency_s)
            bar.update(line, completed=progress.evaluations, description=f"{what}: best {best}{others}")

        return progressed

    def _kept(self, seed: int) -> str:
        """What an interrupt leaves."""
        checkpoint = self.of_seed(seed) / CHECKPOINT
        if checkpoint.exists():
            return f"the run so far is in {checkpoint}; the same command with --resume goes on from there"
        return f"there is no checkpoint of seed {seed} yet; the same command with --resume begins it anew"


def _result(name: str, subject: Subject, solution: Solution, plan: str) -> dict[str, Any]:
    """One workload of one run, as plain values."""
    baseline_s = subject.baseline_report.latency_s
    return {
        "workload": name,
        "speedup": solution.speedup,
        "latency_s": solution.report.latency_s if solution.report else None,
        "native_latency_s": baseline_s,
        "evaluations": solution.evaluations,
        "seconds": solution.seconds,
        "plan": plan if solution.plan else None,
        "history": [
            {**progress._asdict(), "speedup": baseline_s / progress.latency_s} for progress in solution.history
        ],
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


def _read(path: Path) -> dict[str, Any] | None:
    """What a file of this module holds; None if there is no such file.

    Raises:
        MemPlaceError: if it is damaged.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise MemPlaceError(f"{path} is damaged; pass another --out.") from error
    if not isinstance(value, dict):
        raise MemPlaceError(f"{path} is damaged; pass another --out.")
    return value

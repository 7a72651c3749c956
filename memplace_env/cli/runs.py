"""The runs of one training, a folder for each seed, and going on with those that were interrupted."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memplace_env.cli.console import note
from memplace_env.cli.environments import baseline_of, formulation_of
from memplace_env.cli.learner_flags import LearnerFlags
from memplace_env.cli.output import slug
from memplace_env.cli.rivals import compared, rivals_of
from memplace_env.cli.search import in_thread, new_bar
from memplace_env.errors import MemPlaceError
from memplace_env.files import is_empty, write_together
from memplace_env.foreign import parse_json, read
from memplace_env.registration import Formulation
from memplace_env.views.text.quantities import ratio

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from agents import Agent, Progress, Solution
    from agents.registry import AgentSpec
    from agents.solution import Callback
    from memplace_env.cli.environments import Env

RUN, PLAN, HISTORY = "run.json", "plan.json", "history.json"
"""What is written here."""
CHECKPOINT, POLICY = "checkpoint.pt", "policy.pt"
"""What a learning agent leaves in the folder that it is given."""
_BYTES, _POLICY_BYTES = 2**26, 2**28
"""Largest files that are read: of this module, of a policy to begin with."""


@dataclasses.dataclass(frozen=True)
class Job:
    """What the runs of all seeds have in common.

    Attributes:
        agent: who learns.
        learner: what it begins with.
        config: its settings as plain values, None if it has none to choose.
        envs: the environments by what the user called them, of one formulation.
        budget: plans to evaluate at most, of each environment.
        folder: where everything goes.
    """

    agent: AgentSpec
    learner: LearnerFlags
    config: dict[str, Any] | None
    envs: Mapping[str, Env]
    budget: int
    folder: Path

    @classmethod
    def claim(cls, agent: AgentSpec, learner: LearnerFlags, envs: Mapping[str, Env], budget: int, folder: Path) -> Job:
        """A new job in an empty folder, or the one that is there.

        Raises:
            MemPlaceError: if an option makes no sense, or the folder holds another run or something else.
        """
        config = getattr(learner.make(agent), "config", None)
        job = cls(agent, learner, dataclasses.asdict(config) if config else None, envs, budget, folder)
        identity = job._identity()
        if is_empty(folder):
            write_together(folder, {RUN: _json(identity)})
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
        return formulation_of(next(iter(self.envs.values())))

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
        policy = self.learner.policy
        return {
            "agent": self.agent.name,
            "config": self.config,
            "policy": sha256(read(policy, _POLICY_BYTES)).hexdigest() if policy else None,
            "environments": [_env_identity(env) for env in self.envs.values()],
        }

    def _finished(self, seed: int) -> dict[str, Any] | None:
        """What an earlier run of that seed wrote when it had spent as much; None if there is more to do."""
        path = self.of_seed(seed) / HISTORY
        done = _read(path)
        if done is not None:
            try:
                _check_run(done, len(self.envs))
            except (KeyError, TypeError, ValueError):
                raise _damaged(path) from None
        if done is None or done["budget"] >= self.budget:
            return done
        if self.agent.resumes:
            return None
        raise MemPlaceError(
            f"{self.of_seed(seed)} was trained with a budget of {done['budget']}, and {self.agent.name} keeps no "
            "checkpoints to go on from; pass another --out."
        )

    def _train(self, seed: int, bar: Bar) -> dict[str, Any]:
        folder = self.of_seed(seed)
        going_on = {"resume": True} if self.agent.resumes else {}
        solutions = self._solutions(self.learner.make(self.agent, out=folder, **going_on), seed, bar)
        files: dict[str, bytes | None] = {}
        results = []
        for (name, env), solution in zip(self.envs.items(), solutions, strict=True):
            plan = PLAN if len(self.envs) == 1 else f"plan-{slug(name)}.json"
            files[plan] = solution.plan.to_json().encode() if solution.plan else None
            results.append(_result(name, env, solution, plan))
        run = {"budget": self.budget, "workloads": results}
        write_together(folder, files | {HISTORY: _json(run)})  # last: it says that the run is finished
        return run

    def _solutions(self, agent: Agent[Any], seed: int, bar: Bar) -> list[Solution]:
        envs = list(self.envs.values())
        told = [self._shown(bar, f"seed {seed}, {name}", env) for name, env in self.envs.items()]
        if len(envs) == 1:
            return [agent.solve(envs[0], budget=self.budget, seed=seed, callback=told[0])]
        several: Any = agent
        solutions: list[Solution] = several.train(envs, budget=self.budget, seed=seed, callback=told).solutions
        return solutions

    def _shown(self, bar: Bar, what: str, env: Env) -> Callback:
        """A line of the progress bar, and who is to tell it of progress."""
        line, baseline_s = bar.add_task(what, total=self.budget), baseline_of(env).report.latency_s
        others = "" if bar.disable else compared(env, rivals_of(env))

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


def _env_identity(env: Env) -> dict[str, Any]:
    """What tells environments apart."""
    settings = env.task.settings
    return {
        "formulation": formulation_of(env).value,
        "program": env.program.sha256,
        "accelerator": env.accelerator.sha256,
        "simulator": type(env.simulator).__name__,
        **{key: settings[key] for key in ("costs",) if key in settings},
    }


def _result(name: str, env: Env, solution: Solution, plan: str) -> dict[str, Any]:
    """One workload of one run, as plain values."""
    baseline_s = baseline_of(env).report.latency_s
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
        value = parse_json(read(path, _BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MemPlaceError(f"Cannot read {path}: {error.strerror}; pass another --out.") from None
    except ValueError:
        raise _damaged(path) from None
    if not isinstance(value, dict):
        raise _damaged(path)
    return value


def _damaged(path: Path) -> MemPlaceError:
    return MemPlaceError(f"{path} is damaged; pass another --out.")


def _check_run(value: Mapping[str, Any], workloads: int) -> None:
    """Find out whether a history.json says what is shown of it.

    Raises:
        KeyError, TypeError, ValueError: if it does not.
    """
    from agents.saved import number, optional, whole

    whole(value["budget"], 1)
    for item in value["workloads"]:
        for name in ("speedup", "native_latency_s", "seconds"):
            number(item[name], 0.0)
        optional(item["latency_s"], 0.0)
        whole(item["evaluations"])
        if not isinstance(item["workload"], str) or not isinstance(item["plan"], str | None):
            raise TypeError("no name")
        if not isinstance(item["history"], list):
            raise TypeError("no history")
    if len(value["workloads"]) != workloads:
        raise ValueError("other workloads")

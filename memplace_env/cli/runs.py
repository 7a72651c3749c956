"""The runs of one training, a folder for each seed, which go on after an interruption."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memplace_agents.built_in_agents import CHECKPOINT, POLICY, POLICY_BYTES
from memplace_env._lib.errors import MemPlaceError
from memplace_env._lib.files import is_empty, write_together
from memplace_env._lib.foreign import parse_json, read
from memplace_env.cli.agent_run import baselines_of, new_bar, progress_note
from memplace_env.cli.console import note, slug
from memplace_env.cli.interrupts import in_thread
from memplace_env.cli.model_flags import baseline_of
from memplace_env.cli.shared_options import LearnerFlags
from memplace_env.envs.registration import Formulation
from memplace_env.report.quantities import ratio

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from memplace_agents import Agent, Progress, Solution
    from memplace_agents.built_in_agents import AgentSpec
    from memplace_agents.solution import Callback
    from memplace_env.cli.model_flags import Env

RUN, PLAN, HISTORY = "run.json", "plan.json", "history.json"
"""Files that a run writes into its folder."""
_BYTES = 2**26
"""Largest file of this module that is read."""


@dataclasses.dataclass(frozen=True)
class TrainingJob:
    """The common settings of the runs of all seeds.

    Attributes:
        agent: the learning agent.
        learner: the policy and settings that it begins with.
        config: its settings as plain values, None if it has none to choose.
        envs: the environments by the names that the user typed, of one formulation.
        budget: plans to evaluate at most, of each environment.
        folder: the folder of all files.
    """

    agent: AgentSpec
    learner: LearnerFlags
    config: dict[str, Any] | None
    envs: Mapping[str, Env]
    budget: int
    folder: Path

    @classmethod
    def claim(
        cls, agent: AgentSpec, learner: LearnerFlags, envs: Mapping[str, Env], budget: int, folder: Path
    ) -> TrainingJob:
        """Return a new job in an empty folder, or the one that is there.

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
        """The formulation of the environments."""
        return next(iter(self.envs.values())).formulation

    def of_seed(self, seed: int) -> Path:
        """Return the folder of a run."""
        return self.folder / f"seed-{seed}"

    def run(self, seeds: Iterable[int]) -> list[dict[str, Any]]:
        """Train with each seed that is not finished; return each `history.json`, with folder and policy."""
        runs = []
        with new_bar(counted=True) as bar:
            for seed in seeds:
                run = self._finished(seed)
                if run is None:
                    run = in_thread(partial(self._train, seed, bar), bar, partial(self._left, seed))
                    speedups = ", ".join(f"{item['workload']} {ratio(item['speedup'])}" for item in run["workloads"])
                    note(f"seed {seed}: {speedups}")
                folder = self.of_seed(seed)
                runs.append({"seed": seed, "folder": str(folder), "policy": str(folder / POLICY), **run})
        return runs

    def _identity(self) -> dict[str, Any]:
        """Return the values that must be equal to go on with a run."""
        policy = self.learner.policy
        return {
            "agent": self.agent.name,
            "config": self.config,
            "policy": sha256(read(policy, POLICY_BYTES)).hexdigest() if policy else None,
            "environments": [_env_identity(env) for env in self.envs.values()],
        }

    def _finished(self, seed: int) -> dict[str, Any] | None:
        """Return the history of an earlier run of the seed that spent as much; None if there is more to do."""
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
        options = {"resume": True} if self.agent.resumes else {}
        solutions = self._solutions(self.learner.make(self.agent, out=folder, **options), seed, bar)
        files: dict[str, bytes | None] = {}
        results = []
        for (name, env), solution in zip(self.envs.items(), solutions, strict=True):
            plan = PLAN if len(self.envs) == 1 else f"plan-{slug(name)}.json"
            files[plan] = solution.plan.to_json().encode() if solution.plan else None
            results.append(_result(name, env, solution, plan))
        run = {"budget": self.budget, "workloads": results}
        write_together(folder, files | {HISTORY: _json(run)})  # last: its presence means that the run is finished
        return run

    def _solutions(self, agent: Agent[Any], seed: int, bar: Bar) -> list[Solution]:
        envs = list(self.envs.values())
        callbacks = [self._callback(bar, f"seed {seed}, {name}", env) for name, env in self.envs.items()]
        if len(envs) == 1:
            return [agent.solve(envs[0], budget=self.budget, seed=seed, callback=callbacks[0])]
        several: Any = agent
        solutions: list[Solution] = several.train(envs, budget=self.budget, seed=seed, callback=callbacks).solutions
        return solutions

    def _callback(self, bar: Bar, name: str, env: Env) -> Callback:
        """Add a line to the progress bar and return the callback that updates it."""
        line, baseline_s = bar.add_task(name, total=self.budget), baseline_of(env).report.latency_s
        beside = "" if bar.disable else progress_note(env, baselines_of(env))

        def progressed(progress: Progress) -> None:
            best = ratio(baseline_s / progress.latency_s)
            bar.update(line, completed=progress.evaluations, description=f"{name}: best {best}{beside}")

        return progressed

    def _left(self, seed: int) -> str:
        """Return a few words on what an interrupt leaves."""
        checkpoint = self.of_seed(seed) / CHECKPOINT
        if checkpoint.exists():
            return f"the run so far is in {checkpoint}; the same command with --resume goes on from there"
        return f"there is no checkpoint of seed {seed} yet; the same command with --resume begins it anew"


def _env_identity(env: Env) -> dict[str, Any]:
    """Return the values that identify an environment."""
    settings = env.task.settings
    return {
        "formulation": env.formulation.value,
        "program": env.program.sha256,
        "accelerator": env.accelerator.sha256,
        "simulator": type(env.simulator).__name__,
        **{key: settings[key] for key in ("costs",) if key in settings},
    }


def _result(name: str, env: Env, solution: Solution, plan: str) -> dict[str, Any]:
    """Return one workload of one run as plain values."""
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
    """Return the contents of a file of this module; None if there is no such file.

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
    """Check that a history.json has the values that are shown.

    Raises:
        KeyError, TypeError, ValueError: if it does not.
    """
    from memplace_agents.saved_values import number, optional, whole

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

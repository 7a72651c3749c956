"""A submission: its description and its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from memplace_env.envs.registration import Formulation
from memplace_leaderboard.entry import Entry
from memplace_leaderboard.rerun_record import RerunRecord


class Standing(StrEnum):
    """Ground on which a row stands: it was run again here, the board played it itself, or its author says so."""

    RERUN = "re-run"
    COMPUTED = "computed"
    DECLARED = "declared"


@dataclass(frozen=True)
class Training:
    """An agent's training before it played the suite; all of it declared.

    Attributes:
        ids: environments trained on, all of the train split.
        plans: plans evaluated in training.
        seconds: duration of the training.
    """

    ids: tuple[str, ...]
    plans: int
    seconds: float


@dataclass(frozen=True)
class Meta:
    """The contents of `submission.toml`.

    Attributes:
        name: name of the row, unique on a leaderboard.
        agent: a registered name or "module:Class", as `memplace leaderboard run` takes it.
        options: the agent's arguments.
        authors, link, licence: for questions about the agent.
        suite, suite_sha256, track: the suite with the hash of its file, and the track.
        formulations: a submission has all of the track's instances of each.
        budgets: budgets of the track, or "own".
        seeds: 0 to suite.seeds - 1, or only 0 if `deterministic`.
        deterministic: whether the seed changes nothing.
        nominal: whether the agent searched under the cost arrays of a black-box track's tasks, and measured nothing.
        memplace: version of the code.
        hardware: cpu, cores, platform, python, and `free_rules.rule_seconds` as rule_s; declared.
        source: kind, name, version and sha256 of the code of a "module:Class", see `agent_source`; empty for others.
        made: the day of the run, as 2026-01-31; empty if it is unknown.
        training: None if nothing was trained.
        machine_seeds: seeds of the machines that were drawn, one for each of `seeds`; None if the track draws none.
        machines_of: name of the submission whose machines these are; empty if they were drawn for this one.
        format: 2 if a judge in another process measured the runs, which then have processor seconds; 1 before that.
    """

    name: str
    agent: str
    suite: str
    suite_sha256: str
    track: str
    formulations: tuple[Formulation, ...]
    budgets: tuple[str, ...]
    seeds: tuple[int, ...]
    memplace: str
    options: Mapping[str, Any] = field(default_factory=dict)
    authors: tuple[str, ...] = ()
    link: str = ""
    licence: str = ""
    deterministic: bool = False
    nominal: bool = False
    hardware: Mapping[str, Any] = field(default_factory=dict)
    training: Training | None = None
    machine_seeds: tuple[int, ...] | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    made: str = ""
    machines_of: str = ""
    format: int = 1

    def machine_seed(self, seed: int) -> int | None:
        """Return the seed of the machine that runs with a seed are on; None if the track draws none."""
        return None if self.machine_seeds is None else self.machine_seeds[self.seeds.index(seed)]

    def place(self, env_id: str, seed: int) -> str:
        """Return the key of the references of a run's score: its environment, and its machine if one was drawn."""
        return env_id if self.machine_seeds is None else f"{env_id}@{self.machine_seed(seed)}"


@dataclass(frozen=True)
class Submission:
    """A submission that has been read.

    Attributes:
        meta: its description.
        entries: its runs, in the order of the suite's instances, then budgets and seeds.
        sha256: hash of the files that it was read from; empty if it was not read.
        rerun: the record of those who ran it again; None if nobody did.
        computed: whether the board played it itself, as it does with rules.
        public_machines: whether its machines are those of another row, so that it is never ranked.
    """

    meta: Meta
    entries: tuple[Entry, ...]
    sha256: str = ""
    rerun: RerunRecord | None = None
    computed: bool = False
    public_machines: bool = False

    def standing(self, budget: str) -> Standing:
        """Return the ground on which its rows of a budget stand."""
        if self.computed:
            return Standing.COMPUTED
        again = self.rerun is not None and budget in self.rerun.budgets and not self.public_machines
        return Standing.RERUN if again else Standing.DECLARED

    def rerun_times(self, formulation: Formulation, budget: str) -> tuple[float, float] | None:
        """Return wall and processor seconds per run of those who ran it again; None if there is no such record."""
        if self.rerun is None or self.standing(budget) is not Standing.RERUN:
            return None
        return self.rerun.times.get(f"{formulation} {budget}")

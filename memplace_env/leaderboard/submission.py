"""What a submission says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memplace_env.leaderboard.entry import Entry
from memplace_env.registration import Formulation


@dataclass(frozen=True)
class Training:
    """What an agent was trained on before it met the suite; all of it declared.

    Attributes:
        ids: environments, all of the train split.
        plans: evaluated in training.
        seconds: that it took.
    """

    ids: tuple[str, ...]
    plans: int
    seconds: float


@dataclass(frozen=True)
class Meta:
    """The contents of `submission.toml`.

    Attributes:
        name: of the row, unique on a leaderboard.
        agent: a registered name or "module:Class", which `memplace leaderboard run` takes.
        options: the agent's arguments.
        authors, link, licence: who is to be asked.
        suite, suite_sha256, track: what was played.
        formulations: of which instances; a submission has all of each.
        budgets: as in the track, or "own".
        seeds: 0 to suite.seeds - 1, or only 0 if `deterministic`.
        deterministic: whether the seed changes nothing.
        nominal: whether the agent searched under the cost arrays of a black-box track's tasks, and measured nothing.
        memplace: version of the code.
        hardware: cpu, cores, platform, python; declared.
        training: None if nothing was trained.
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


@dataclass(frozen=True)
class Submission:
    """A submission that has been read.

    Attributes:
        meta: what it says of itself.
        entries: its runs, in the order of instances, budgets and seeds.
    """

    meta: Meta
    entries: tuple[Entry, ...]

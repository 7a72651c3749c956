"""Suites of the leaderboard: which environments, by which tracks and budgets, as versioned data in `suites/`.

A suite's instances never change: what their programs, chips and costs are is pinned by hashes, so that two submissions
to one suite solved the same. What is known of the instances, the best plan and the bound, gets better with time and
stands apart, in `suites/best-known.toml`.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from memplace_env.errors import LeaderboardError
from memplace_env.hints import instead
from memplace_env.leaderboard.splits import FORMULATIONS, Split, family_of, group_of, group_split, split_suites
from memplace_env.registration import Formulation

OWN: Final = "own"
"""The budget of agents that decide themselves how much they evaluate."""
LEAST_GAIN: Final = 0.03
"""Instances with less to gain over the baseline do not count in means."""
_BUDGET: Final = re.compile(r"([1-9][0-9]{0,6})(s?)")


@dataclass(frozen=True)
class Budget:
    """What an agent may spend on one environment.

    Attributes:
        text: "100" for so many plans, "10s" for so many seconds of one core, "own" for what the agent takes itself.
    """

    text: str

    def __post_init__(self) -> None:
        if self.text != OWN and not _BUDGET.fullmatch(self.text):
            raise LeaderboardError(f"The budget {self.text!r} is none; write '100' for plans, '10s' for seconds.")

    @property
    def plans(self) -> int | None:
        """Plans, or None."""
        return None if self.text == OWN or self.text.endswith("s") else int(self.text)

    @property
    def seconds(self) -> float | None:
        """Seconds, or None."""
        return float(self.text[:-1]) if self.text.endswith("s") else None


@dataclass(frozen=True)
class Track:
    """One way to play a suite.

    Attributes:
        name: such as "search".
        summary: one line.
        budgets: those that a submission may have rows for; "own" is always allowed.
        noise: relative standard deviation of measurements; None where the cost arrays judge, and agents may read them.
        split: only instances whose program's group is in that split; None for all.
    """

    name: str
    summary: str
    budgets: tuple[Budget, ...]
    noise: float | None = None
    split: Split | None = None

    @property
    def is_black_box(self) -> bool:
        """Whether a noisy simulator judges instead of the cost arrays."""
        return self.noise is not None


@dataclass(frozen=True)
class Instance:
    """One environment of a suite, pinned.

    Attributes:
        env_id: the registered id.
        formulation, workload, accelerator: of that id; the program's name in the zoo and the chip's.
        family: of the program.
        split: of the program's group.
        ops: of the program.
        program_sha256, accelerator_sha256, costs_sha256: of what is solved.
        baseline_ps: latency of the baseline, which is free for everybody: native's plan for maps, the one of XLA's
            memory-space assignment with the defaults of its open-source code for games, or all backing if that is
            faster.
    """

    env_id: str
    formulation: Formulation
    workload: str
    accelerator: str
    family: str
    split: Split
    ops: int
    program_sha256: str
    accelerator_sha256: str
    costs_sha256: str
    baseline_ps: int


@dataclass(frozen=True)
class Known:
    """The best that is known of an instance: a plan that somebody has in hand, and what no plan can beat.

    Attributes:
        cheap_ps: latency of the best plan that costs no search.
        best_ps: latency of the best known plan of all.
        bound_ps: proven; the best known plan is optimal where the two are equal to 0.01 %.
    """

    cheap_ps: int
    best_ps: int
    bound_ps: int


@dataclass(frozen=True)
class Suite:
    """A versioned set of instances and tracks.

    Attributes:
        name: such as "quick-v1".
        summary: one line.
        seeds: how many a submission has: 0 to seeds - 1.
        tracks: by name.
        instances: by environment id.
        sha256: of the file that it is from.
    """

    name: str
    summary: str
    seeds: int
    tracks: Mapping[str, Track]
    instances: Mapping[str, Instance]
    sha256: str

    def track(self, name: str) -> Track:
        """The track of that name.

        Raises:
            LeaderboardError: if there is none.
        """
        if name not in self.tracks:
            raise LeaderboardError(f"Suite {self.name} has no track {name!r}; {instead(name, self.tracks)}")
        return self.tracks[name]

    def played(self, track: Track, formulations: tuple[Formulation, ...]) -> dict[str, Instance]:
        """The instances of a track that are of these formulations, by id, in the suite's order."""
        return {
            env_id: each
            for env_id, each in self.instances.items()
            if each.formulation in formulations and track.split in (None, each.split)
        }


def suite_names() -> list[str]:
    """Names of the suites that are shipped."""
    folder = files("memplace_env.leaderboard").joinpath("suites")
    names = sorted(each.name.removesuffix(".toml") for each in folder.iterdir() if each.name.endswith(".toml"))
    return [name for name in names if name != "best-known"]


def suites() -> Mapping[str, tuple[str, ...]]:
    """Ids of the environments by the name of their suite: the leaderboard's, and those of `split_suites`."""
    return {**split_suites(), **{name: tuple(load_suite(name).instances) for name in suite_names()}}


@lru_cache
def load_suite(name: str) -> Suite:
    """The shipped suite of that name.

    Raises:
        LeaderboardError: if there is none.
    """
    if name not in suite_names():
        raise LeaderboardError(f"There is no suite {name!r}; {instead(name, suite_names())}")
    data = _read(name)
    table = tomllib.loads(data.decode())
    return Suite(
        name=table["name"],
        summary=table["summary"],
        seeds=table["seeds"],
        tracks={name: _track(name, fields) for name, fields in table["tracks"].items()},
        instances={env_id: _instance(env_id, fields) for env_id, fields in table["instances"].items()},
        sha256=hashlib.sha256(data).hexdigest(),
    )


@lru_cache
def best_known() -> Mapping[str, Known]:
    """What is known of each instance, by environment id."""
    return {env_id: Known(**fields) for env_id, fields in tomllib.loads(_read("best-known").decode()).items()}


def _read(name: str) -> bytes:
    return files("memplace_env.leaderboard").joinpath("suites", f"{name}.toml").read_bytes()


def _track(name: str, fields: dict[str, Any]) -> Track:
    return Track(
        name,
        fields["summary"],
        tuple(map(Budget, fields["budgets"])),
        fields.get("noise"),
        Split(fields["split"]) if "split" in fields else None,
    )


def _instance(env_id: str, fields: dict[str, Any]) -> Instance:
    name, formulation = _registered(env_id)
    traits = formulation.traits
    settings = traits.settings[name]
    return Instance(
        env_id=env_id,
        formulation=formulation,
        workload=settings.get("workload", name),
        accelerator=settings.get("accelerator", traits.accelerator),
        family=family_of(name, settings),
        split=group_split(group_of(name, settings)),
        **fields,
    )


def _registered(env_id: str) -> tuple[str, Formulation]:
    """The name and the formulation that are in an id."""
    for formulation in FORMULATIONS:
        prefix = f"{formulation.traits.prefix}-"
        if env_id.startswith(prefix):
            return env_id.removeprefix(prefix).removesuffix("-v0"), formulation
    raise LeaderboardError(f"{env_id!r} is no id of this package.")

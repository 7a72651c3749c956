"""Suites of the leaderboard: environments, tracks and budgets as versioned data in `suites/`.

A suite's instances never change: programs, chips and costs are pinned by hashes, so that two submissions to one suite
solved the same. Best known plans and bounds improve with time and stand in `memplace_env.envs.best_known`.
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

from memplace_env._lib.errors import LeaderboardError
from memplace_env._lib.hints import instead
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.envs.splits import Split, family_of, group_of, group_split

OWN: Final = "own"
"""Budget of agents that decide themselves how much they evaluate."""
REFERENCE: Final = "reference"
"""Budget of the judge's own runs on drawn machines, see `machine_reference`."""
LEAST_GAIN: Final = 0.03
"""Relative gain over the baseline below which an instance does not count in means. Our choice."""
_BUDGET: Final = re.compile(r"([1-9][0-9]{0,6})(s?)")


@dataclass(frozen=True)
class Budget:
    """Limit of what an agent may spend on one environment.

    Attributes:
        text: "100" for 100 plans, "10s" for 10 seconds of one core, "own" for as much as the agent decides, "reference"
            for what the judge finds.
    """

    text: str

    def __post_init__(self) -> None:
        if self.text not in (OWN, REFERENCE) and not _BUDGET.fullmatch(self.text):
            raise LeaderboardError(f"There is no budget {self.text!r}; write '100' for plans, '10s' for seconds.")

    @property
    def plans(self) -> int | None:
        """Limit in plans, or None."""
        return int(self.text) if self.text.isdigit() else None

    @property
    def seconds(self) -> float | None:
        """Limit in seconds, or None."""
        return float(self.text[:-1]) if self.text.endswith("s") else None


@dataclass(frozen=True)
class Track:
    """One way to play a suite.

    Attributes:
        name: such as "search".
        summary: one line.
        budgets: budgets that a submission may have rows for; "own" is always allowed.
        noise: relative standard deviation of measurements; None where latencies come from the cost arrays, which agents
            may read.
        machine: name of the machine that is measured, whose seed is drawn when a run is judged, see `drawn_machines`;
            None where nothing is measured.
        split: the split that instances are taken from, by the group of their program; None for all.
    """

    name: str
    summary: str
    budgets: tuple[Budget, ...]
    noise: float | None = None
    split: Split | None = None
    machine: str | None = None

    @property
    def is_black_box(self) -> bool:
        """True if a drawn machine takes the place of the cost arrays."""
        return self.machine is not None

    @property
    def meaning(self) -> str:
        """Sentence on what is equal between the rows of a table, and who counted it."""
        if not self.is_black_box:
            return (
                "Ranked at equal processor time: costs are public, so that an agent may time plans on a copy of its "
                "own, and tables of plans compare what agents asked for."
            )
        return "Ranked at equal measurements, which the judge of a run answers and counts."

    @property
    def main_budget(self) -> str:
        """The budget that a table is of unless another one is asked for: about 10 s, or 100 measurements."""
        kinds = [each for each in self.budgets if (each.plans if self.is_black_box else each.seconds)]
        most = 100 if self.is_black_box else 10
        within = [each for each in kinds if (each.plans or each.seconds or 0) <= most]
        return (within[-1:] or kinds[:1] or list(self.budgets[:1]))[0].text

    @property
    def simulator(self) -> tuple[str | None, float | None]:
        """The machine and its noise: tracks where these are equal have the same latencies."""
        return self.machine, self.noise


@dataclass(frozen=True)
class Instance:
    """One environment of a suite, pinned.

    Attributes:
        env_id: the registered id.
        formulation, workload, accelerator: formulation, name of the program in the zoo, name of the chip.
        family: family of the program.
        split: split of the program's group.
        ops: number of ops of the program.
        program_sha256, accelerator_sha256, costs_sha256: hashes of program, chip and cost arrays.
        baseline_ps: latency of the baseline, see `pinned.baseline_plan`.
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
class Suite:
    """A versioned set of instances and tracks.

    Attributes:
        name: such as "quick-v1".
        summary: one line.
        seeds: number of seeds of a submission, 0 to seeds - 1.
        tracks: by name.
        instances: by environment id.
        sha256: hash of the suite's file.
    """

    name: str
    summary: str
    seeds: int
    tracks: Mapping[str, Track]
    instances: Mapping[str, Instance]
    sha256: str

    def track(self, name: str) -> Track:
        """Return the track of a name.

        Raises:
            LeaderboardError: if there is none.
        """
        if name not in self.tracks:
            raise LeaderboardError(f"Suite {self.name} has no track {name!r}; {instead(name, self.tracks)}")
        return self.tracks[name]

    def played(self, track: Track, formulations: tuple[Formulation, ...]) -> dict[str, Instance]:
        """Return the instances of a track with one of these formulations, by id, in the suite's order."""
        return {
            env_id: instance
            for env_id, instance in self.instances.items()
            if instance.formulation in formulations and track.split in (None, instance.split)
        }


def suite_names() -> list[str]:
    """Return the names of the suites that are shipped."""
    folder = files("memplace_leaderboard").joinpath("suites")
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def ids_by_suite() -> dict[str, tuple[str, ...]]:
    """Return the environment ids of each suite by its name."""
    return {name: tuple(load_suite(name).instances) for name in suite_names()}


@lru_cache
def load_suite(name: str) -> Suite:
    """Return the shipped suite of a name.

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


def _read(name: str) -> bytes:
    return files("memplace_leaderboard").joinpath("suites", f"{name}.toml").read_bytes()


def _track(name: str, fields: dict[str, Any]) -> Track:
    return Track(
        name,
        fields["summary"],
        tuple(map(Budget, fields["budgets"])),
        fields.get("noise"),
        Split(fields["split"]) if "split" in fields else None,
        fields.get("machine"),
    )


def _instance(env_id: str, fields: dict[str, Any]) -> Instance:
    formulation = formulation_of_id(env_id)
    traits = formulation.traits
    name = env_id.removeprefix(f"{traits.prefix}-").removesuffix("-v0")
    settings = traits.named[name]
    return Instance(
        env_id=env_id,
        formulation=formulation,
        workload=settings.get("workload", name),
        accelerator=settings.get("accelerator", traits.accelerator),
        family=family_of(name, settings),
        split=group_split(group_of(name, settings)),
        **fields,
    )

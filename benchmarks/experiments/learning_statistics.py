"""Statistics of the learning campaign: shares of the best known gain, means over seeds, and intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.harness import as_rows, data, heads
from benchmarks.ledger import Record
from memplace_env.envs.best_known import known_results
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_leaderboard.scores import Floats, stratified_bootstrap


def gain(env_id: str, speedup: float) -> float:
    """Return what the environment's return makes of a speed-up over the baseline: the share of latency that a game
    saves, or the speed-up minus 1.
    """
    return 1 - 1 / speedup if formulation_of_id(env_id) is Formulation.GAME else speedup - 1


def speedup(record: Record) -> float:
    """Return the speed-up of a record's plan over its baseline."""
    return float(record["baseline_ps"] / record["latency_ps"])


def best_speedup(record: Record) -> float:
    """Return the speed-up of the best known plan of a record's environment, as of `memplace_env.envs.best_known`."""
    return float(record["baseline_ps"] / known_results()[record["id"]].best_ps)


def share(record: Record, value: float | None = None) -> float:
    """Return the percentage of the best known gain of a record's plan, or of another speed-up over its baseline."""
    reached = speedup(record) if value is None else value
    return 100 * gain(record["id"], reached) / gain(record["id"], best_speedup(record))


def columns_of(
    records: Iterable[Record], ids: Sequence[str], solver: str, **limits: float | None
) -> list[list[Record]]:
    """Return the records of a solver with these limits, such as `plans=4000`: a list for each id, by seed.

    Raises:
        ValueError: if a seed lacks an instance that another one has.
    """
    by_id: dict[str, list[Record]] = {env_id: [] for env_id in ids}
    for record in records:
        if record["solver"] == solver and all(record.get(name) == limit for name, limit in limits.items()):
            by_id.get(record["id"], []).append(record)
    counts = {len(found) for found in by_id.values()}
    if len(counts) != 1 or counts == {0}:
        raise ValueError(f"{solver} has {sorted(counts)} seeds; every instance must have equally many, one at least.")
    return [sorted(found, key=lambda record: int(record["seed"])) for found in by_id.values()]


class Shares(NamedTuple):
    """Percentages of the best known gain that one solver reaches, and what that took.

    Attributes:
        values: float64[seeds, instances].
        seconds: float64[seeds, instances], processor seconds.
        plans: float64[seeds, instances], plans evaluated.
    """

    values: Floats
    seconds: Floats
    plans: Floats

    @classmethod
    def of(cls, records: Iterable[Record], ids: Sequence[str], solver: str, **limits: float | None) -> Shares:
        """Return the shares of a solver's records, see `columns_of`."""
        columns = columns_of(records, ids, solver, **limits)

        def table(field: Callable[[Record], float]) -> Floats:
            return np.array([[field(record) for record in column] for column in columns]).T

        return cls(table(share), table(lambda record: record["took_s"]), table(lambda record: record["evaluations"]))

    @classmethod
    def whole(cls, records: Iterable[Record], ids: Sequence[str], solver: str, **limits: float | None) -> Shares | None:
        """Return the shares of the seeds that a solver has run with on all instances; None if there is no such seed."""
        found = [run for run in records if run["solver"] == solver and limits.items() <= run.items() and "curve" in run]
        seeds = {run["seed"] for run in found}
        whole = {seed for seed in seeds if {run["id"] for run in found if run["seed"] == seed} >= set(ids)}
        return cls.of([run for run in found if run["seed"] in whole], ids, solver, **limits) if whole else None

    @classmethod
    def best(cls, *solvers: Shares) -> Shares:
        """Return the better of some solvers on each instance, for each seed; their times and plans add up."""
        values, seconds, plans = (np.array(arrays) for arrays in zip(*solvers, strict=True))
        return cls(values.max(axis=0), seconds.sum(axis=0), plans.sum(axis=0))

    @property
    def mean(self) -> float:
        """Mean over seeds and instances."""
        return float(self.values.mean())

    @property
    def of_instances(self) -> Floats:
        """Means over seeds, float64[instances]."""
        return np.asarray(self.values.mean(axis=0))

    def cell(self, digits: int = 1) -> str:
        """Return the mean, and behind it its interval: "96.8 [93.1, 99.5]"."""
        ends = interval(mean_of, self.values)
        return f"{self.mean:.{digits}f}" + ("" if ends is None else f" {bounds(ends, digits)}")


def mean_of(scores: Floats) -> Floats:
    """Return the mean over runs and instances: float[...]."""
    return np.asarray(scores.mean((-2, -1)))


def mean_difference(x: Floats, y: Floats) -> Floats:
    """Return the mean of x minus that of y, of the same instances: float[...]."""
    return mean_of(x) - mean_of(y)


def interval(statistic: Callable[..., Floats], *scores: Floats) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of a statistic under other instances and seeds; None for a single value."""
    ends = stratified_bootstrap(statistic, *scores)
    return None if ends is None else (float(ends[0]), float(ends[1]))


def difference(x: Shares, y: Shares, digits: int = 1) -> str:
    """Return the mean difference with its interval: "+1.2 [+0.8, +1.6]"."""
    ends = interval(mean_difference, x.values, y.values)
    return f"{x.mean - y.mean:+.{digits}f}" + ("" if ends is None else f" {bounds(ends, digits, '+')}")


def bounds(ends: tuple[float, float], digits: int, sign: str = "") -> str:
    """Return an interval as text: "[0.8, 1.6]"."""
    return f"[{ends[0]:{sign}.{digits}f}, {ends[1]:{sign}.{digits}f}]"


def ahead(x: Shares, y: Shares) -> int:
    """Return the number of instances on which the mean of x over its seeds is above that of y."""
    return int((x.of_instances > y.of_instances).sum())


def texts(values: Floats, form: str) -> list[str]:
    """Return numbers in a format."""
    return [format(value, form) for value in values]


def known_ms(ids: Sequence[str], field: str = "best_ps") -> list[str]:
    """Return the latency of each best known plan in milliseconds, or of the best known game."""
    return [f"{getattr(known_results()[env_id], field) / 1e9:.6f}" for env_id in ids]


def file_of(columns: Mapping[str, Sequence[str]]) -> str:
    """Return a file of comma-separated values, given its columns by their heads."""
    return str(data(heads, lambda records: as_rows([*columns], zip(*columns.values(), strict=True)))(()))

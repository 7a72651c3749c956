"""Problems of drawn settings, made once for all environments of a process, and the units of their rewards."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from memplace_env._lib.array_rows import row_of
from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described
from memplace_env._lib.units import PS
from memplace_env.envs.many.setting import Setting, known_settings
from memplace_env.envs.registration import Formulation
from memplace_env.placement.synthetic import planted_optimum_ps
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints

Problem = TypeVar("Problem")

UNITS: Final = ("gain", "percent")
"""Names of the units of rewards: percent of the best cheap plan's gain, and of the all-backing latency."""
MOST_LOADED: Final = 256
"""Programs of a formulation that stay loaded in a process, the least recently drawn leaving first; our choice.

The largest of the lists takes 2 MB with its tables, so all take less than half a gigabyte.
"""
LEAST_GAIN: Final = 0.01
"""Least gain that is a unit, as a fraction of the latency with everything in the backing memory; our choice."""


@dataclass(frozen=True, eq=False)
class Drawn(Generic[Problem]):
    """The problem of a setting, with what rewards, infos and kernels need.

    Attributes:
        setting: the setting.
        problem: its problem.
        parts: NamedTuples of arrays and scalars that kernels read.
        rows: their rows, see `row_of`.
        backing_ps: latency with everything in the backing memory, ps.
        gain: what the best cheap plan saves of it, or a planted optimum, as a fraction; at least `LEAST_GAIN`.
        optimal_s: latency of a planted optimum, seconds; None where none is known.
    """

    setting: Setting
    problem: Problem
    parts: tuple[tuple[Any, ...], ...]
    rows: tuple[Ints, ...]
    backing_ps: int
    gain: float
    optimal_s: float | None

    def scale(self, unit: str) -> float:
        """Return the factor of rewards from fractions of the all-backing latency to a unit of `UNITS`."""
        return 100.0 / self.gain if unit == "gain" else 100.0

    def optimum(self, unit: str) -> dict[str, float]:
        """Return `optimal_latency_s` and `optimal_return` of infos; NaN where no optimum is known."""
        latency_s = math.nan if self.optimal_s is None else self.optimal_s
        return {
            "optimal_latency_s": latency_s,
            "optimal_return": self.scale(unit) * (1 - latency_s / (self.backing_ps * PS)),
        }


def drawn_problem(
    setting: Setting,
    formulation: Formulation,
    problem: Problem,
    parts: tuple[tuple[Any, ...], ...],
    backing_ps: int,
    task: Task,
    cheap_s: Callable[[], float],
) -> Drawn[Problem]:
    """Return a setting's problem as environments share it.

    Args:
        setting: the setting.
        formulation: whose list of settings has the best cheap plan.
        problem, parts, task: the problem, what kernels read of it, and its task.
        backing_ps: latency with everything in the backing memory, ps.
        cheap_s: returns the latency of the best cheap plan in seconds, for settings that are not in the list.
    """
    optimum_ps = planted_optimum_ps(task)
    optimal_s = None if optimum_ps is None else optimum_ps * PS
    known = known_settings(formulation).get(setting)
    best_s = known.cheap_s if known else cheap_s() if optimal_s is None else optimal_s
    gain = max(1 - best_s / (backing_ps * PS), LEAST_GAIN)
    return Drawn(setting, problem, parts, tuple(map(row_of, parts)), backing_ps, gain, optimal_s)


def checked_unit(name: Any) -> str:
    """Return the name of a unit of rewards.

    Raises:
        EnvError: if it is none.
    """
    if not isinstance(name, str) or name not in UNITS:
        raise EnvError(f"reward must be one of {', '.join(UNITS)}, not {described(name)}.")
    return name

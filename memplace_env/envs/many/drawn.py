"""Problems of drawn settings, made once for all environments of a process, and the units of their rewards."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic

from memplace_env._lib.units import PS
from memplace_env.envs.batch.batch import Problem
from memplace_env.envs.many.setting import Setting, known_settings
from memplace_env.envs.registration import Formulation
from memplace_env.placement.synthetic import planted_optimum_ps

MOST_LOADED: Final = 256
"""Programs of a formulation that stay loaded in a process, the least recently drawn leaving first; our choice.

The largest of the lists takes 2 MB with its tables, so all take less than half a gigabyte.
"""
LEAST_GAIN: Final = 0.01
"""Least gain that is a unit, as a fraction of the latency with everything in the backing memory; our choice."""


@dataclass(frozen=True, eq=False)
class Drawn(Generic[Problem]):
    """The problem of a setting, with what rewards and infos need.

    Attributes:
        setting: the setting.
        problem: its problem, shared by all environments of the process.
        gain: what the best cheap plan saves of the latency with everything in the backing memory, or what a planted
            optimum saves, as a fraction; at least `LEAST_GAIN`.
        optimal_s: latency of a planted optimum, seconds; NaN where none is known.
    """

    setting: Setting
    problem: Problem
    gain: float
    optimal_s: float


def drawn_problem(
    setting: Setting, formulation: Formulation, problem: Problem, cheap_s: Callable[[], float]
) -> Drawn[Problem]:
    """Return a setting's problem as environments share it.

    Args:
        setting: the setting.
        formulation: whose list of settings has the best cheap plan.
        problem: the problem.
        cheap_s: returns the latency of the best cheap plan in seconds, for settings that are not in the list.
    """
    optimum_ps = planted_optimum_ps(problem.task)
    optimal_s = math.nan if optimum_ps is None else optimum_ps * PS
    known = known_settings(formulation).get(setting)
    best_s = known.cheap_s if known else cheap_s() if optimum_ps is None else optimal_s
    gain = max(1 - best_s / (problem.all_backing_ps * PS), LEAST_GAIN)
    return Drawn(setting, problem, gain, optimal_s)

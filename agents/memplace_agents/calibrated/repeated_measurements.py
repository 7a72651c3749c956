"""The plans that were measured, how often, and what a fitted model and the measurements together say of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memplace_agents.calibrated.cost_factors import Floats, PlanTerms
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import Report

MODEL_SIGMA = 0.01
"""Relative error of a fitted model, beside the noise of measurements. Our choice."""
NOISE_GUESS, NOISE_WEIGHT = 0.03, 4
"""Relative standard deviation of a measurement before any plan is measured twice, and the number of repeated
measurements that the guess counts as. Our choice."""


@dataclass(eq=False)
class MeasuredPlan:
    """A plan and its measurements.

    Attributes:
        plan: the plan.
        terms: its terms by nominal costs.
        report: report of its first measurement.
        logs: logarithm of each latency in ps.
    """

    plan: MemoryPlan
    terms: PlanTerms
    report: Report
    logs: list[float]

    @property
    def mean_log(self) -> float:
        """Mean of the logarithms."""
        return float(np.mean(self.logs))


class Measurements:
    """All plans that were measured, each once, in the order of their first measurements.

    Args:
        noise: relative standard deviation of a measurement: 0 for none, None for an unknown one.
    """

    def __init__(self, noise: float | None) -> None:
        self._noise = noise
        self._by_key: dict[str, MeasuredPlan] = {}

    @property
    def plans(self) -> list[MeasuredPlan]:
        """The plans."""
        return list(self._by_key.values())

    @property
    def count(self) -> int:
        """Number of measurements."""
        return sum(len(plan.logs) for plan in self._by_key.values())

    def get(self, plan: MemoryPlan) -> MeasuredPlan | None:
        """Return what is known of a plan; None if it was never measured."""
        return self._by_key.get(plan.to_json())

    def add(self, measured: MeasuredPlan) -> None:
        """Add the first measurement of a plan."""
        self._by_key[measured.plan.to_json()] = measured

    @property
    def noise(self) -> float:
        """Relative standard deviation of a measurement; if it is unknown, from plans that were measured repeatedly."""
        if self._noise is not None:
            return self._noise
        repeated = [plan.logs for plan in self._by_key.values() if len(plan.logs) > 1]
        squares = sum(len(logs) * float(np.var(logs)) for logs in repeated) + NOISE_WEIGHT * NOISE_GUESS**2
        return float(np.sqrt(squares / (sum(len(logs) - 1 for logs in repeated) + NOISE_WEIGHT)))

    def variances(self) -> Floats:
        """Return float64[N], variance of each plan's mean logarithm around what a model says of it."""
        noise = self.noise
        return np.array([MODEL_SIGMA**2 + noise**2 / len(plan.logs) for plan in self._by_key.values()])

    def estimates(self, modelled: Floats) -> Floats:
        """Return float64[N], the expected logarithm of each plan's latency.

        A model is wrong by a constant of each plan with the deviation `MODEL_SIGMA`. Without noise the estimate is the
        measurement; with it, it is the nearer to the model, the fewer measurements there are.

        Args:
            modelled: float64[N], logarithms of latencies by the model.
        """
        means = np.array([plan.mean_log for plan in self._by_key.values()])
        return np.asarray(modelled + MODEL_SIGMA**2 / self.variances() * (means - modelled))

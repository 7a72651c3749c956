"""Cost arrays with unknown factors, fitted to measured plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from memplace_env.machine.costs import Costs, op_times
from memplace_env.machine.costs.op_time_kernels import used_by_level
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator.builtin import CopyDemands, ordered_copies
from memplace_env.placement.simulator.deadline_kernel import run_transfers
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints

Floats = NDArray[np.float64]

LEAST_SHARE = 0.01
"""Types of ops that take less than this share of the time with everything in the backing memory have their factors in
common. Our choice."""
FACTOR_SIGMA = 0.3
"""Standard deviation of the logarithm of a factor before anything is measured; its mean is 0. Our choice."""
SCALE_SIGMA = 1.0
"""The same for the factor of the whole latency, which changes no choice between plans."""
STEP = 1e-4
"""Step of a factor's logarithm in derivatives."""
MOST_ROUNDS = 15
"""Evaluations of the Jacobian in one fit."""
LATENCY, PREFETCH, WRITEBACK, OTHERS = "latency", "prefetch", "write-back", "other types"
"""Names of factors, and of the small types of ops together."""


class PlanTerms(NamedTuple):
    """Parts of a plan's latency by nominal costs.

    Attributes:
        used_ps: float64[T, L], time that the op's uses keep each level's port busy.
        copies: the copies in the order of their deadlines; their demands are nominal.
        prefetch: bool[M], whether each brings a tensor into fast memory, or else writes it back.
    """

    used_ps: Floats
    copies: CopyDemands
    prefetch: NDArray[np.bool_]


class FittedFactors(NamedTuple):
    """Logarithms of the factors: a normal distribution, after measurements the Laplace approximation.

    Attributes:
        mean: float64[P], the most probable ones.
        precision: float64[P, P], inverse covariance.
    """

    mean: Floats
    precision: Floats

    @property
    def covariance(self) -> Floats:
        """The inverse of the precision, float64[P, P]."""
        return np.asarray(np.linalg.inv(self.precision))

    def drawn(self, rng: np.random.Generator) -> Floats:
        """Return float64[P], a sample of the approximate posterior, as Thompson sampling needs it."""
        lower = np.linalg.cholesky(self.precision)
        return np.asarray(self.mean + np.linalg.solve(lower.T, rng.standard_normal(len(self.mean))))


class CostFactors:
    """Latency as a function of factors: of the whole, of each type of op's compute time, of the uses of each type of op
    at each level, of prefetches and of write-backs. Plans are timed by the rules of `time_plan`.

    Bayesian linear regression in the logarithms, with the rules as they bend in between: nonlinear least squares of the
    relative errors with a normal prior, around factors of 1 unless a machine model says otherwise.

    Args:
        task: the task; its simulator is not asked.
        prior: returns what is known of factors by their names, see `MachineModel.prior`; None: around 1.

    Attributes:
        names: the P factors: `LATENCY`, "compute TYPE", "use TYPE LEVEL", `PREFETCH` and `WRITEBACK`; the type of the
            small types together is `OTHERS`.
        prior: what is known of them before anything is measured.
    """

    def __init__(self, task: Task, prior: Callable[[tuple[str, ...]], FittedFactors] | None = None) -> None:
        self.task, program, costs = task, task.program, task.costs
        levels = task.accelerator.num_levels
        busy = costs.work_ps + np.bincount(program.use_op, costs.use_ps[:, -1], minlength=program.num_ops)
        names, number = np.unique(np.array(program.op_type), return_inverse=True)
        large = np.bincount(number, weights=busy, minlength=len(names)) >= LEAST_SHARE * busy.sum()
        kinds = np.where(large, np.cumsum(large) - 1, large.sum())
        self._kind: Ints = kinds[number]
        self._kinds, self._levels = int(kinds.max()) + 1, levels
        types = [*names[large], OTHERS][: self._kinds]
        compute, uses = (
            (f"compute {name}" for name in types),
            (f"use {name} {level}" for name in types for level in range(levels)),
        )
        self.names = (LATENCY, *compute, *uses, PREFETCH, WRITEBACK)
        self.prior = (prior or nominal_prior)(self.names)
        self._root = np.linalg.cholesky(self.prior.precision).T

    def terms(self, plan: MemoryPlan) -> PlanTerms:
        """Return the terms of a valid plan."""
        program, costs = self.task.program, self.task.costs
        copies = ordered_copies(self.task, plan)
        used = used_by_level(program.use_ptr, plan.use_level, costs.use_ps)
        return PlanTerms(used.astype(np.float64), copies, plan.transfers[copies.transfer, 1] == self.task.backing)

    def latency_ps(self, plans: list[PlanTerms], theta: Floats) -> Floats:
        """Return the latencies float64[N] of plans under the factors exp(theta)."""
        costs = self.task.costs
        compute, uses, copy = self._parts(theta)
        # Real picoseconds, so that the fit sees small steps of a factor.
        compute_ps: Any = costs.compute_ps * compute
        overhead_ps: Any = costs.overhead_ps * compute
        used_ps: Any = np.stack([plan.used_ps for plan in plans]) * uses
        times = op_times(costs._replace(compute_ps=compute_ps, overhead_ps=overhead_ps), used_ps)
        latency = times.op_ps.sum(axis=1)
        for row, plan in enumerate(plans):
            if len(plan.copies.start):
                leftover = np.maximum(times.op_ps[row] - times.port_ps[row, :, -1], 0).astype(np.int64)
                demand = (plan.copies.demand_ps * np.where(plan.prefetch, copy[0], copy[1])).astype(np.int64)
                stall, tail, _ = run_transfers(leftover, plan.copies.start, plan.copies.end, demand)
                latency[row] += stall.sum() + tail
        return np.asarray(latency * np.exp(theta[0]))

    def fit(
        self, plans: list[PlanTerms], log_ps: Floats, variances: Floats, start: Floats | None = None
    ) -> FittedFactors:
        """Return the factors that explain measured latencies.

        Args:
            plans: N plans.
            log_ps: float64[N], logarithms of their measured latencies in ps.
            variances: float64[N], of each logarithm around what the model says.
            start: where the search begins; None: the prior's mean.
        """
        sigma = np.sqrt(variances)

        def residuals(theta: Floats) -> Floats:
            errors = (np.log(self.latency_ps(plans, theta)) - log_ps) / sigma
            return np.concatenate([errors, self._root @ (theta - self.prior.mean)])

        if start is None:
            start = self.prior.mean
        # The factor of the whole is known up to the others: it begins where the mean error is 0.
        start = start.copy()
        start[0] -= float(np.mean(np.log(self.latency_ps(plans, start)) - log_ps))
        found: Any = least_squares(residuals, start, method="trf", diff_step=[STEP], max_nfev=MOST_ROUNDS)
        return FittedFactors(found.x, found.jac.T @ found.jac)

    def log_ratio(self, one: PlanTerms, other: PlanTerms, factors: FittedFactors) -> tuple[float, float]:
        """Return the logarithm of one plan's latency over another's, and the variance that the factors give it."""

        def ratio(theta: Floats) -> float:
            first, second = np.log(self.latency_ps([one, other], theta))
            return float(first - second)

        steps = np.eye(len(self.names)) * STEP
        slope = np.array([ratio(factors.mean + step) - ratio(factors.mean - step) for step in steps]) / (2 * STEP)
        return ratio(factors.mean), float(slope @ factors.covariance @ slope)

    def costs(self, theta: Floats) -> Costs:
        """Return the cost arrays with the factors exp(theta), but for the one of the whole."""
        costs, program = self.task.costs, self.task.program
        compute, uses, copy = self._parts(theta)
        return costs._replace(
            compute_ps=_times(costs.compute_ps, compute),
            overhead_ps=_times(costs.overhead_ps, compute),
            use_ps=np.maximum(_times(costs.use_ps, uses[program.use_op]), 1),
            prefetch_ps=_times(costs.prefetch_ps, copy[0]),
            writeback_ps=_times(costs.writeback_ps, copy[1]),
        )

    def _parts(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the factors of compute float64[T], uses float64[T, L], and prefetch and write-back float64[2]."""
        factors = np.exp(theta[1:])
        of_compute, of_use = factors[: self._kinds], factors[self._kinds : -2].reshape(self._kinds, self._levels)
        return of_compute[self._kind], of_use[self._kind], factors[-2:]


def nominal_prior(names: tuple[str, ...]) -> FittedFactors:
    """Return the prior of factors by their names where nothing is known of the machine: all around 1."""
    sigma = np.array([SCALE_SIGMA if name == LATENCY else FACTOR_SIGMA for name in names])
    return FittedFactors(np.zeros(len(names)), np.diag(sigma**-2))


def _times(ps: Ints, factor: Floats | np.float64) -> Ints:
    return np.asarray(np.rint(ps * factor)).astype(np.int64)

"""Cost arrays with unknown factors, fitted to measured plans."""

from __future__ import annotations

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
MOST_ROUNDS = 15
"""Evaluations of the Jacobian in one fit."""


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
    """Logarithms of the factors: the most probable ones, and the precision of the Laplace approximation around them.

    Attributes:
        mean: float64[P].
        precision: float64[P, P], inverse covariance.
    """

    mean: Floats
    precision: Floats

    def drawn(self, rng: np.random.Generator) -> Floats:
        """Return float64[P], a sample of the approximate posterior, as Thompson sampling needs it."""
        lower = np.linalg.cholesky(self.precision)
        return np.asarray(self.mean + np.linalg.solve(lower.T, rng.standard_normal(len(self.mean))))


class CostFactors:
    """Latency as a function of factors: of the whole, of each type of op's compute time, of the uses of each type of op
    at each level, of prefetches and of write-backs. Plans are timed by the rules of `time_plan`.

    Bayesian linear regression in the logarithms, with the rules as they bend in between: nonlinear least squares of the
    relative errors with a normal prior around factors of 1.

    Args:
        task: the task; its simulator is not asked.

    Attributes:
        size: P, number of factors.
    """

    def __init__(self, task: Task) -> None:
        self.task, program, costs = task, task.program, task.costs
        levels = task.accelerator.num_levels
        busy = costs.work_ps + np.bincount(program.use_op, costs.use_ps[:, -1], minlength=program.num_ops)
        names, number = np.unique(np.array(program.op_type), return_inverse=True)
        large = np.bincount(number, weights=busy, minlength=len(names)) >= LEAST_SHARE * busy.sum()
        kinds = np.where(large, np.cumsum(large) - 1, large.sum())
        self._kind: Ints = kinds[number]
        self._kinds, self._levels = int(kinds.max()) + 1, levels
        self.size = 1 + self._kinds * (1 + levels) + 2
        self._sigma = np.full(self.size, FACTOR_SIGMA)
        self._sigma[0] = SCALE_SIGMA

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
            start: where the search begins; None: factors of 1.
        """
        sigma = np.sqrt(variances)

        def residuals(theta: Floats) -> Floats:
            errors = (np.log(self.latency_ps(plans, theta)) - log_ps) / sigma
            return np.concatenate([errors, theta / self._sigma])

        if start is None:
            start = np.zeros(self.size)
        # The factor of the whole is known up to the others: it begins where the mean error is 0.
        start = start.copy()
        start[0] -= float(np.mean(np.log(self.latency_ps(plans, start)) - log_ps))
        found: Any = least_squares(residuals, start, method="trf", diff_step=[1e-4], max_nfev=MOST_ROUNDS)
        return FittedFactors(found.x, found.jac.T @ found.jac)

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


def _times(ps: Ints, factor: Floats | np.float64) -> Ints:
    return np.asarray(np.rint(ps * factor)).astype(np.int64)

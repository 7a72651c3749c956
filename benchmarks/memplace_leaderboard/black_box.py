"""The machine `factors` of black-box tracks: its costs differ from the cost arrays, and its measurements are noisy."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np

from memplace_env._lib.errors import SimulatorError
from memplace_env._lib.units import PS
from memplace_env.envs.wrappers.measurement_noise import noise_factors
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.costs import Costs, KnownCosts, costs_of
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import BuiltinSimulator, Report, time_plan
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints, Program

SIGMA = 0.3
"""Standard deviation of the logarithm of each cost factor; our choice."""
FARTHEST = 4.0
"""Standard deviations beyond which no factor is drawn, so that no cost outgrows int64."""
UNIT_BITS = 10
"""Factors are whole multiples of 2**-10, so that machines with other math libraries draw the same."""
WAIT_PART = 4
"""The second of two neighbouring ops waits for 1 / `WAIT_PART` of the shorter of their times at a port; our choice."""


class BlackBox:
    """A simulator of a machine whose cost arrays are unknown to agents: it only measures how long a plan takes.

    The machine. Each nominal cost is multiplied by a factor and rounded down: the time of a use by that of (type of
    its op, level), compute and overhead of an op by that of its type, the latency of a level by the level's, prefetches
    and write-backs by one each. A factor is exp(0.3 z) with z standard normal, drawn from the SHA-256 of the seed and
    the factor's name, so that it is the same in every program. A plan is then timed by the rules of `time_plan`, and
    neighbouring ops delay each other besides:

        wait(t, l) = 0.25 min(p(t-1, l), p(t, l)) if 2 p(t-1, l) > d(t-1), else 0;    wait(t) = max over l of wait(t, l)
        latency = latency by the distorted costs + sum over t of wait(t)

    with p(t, l) the time that op t keeps the port of level l busy and d(t) that of the op. Copies do not run during
    waits. Waits are no sum over uses; as they are never negative, a bound for all plans without waits is one with them.

    Noise. Each measurement is multiplied by a log-normal factor of mean 1, drawn in the order of the measurements. A
    noisy box reports nothing but latency and energy (static power over that latency): with the times of ops as well,
    two reports would separate the noise from the plan.

    The nominal costs are those that the plan's settings name, else the chip's. Everything here is our own choice.

    Args:
        seed: seed of the machine's factors.
        noise: relative standard deviation of measurements, from 0 to 1.
        noise_seed: seed of the noise.
        delay_s: seconds that each measurement sleeps.

    Attributes:
        measured: number of plans measured so far.

    Raises:
        SimulatorError: if noise or delay is out of range.
    """

    def __init__(self, seed: int = 0, noise: float = 0.0, noise_seed: int = 0, delay_s: float = 0.0) -> None:
        if not 0 <= noise <= 1:
            raise SimulatorError(f"noise is a relative standard deviation from 0 to 1, not {noise}.")
        if not 0 <= delay_s < math.inf:
            raise SimulatorError(f"delay_s must be at least 0 and finite, not {delay_s}.")
        self.seed, self.noise, self.noise_seed, self.delay_s = seed, noise, noise_seed, delay_s
        self.measured = 0
        self._random = np.random.default_rng(noise_seed)
        self._nominal = BuiltinSimulator()

    @property
    def noisy(self) -> bool:
        """True if measurements of one plan differ."""
        return self.noise > 0

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Measure a valid plan."""
        time.sleep(self.delay_s)
        task = self.additive_task(self._nominal.task_of(program, accelerator, plan))
        return self.disturbed(with_waits(time_plan(task, plan), accelerator), accelerator)

    def run_batch(self, program: Program, accelerator: Accelerator, plans: Sequence[MemoryPlan]) -> list[Report]:
        """Measure plans one after the other."""
        return [self.run(program, accelerator, plan) for plan in plans]

    def exact(self) -> BlackBox:
        """Return the same machine without noise, with the same delay."""
        return BlackBox(self.seed, delay_s=self.delay_s)

    def disturbed(self, report: Report, accelerator: Accelerator) -> Report:
        """Return the next measurement of a plan, from its report by `exact`."""
        self.measured += 1
        if not self.noisy:
            return report
        factor = noise_factors(self._random, self.noise, 1).item()
        return latency_only(report, max(round(report.latency_ps * factor), 1), accelerator)

    def additive_task(self, task: Task) -> Task:
        """Return the task under the machine's costs, without waits: a bound for its plans is one for the machine's.

        For maintainers of the leaderboard; not for agents.

        Args:
            task: the task under the costs that its plans name.
        """
        return distorted_task(task, self.seed)

    def __getstate__(self) -> dict[str, Any]:
        """Copy all but the cached tables of programs: a copy continues the measurements as this one would."""
        return self.__dict__ | {"_nominal": BuiltinSimulator()}


@derived
def distorted_task(task: Task, seed: int) -> Task:
    """Return the task under the costs of the machine with this seed, see `BlackBox`."""
    model = KnownCosts(_distorted(task, seed), task.program, task.accelerator)
    costs = costs_of(model, task.program, task.accelerator)
    return Task(task.program, task.accelerator, costs, settings=task.settings)


def _distorted(task: Task, seed: int) -> Costs:
    """Return the machine's costs."""
    program, costs, levels = task.program, task.costs, range(task.accelerator.num_levels)
    types = sorted(set(program.op_type))
    of_type = {name: _factor(seed, "compute", name) for name in types}
    of_use = {name: [_factor(seed, "use", name, level) for level in levels] for name in types}
    compute = np.array([of_type[name] for name in program.op_type])
    use = np.array([of_use[name] for name in program.op_type])[program.use_op]
    return costs._replace(
        compute_ps=_scaled(costs.compute_ps, compute),
        overhead_ps=_scaled(costs.overhead_ps, compute),
        use_ps=np.maximum(_scaled(costs.use_ps, use), 1),
        latency_ps=_scaled(costs.latency_ps, np.array([_factor(seed, "latency", level) for level in levels])),
        prefetch_ps=_scaled(costs.prefetch_ps, _factor(seed, "prefetch")),
        writeback_ps=_scaled(costs.writeback_ps, _factor(seed, "writeback")),
    )


def _factor(seed: int, *name: str | int) -> int:
    """Return a log-normal factor of median 1, in units of 2**-10."""
    digest = hashlib.sha256(repr((seed, *name)).encode()).digest()
    uniform = (int.from_bytes(digest[:6]) + 0.5) / 2**48
    z = min(max(NormalDist().inv_cdf(uniform), -FARTHEST), FARTHEST)
    return round(math.exp(SIGMA * z) * (1 << UNIT_BITS))


def _scaled(ps: Ints, factor: Ints | int) -> Ints:
    """Return ps times the factor, rounded down, computed in two parts, so that the product fits int64."""
    high, low = ps >> UNIT_BITS, ps & ((1 << UNIT_BITS) - 1)
    return np.asarray(high * factor + (low * factor >> UNIT_BITS))


def latency_only(report: Report, latency_ps: int, accelerator: Accelerator) -> Report:
    """Return a report with this latency that says nothing of ops, ports and bounds."""
    unknown = np.zeros_like(report.op_time_ps)
    return replace(
        report,
        latency_ps=latency_ps,
        op_time_ps=unknown,
        compute_ps=unknown,
        port_ps=np.zeros_like(report.port_ps),
        stall_ps=unknown,
        tail_ps=0,
        bound_by=np.full_like(report.bound_by, -1),
        energy_j=_energy_j(report, latency_ps, accelerator),
        traffic_bound_ps=1,
    )


def with_waits(report: Report, accelerator: Accelerator) -> Report:
    """Add to the time of each op its wait for the op before; see `BlackBox`."""
    port, op = report.port_ps, report.op_time_ps
    hogged = 2 * port[:-1] > op[:-1, None]
    waits = np.where(hogged, np.minimum(port[:-1], port[1:]), 0).max(axis=1, initial=0)
    waited = op.copy()
    waited[1:] += waits // WAIT_PART
    latency = report.latency_ps + int((waited - op).sum())
    energy = _energy_j(report, latency, accelerator)
    return replace(report, op_time_ps=waited, latency_ps=latency, energy_j=energy)


def _energy_j(report: Report, latency_ps: int, accelerator: Accelerator) -> float:
    """Return the report's energy in joules with another latency."""
    return report.energy_j + accelerator.static_power_w * (latency_ps - report.latency_ps) * PS

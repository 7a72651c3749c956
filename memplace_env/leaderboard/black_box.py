"""The machine of the black-box tracks: another one than the cost arrays say, and noisy."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.costs import Costs, KnownCosts, costs_of
from memplace_env.errors import SimulatorError
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import BuiltinSimulator, Report, time_plan
from memplace_env.task import Task, derived
from memplace_env.units import PS
from memplace_env.workload.program import Ints, Program
from memplace_env.wrappers.measurement_noise import noise_factors

SIGMA = 0.3
"""Standard deviation of the logarithm of each cost factor; our choice."""
FARTHEST = 4.0
"""Standard deviations beyond which no factor is drawn, so that no cost outgrows int64."""
UNIT_BITS = 10
"""Factors are whole multiples of 2**-10, so that machines with other math libraries draw the same."""
WAIT_PART = 4
"""The second of two neighbours waits for a quarter of the shorter of their times at one port; our choice."""


class BlackBox:
    """A simulator of a machine that nobody has the cost arrays of; it is run, and says how long that took.

    The machine. Each nominal cost is multiplied by a factor and rounded down: the time of a use by that of (type of
    its op, level), compute and overhead of an op by that of its type, the latency of a level by the level's, prefetches
    and write-backs by one each. A factor is exp(0.3 z) with z standard normal, drawn from the SHA-256 of seed and what
    it belongs to, so that it is the same in every program. A plan is then timed by the rules of `time_plan`, and
    neighbouring ops get in each other's way besides:

        wait(t, l) = 0.25 min(p(t-1, l), p(t, l)) if 2 p(t-1, l) > d(t-1), else 0;    wait(t) = max over l of wait(t, l)
        latency = latency by the distorted costs + sum over t of wait(t)

    with p(t, l) the time that op t keeps the port of level l busy and d(t) that of the op. Copies make no use of waits.
    No sum over uses says this, and as waits are never negative, what holds for every plan without them is a bound.

    Noise. Each measurement is multiplied by a log-normal factor of mean 1, drawn in the order of the measurements. A
    noisy box tells nothing but latency and energy (static power over that latency): with the time of an op beside it,
    two reports would tell the noise from the plan.

    The nominal costs are those that the plan's settings name, else the chip's. Everything here is our own choice.

    Args:
        seed: of the machine.
        noise: relative standard deviation of measurements, from 0 to 1.
        noise_seed: of the noise.
        delay_s: seconds that each measurement takes besides.

    Attributes:
        measured: plans measured so far.

    Raises:
        SimulatorError: if noise or delay make no sense.
    """

    def __init__(self, seed: int = 0, noise: float = 0.0, noise_seed: int = 0, delay_s: float = 0.0) -> None:
        if not 0 <= noise <= 1:
            raise SimulatorError(f"Noise is a relative standard deviation; pass 0 to 1, not {noise}.")
        if not 0 <= delay_s < math.inf:
            raise SimulatorError(f"A delay of {delay_s} s makes no sense; pass 0 or more seconds.")
        self.seed, self.noise, self.noise_seed, self.delay_s = seed, noise, noise_seed, delay_s
        self.measured = 0
        self._random = np.random.default_rng(noise_seed)
        self._nominal = BuiltinSimulator()

    @property
    def noisy(self) -> bool:
        """Whether a plan that is measured again gets another latency."""
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
        """The same machine without noise, as slow."""
        return BlackBox(self.seed, delay_s=self.delay_s)

    def disturbed(self, report: Report, accelerator: Accelerator) -> Report:
        """The next measurement of a plan that `exact` says this of."""
        self.measured += 1
        if not self.noisy:
            return report
        factor = noise_factors(self._random, self.noise, 1).item()
        latency = max(round(report.latency_ps * factor), 1)
        unknown, none = np.zeros_like(report.op_time_ps), np.full_like(report.bound_by, -1)
        return replace(
            report,
            latency_ps=latency,
            op_time_ps=unknown,
            compute_ps=unknown,
            port_ps=np.zeros_like(report.port_ps),
            stall_ps=unknown,
            tail_ps=0,
            bound_by=none,
            energy_j=_energy_j(report, latency, accelerator),
            traffic_bound_ps=1,
        )

    def additive_task(self, task: Task) -> Task:
        """The task under the machine's costs, without waits: what is a bound there is one here.

        For those who keep the box, and want to know its truth; not for agents.

        Args:
            task: under the costs that its plans name.
        """
        return _additive_task(task, self.seed)

    def __getstate__(self) -> dict[str, Any]:
        """A copy measures on as this one would; it makes the tables of its programs anew."""
        return self.__dict__ | {"_nominal": BuiltinSimulator()}


@derived
def _additive_task(task: Task, seed: int) -> Task:
    known = KnownCosts(_distorted(task, seed), task.program, task.accelerator)
    costs = costs_of(known, task.program, task.accelerator)
    return Task(task.program, task.accelerator, costs, settings=task.settings)


def _distorted(task: Task, seed: int) -> Costs:
    """The machine's costs."""
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


def _factor(seed: int, *what: str | int) -> int:
    """A log-normal factor of median 1, in units of 2**-10."""
    digest = hashlib.sha256(repr((seed, *what)).encode()).digest()
    uniform = (int.from_bytes(digest[:6]) + 0.5) / 2**48
    z = min(max(NormalDist().inv_cdf(uniform), -FARTHEST), FARTHEST)
    return round(math.exp(SIGMA * z) * (1 << UNIT_BITS))


def _scaled(ps: Ints, factor: Ints | int) -> Ints:
    """ps times the factor, rounded down, in two parts, so that the product fits int64."""
    high, low = ps >> UNIT_BITS, ps & ((1 << UNIT_BITS) - 1)
    return np.asarray(high * factor + (low * factor >> UNIT_BITS))


def with_waits(report: Report, accelerator: Accelerator) -> Report:
    """The report with what each op waits for its neighbour, as part of the op's time; see `BlackBox`."""
    port, op = report.port_ps, report.op_time_ps
    hogged = 2 * port[:-1] > op[:-1, None]
    waits = np.where(hogged, np.minimum(port[:-1], port[1:]), 0).max(axis=1, initial=0)
    waited = op.copy()
    waited[1:] += waits // WAIT_PART
    latency = report.latency_ps + int((waited - op).sum())
    energy = _energy_j(report, latency, accelerator)
    return replace(report, op_time_ps=waited, latency_ps=latency, energy_j=energy)


def _energy_j(report: Report, latency_ps: int, accelerator: Accelerator) -> float:
    """Joules, had the plan taken another latency."""
    return report.energy_j + accelerator.static_power_w * (latency_ps - report.latency_ps) * PS

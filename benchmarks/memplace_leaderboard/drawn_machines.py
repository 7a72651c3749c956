"""Machines of tracks whose seed is drawn when a run is judged, and what an agent can measure of them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import sha256
from typing import Final

import numpy as np

from memplace_env.envs.wrappers.measurement_noise import noise_factors
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.accelerator.event_description import Mechanisms, Tiles
from memplace_env.machine.costs import KnownCosts
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import BuiltinSimulator, Report
from memplace_env.placement.simulator.event import EventSimulator
from memplace_env.placement.task import Task
from memplace_env.program.program import Program
from memplace_leaderboard.black_box import BlackBox, distorted_task, latency_only

SEED_BITS: Final = 62
"""Random bits of a machine's seed: too many to be guessed."""
LOCAL_PART: Final = 8
"""A chip without tiles holds them in 1 / `LOCAL_PART` of its fastest memory's bytes. Our choice."""
OPS_IN_FLIGHT: Final = 2
"""Ops in flight on a chip without tiles. Our choice, as for the chips that have them."""


class EventMachine:
    """A machine whose tiles, copies and memories wait for each other, with costs that only its seed says.

    The costs are those of `BlackBox`: each nominal cost is multiplied by a factor that is random with the seed. They
    are not added up; the event simulator runs them. The mechanisms are those of the chip's description, but for the
    number of tile buffers. A chip without tiles gets some, whose bytes are 1 / `LOCAL_PART` of its fastest memory's;
    copy engines and DRAM banks are on where the chip has them.

    Args:
        seed: seed of the factors.
        buffers: tile buffers.
    """

    def __init__(self, seed: int, buffers: int) -> None:
        self.seed, self.buffers = seed, buffers
        self._nominal = BuiltinSimulator()
        self._last: tuple[Task, EventSimulator] | None = None

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Time a valid plan, without noise."""
        return self.run_batch(program, accelerator, [plan])[0]

    def run_batch(self, program: Program, accelerator: Accelerator, plans: Sequence[MemoryPlan]) -> list[Report]:
        """Time valid plans of one task, without noise."""
        if not plans:
            return []
        task = self.additive_task(self._nominal.task_of(program, accelerator, plans[0]))
        if self._last is None or self._last[0] is not task:
            costs = KnownCosts(task.costs, program, accelerator)
            self._last = task, EventSimulator(costs, tiled_mechanisms(accelerator, self.buffers))
        return self._last[1].run_batch(program, accelerator, plans)

    def additive_task(self, task: Task) -> Task:
        """Return the task under the machine's costs, without events. For the judge; not for agents."""
        return distorted_task(task, self.seed)


def tiled_mechanisms(accelerator: Accelerator, buffers: int) -> Mechanisms:
    """Return the mechanisms of a chip, with tiles in a number of buffers, as `EventMachine` describes them."""
    own = accelerator.mechanisms
    tiles = own.tiles or Tiles(buffers, accelerator.levels[0].capacity_bytes // LOCAL_PART, OPS_IN_FLIGHT)
    return replace(own, tiles=replace(tiles, buffers=buffers))


DrawnMachine = BlackBox | EventMachine
MACHINES: Final[Mapping[str, Callable[[int], DrawnMachine]]] = {
    "event-1": partial(EventMachine, buffers=1),
    "event-2": partial(EventMachine, buffers=2),
    "factors": BlackBox,
}
"""Machines by name, made of a seed: events with one and with two tile buffers; factors and waits, added up."""


@lru_cache(maxsize=16)
def drawn_machine(name: str, seed: int) -> DrawnMachine:
    """Return a machine without noise; shared, as it caches the costs of its last program."""
    return MACHINES[name](seed)


def draw_seeds(count: int) -> tuple[int, ...]:
    """Draw the seeds of machines from the operating system's randomness."""
    return tuple(secrets.randbits(SEED_BITS) for _ in range(count))


class MeasuredMachine:
    """The simulator that an agent meets: it runs plans on a machine and reports latency and energy, and no more.

    Args:
        machine: the machine, without noise.
        noise: relative standard deviation of a measurement: a log-normal factor of mean 1, drawn in their order.
        noise_seed: seed of the noise.

    Attributes:
        measured: number of measurements so far; without noise, a plan that was measured before costs none.
    """

    def __init__(self, machine: DrawnMachine, noise: float, noise_seed: int) -> None:
        self._machine, self._noise, self._random = machine, noise, np.random.default_rng(noise_seed)
        self._seen: set[bytes] = set()
        self.measured = 0

    @property
    def noisy(self) -> bool:
        """True if measurements of one plan differ."""
        return self._noise > 0

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Measure a valid plan."""
        return self.run_batch(program, accelerator, [plan])[0]

    def cost(self, plans: Sequence[MemoryPlan]) -> int:
        """Return by how much measuring these plans would raise `measured`."""
        return len(plans) if self.noisy else len(_digests(plans) - self._seen)

    def run_batch(self, program: Program, accelerator: Accelerator, plans: Sequence[MemoryPlan]) -> list[Report]:
        """Measure valid plans."""
        self.measured += self.cost(plans)
        if not self.noisy:
            self._seen |= _digests(plans)
        reports = self._machine.run_batch(program, accelerator, plans)
        factors = noise_factors(self._random, self._noise, len(plans)) if self.noisy else np.ones(len(plans))
        return [
            latency_only(report, max(round(report.latency_ps * factor), 1), accelerator)
            for report, factor in zip(reports, factors.tolist(), strict=True)
        ]


def _digests(plans: Sequence[MemoryPlan]) -> set[bytes]:
    return {sha256(plan.to_json().encode()).digest() for plan in plans}


def noise_seed(machine_seed: int, *run: str | int) -> int:
    """Return the seed of the noise of a run: it cannot be known before the machine's seed is drawn."""
    return int.from_bytes(sha256(repr((machine_seed, "noise", *run)).encode()).digest()[:8])

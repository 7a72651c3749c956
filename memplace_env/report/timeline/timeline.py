"""The times of ops, copies and resources: the simulators' rules again, with times instead of sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.machine.accelerator.event_description import NO_MECHANISMS, Mechanisms
from memplace_env.placement.simulator.builtin import ordered_copies
from memplace_env.placement.simulator.deadline_kernel import run_transfers
from memplace_env.placement.simulator.event import EventSimulator, EventSpans
from memplace_env.placement.simulator.event.event_state import COPY, ENGINE, LOAD, UNIT, WRITE
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan

KIND_NAMES = {LOAD: "loads", UNIT: "unit at work", WRITE: "stores", COPY: "copies", ENGINE: "an engine at a copy"}
TILES_SHOWN = 60
"""Tiles in the enlarged part of a picture. Our choice."""


class Lane(NamedTuple):
    """A resource that does one thing at a time.

    Attributes:
        name: of the resource, for people.
        spans: int64[N], rows of the spans in which it is at work, in order of time.
    """

    name: str
    spans: NDArray[np.int64]


def event_spans(task: Task, evaluated: EvaluatedPlan) -> EventSpans | None:
    """Return the spans of a plan if the task's simulator is the event simulator; else None."""
    if not isinstance(task.simulator, EventSimulator):
        return None
    return task.simulator.spans(task.program, task.accelerator, evaluated.plan)


def mechanisms_of(task: Task) -> Mechanisms:
    """Return the mechanisms that are on in the task's simulator."""
    return task.simulator.mechanisms_of(task) if isinstance(task.simulator, EventSimulator) else NO_MECHANISMS


def lanes(task: Task, spans: EventSpans) -> list[Lane]:
    """Return the unit, the port of each level and each engine."""
    masks = {"unit": spans.kind == UNIT}
    of_port = (spans.kind != UNIT) & (spans.kind != ENGINE)
    masks |= {f"{name.name} port": of_port & (spans.level == n) for n, name in enumerate(task.accelerator.levels)}
    dma = mechanisms_of(task).dma
    masks |= {f"DMA {n}": (spans.kind == ENGINE) & (spans.level == n) for n in range(dma.engines if dma else 0)}
    found = []
    for name, mask in masks.items():
        rows = np.flatnonzero(mask & (spans.end > spans.begin))
        found.append(Lane(name, rows[np.argsort(spans.begin[rows], kind="stable")]))
    return found


def busy_shares(spans: EventSpans, rows: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return float64[N - 1], the share of each stretch of time, between N edges, in which spans of one lane run."""
    begin, end = spans.begin[rows], spans.end[rows]
    knots = np.append(0, np.stack([begin, end], axis=1).ravel())
    worked = np.cumsum(np.append(0, np.stack([np.zeros_like(begin), end - begin], axis=1).ravel()))
    shares: NDArray[np.float64] = np.diff(np.interp(edges, knots, worked)) / np.diff(edges)
    return shares


def busy(spans: EventSpans, lane: Lane, latency_ps: int) -> float:
    """Return the share of the latency in which a lane is at work."""
    return float((spans.end[lane.spans] - spans.begin[lane.spans]).sum() / latency_ps)


def enlarged(spans: EventSpans, evaluated: EvaluatedPlan) -> tuple[int, int]:
    """Return begin and end, picoseconds, of `TILES_SHOWN` tiles about the op that loses most time to memory."""
    tiles = np.flatnonzero(spans.kind == UNIT)
    worst = int(evaluated.report.memory_loss_ps.argmax())
    first = int(np.argmax(spans.number[tiles] == worst)) - TILES_SHOWN // 3
    first = max(0, min(first, len(tiles) - TILES_SHOWN))
    shown = tiles[first : first + TILES_SHOWN]
    return int(spans.begin[shown[0]]) if first else 0, max(int(spans.end[shown].max()), 1)


def op_ends(evaluated: EvaluatedPlan) -> Sequence[int]:
    """Return when each op has ended, in picoseconds."""
    ends: list[int] = np.cumsum(evaluated.op_ps).tolist()
    return ends


class Service(NamedTuple):
    """An interval, in ps, in which the backing memory's port works for one transfer of the plan."""

    transfer: int
    begin: int
    end: int


class Timeline(NamedTuple):
    """Times in ps since the start of the inference.

    Attributes:
        op_begin: int64[T + 1], begin of each op, after the stall before it; last, the begin of the tail.
        services: intervals in which copies are served, in order of time; they never overlap.
    """

    op_begin: Ints
    services: tuple[Service, ...]

    def stalled_by(self, op: int, stall_ps: int) -> list[int]:
        """Return the transfers that are finished in the stall before an op."""
        begin, end = self.op_begin[op] - stall_ps, self.op_begin[op]
        served = (service for service in self.services if service.begin < end and service.end > begin)
        return list(dict.fromkeys(service.transfer for service in served))


def timeline_of(task: Task, evaluated: EvaluatedPlan) -> Timeline:
    """Return the begin of each op and the service of each copy: earliest deadline first, late ones in stalls and tail.

    Within an op the backing memory first serves the op itself and then, in what is left of the op's time, the
    copies. The report gives the length of ops, stalls and tail. The event simulator says itself when copies are served.
    With another simulator's report the services are an approximation: copies fill its stalls and its tail as far as
    those reach, so that some may not be finished.
    """
    report, ops = evaluated.report, task.program.num_ops
    op_begin = np.append(np.cumsum(evaluated.op_ps) - report.op_time_ps, report.latency_ps - report.tail_ps)
    spans = event_spans(task, evaluated)
    if spans is not None:
        rows = np.flatnonzero((spans.kind == COPY) & (spans.end > spans.begin))
        found = np.stack([spans.number[rows], spans.begin[rows], spans.end[rows]], axis=1)
        return Timeline(op_begin, tuple(Service(*served) for served in found.tolist()))
    copies, stretches = ordered_copies(task, evaluated.plan), list[Service]()
    # A port is free for copies in 2T + 1 slots: 2t is the stall before op t, 2t + 1 the rest of op t, 2T the tail.
    # As stalls are slots too, no copy may force another: all are due at the end.
    for port in np.unique(copies.port).tolist():
        own, mine = report.port_ps[:, port], copies.port == port
        rest = np.maximum(report.op_time_ps - own, 0)
        free = np.append(np.stack([report.stall_ps, rest], axis=1), report.tail_ps)
        begin = np.append(np.stack([op_begin[:-1] - report.stall_ps, op_begin[:-1] + own], axis=1), op_begin[-1])
        first = np.minimum(2 * copies.start[mine] + 1, 2 * ops)
        _, _, served = run_transfers(free, first, np.full_like(first, 2 * ops), copies.demand_ps[mine])
        copy, slot, time = served[served[:, 1] % 2 == 1].T  # even numbers: no slot had the time
        slot = slot // 2
        before = np.cumsum(time) - time
        start = begin[slot] + before - before[np.searchsorted(slot, slot)]
        found = np.stack([copies.transfer[mine][copy], start, start + time], axis=1)
        stretches += [Service(*stretch) for stretch in found.tolist()]
    return Timeline(op_begin, tuple(stretches))

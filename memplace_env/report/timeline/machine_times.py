"""Working times of ports, unit and engines in a run of the event simulator, for its picture and its trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.machine.accelerator.event_description import NO_MECHANISMS, Mechanisms
from memplace_env.placement.simulator.event import EventSimulator, EventSpans
from memplace_env.placement.simulator.event.event_state import COPY, ENGINE, LOAD, UNIT, WRITE
from memplace_env.placement.task import Task
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

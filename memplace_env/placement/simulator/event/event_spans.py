"""The times of everything in a run of the event simulator."""

from __future__ import annotations

from typing import NamedTuple

from memplace_env.program.program import Ints


class EventSpans(NamedTuple):
    """Intervals in which a port, the unit or an engine is at work, in the order in which they were begun.

    Attributes:
        kind: int64[S], `LOAD`, `UNIT`, `WRITE`, `COPY` or `ENGINE` of `event_state`.
        number: int64[S], the op; of a copy its row in the plan's transfers.
        part: int64[S], tile of the op, or descriptor of the copy.
        level: int64[S], the level whose port is busy; of `ENGINE` number of the engine; -1: the unit.
        begin, end: int64[S], picoseconds since the start of the inference.
    """

    kind: Ints
    number: Ints
    part: Ints
    level: Ints
    begin: Ints
    end: Ints

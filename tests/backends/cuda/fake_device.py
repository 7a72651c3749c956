"""A device without hardware: two streams in virtual time, whose steps take what was recorded of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from memplace_env.backends.cuda.device_protocol import CapturedWork, Stream, Work
from memplace_env.backends.ort.plan_steps import CopyTensor, RunOp

Recorded = Callable[[RunOp | CopyTensor | None], float]
"""Seconds that a step takes."""


@dataclass(eq=False)
class Mark:
    """Time at which all that was issued to a stream before it is done; None until it is."""

    seconds: float | None = None


@dataclass(eq=False)
class Item:
    """Something that a stream does: work, or a mark to set, or one to wait for."""

    stream: Stream
    work: Work | None = None
    step: RunOp | CopyTensor | None = None
    sets: Mark | None = None
    waits: Mark | None = None


@dataclass(eq=False)
class FakeDevice:
    """A `Device` whose work is put off until `finish`, which lets each stream go as far as its waits allow.

    The work of a step is done at the begin or at the end of its time, as the generator says: what overlaps without
    being ordered by a wait is seen in the wrong order sooner or later.

    Attributes:
        seconds_of: what each step takes.
        rng: decides when within its time work is done.
        log: each step with its begin and end, of the last `finish`.
        captures: whether it has graphs.
        recordings: how often something was recorded for replay.
    """

    seconds_of: Recorded
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    name: str = "a fake device"
    torch_name: str = "cpu"
    log: list[tuple[RunOp | CopyTensor | None, float, float]] = field(default_factory=list)
    captures: bool = True
    recordings: int = 0
    _queues: dict[Stream, list[Item]] = field(default_factory=lambda: {stream: [] for stream in Stream})
    _now: float = 0.0

    def arena(self, size: int, *, fast: bool) -> Tensor:
        return torch.full((size,), 0xFF, dtype=torch.uint8)

    def issue(self, stream: Stream, work: Work, step: RunOp | CopyTensor | None = None) -> None:
        self._queues[stream].append(Item(stream, work=work, step=step))

    def mark(self, stream: Stream) -> Mark:
        mark = Mark()
        self._queues[stream].append(Item(stream, sets=mark))
        return mark

    clock = mark

    def wait(self, stream: Stream, mark: Any) -> None:
        self._queues[stream].append(Item(stream, waits=mark))

    def seconds(self, first: Any, last: Any) -> float:
        return float(last.seconds - first.seconds)

    def hold(self, stream: Stream) -> None:
        """Virtual hosts need no time."""

    def held(self, first: Any) -> bool:
        return True

    def replay(self, issue: Work, *, capture: bool = True) -> CapturedWork:
        self.recordings += 1
        issue()
        self.finish()
        return CapturedWork(issue, captured=capture and self.captures)

    def finish(self) -> None:
        self.log.clear()
        done: list[tuple[float, int, Work]] = []
        times = dict.fromkeys(Stream, self._now)
        while any(self._queues.values()):
            able = [stream for stream in Stream if self._queues[stream] and self._can(self._queues[stream][0])]
            assert able, "the streams wait for each other"
            stream = able[0]
            item = self._queues[stream].pop(0)
            begin = times[stream]
            if item.waits is not None:
                assert item.waits.seconds is not None
                times[stream] = max(begin, item.waits.seconds)
            elif item.sets is not None:
                item.sets.seconds = begin
            elif item.work is not None:
                times[stream] = begin + self.seconds_of(item.step)
                moment = begin if self.rng.integers(2) else times[stream]
                done.append((moment, len(done), item.work))
                self.log.append((item.step, begin, times[stream]))
        self._now = max(times.values())
        for _, _, work in sorted(done, key=lambda each: each[:2]):
            work()

    def _can(self, item: Item) -> bool:
        return item.waits is None or item.waits.seconds is not None

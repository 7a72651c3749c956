"""A `Device` that is the CPU: both streams do everything at once when it is issued, and clocks are the host's."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from memplace_env.backends.cuda.device_protocol import CapturedWork, Stream, Work
from memplace_env.backends.ort.plan_steps import CopyTensor, RunOp


class CpuDevice:
    """Arenas in main memory."""

    name = "a CPU"
    torch_name = "cpu"

    def arena(self, size: int, *, fast: bool) -> Tensor:
        """uint8[size]."""
        return torch.zeros(size, dtype=torch.uint8)

    def issue(self, stream: Stream, work: Work, step: RunOp | CopyTensor | None = None) -> None:
        """Done at once."""
        with torch.no_grad():
            work()

    def mark(self, stream: Stream) -> Any:
        """All that was issued is done."""
        return None

    def wait(self, stream: Stream, mark: Any) -> None:
        """Nothing is to be waited for."""

    def clock(self, stream: Stream) -> float:
        """The time, in seconds."""
        return time.perf_counter()

    def seconds(self, first: Any, last: Any) -> float:
        """Between two times."""
        return float(last - first)

    def finish(self) -> None:
        """Nothing is left."""

    def hold(self, stream: Stream) -> None:
        """A device on the CPU that runs what is issued at once."""

    def held(self, first: Any) -> bool:
        """No hold is possible."""
        return True

    def replay(self, issue: Work, *, capture: bool = True) -> CapturedWork:
        """The same again."""
        return CapturedWork(issue, captured=False)

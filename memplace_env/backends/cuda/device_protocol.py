"""The interface of a device: memory, two streams, marks to wait for, and clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from memplace_env.backends.cuda.commands import Stream
from memplace_env.backends.ort.plan_steps import CopyTensor, RunOp

Work = Callable[[], None]
"""Issues operations on tensors of the device, in order, to a stream."""


class CapturedWork(NamedTuple):
    """Work that can be issued repeatedly.

    Attributes:
        play: issues it.
        captured: whether it is one graph, so that the host adds no time between its steps.
    """

    play: Work
    captured: bool


class Device(Protocol):
    """A device with memory of its own, its host's memory behind it, and two streams.

    Attributes:
        name: name of the device for messages.
        torch_name: PyTorch's name of it.
    """

    name: str
    torch_name: str

    def arena(self, size: int, *, fast: bool) -> Tensor:
        """Allocate uint8[size], in the device if `fast`, else in the host where the device's copies reach it.

        Raises:
            ExecutionError: there is not enough memory.
        """
        ...

    def issue(self, stream: Stream, work: Work, step: RunOp | CopyTensor | None = None) -> None:
        """Append work to a stream; `step` is the step that it belongs to."""
        ...

    def mark(self, stream: Stream) -> Any:
        """Return a mark that passes when everything issued to a stream so far is done."""
        ...

    def wait(self, stream: Stream, mark: Any) -> None:
        """Let a stream wait for a mark of the other one."""
        ...

    def clock(self, stream: Stream) -> Any:
        """Return a mark whose time can be read once it has passed, after each replay anew."""
        ...

    def seconds(self, first: Any, last: Any) -> float:
        """Return the seconds between two clocks that have passed."""
        ...

    def finish(self) -> None:
        """Wait until both streams are done."""
        ...

    def hold(self, stream: Stream) -> None:
        """Keep a stream busy for as long as a host may need to issue the next work."""
        ...

    def held(self, first: Any) -> bool:
        """Return whether a clock after `hold` has not passed yet, or no longer hold is possible.

        If it has not passed, the stream was busy until the host had issued everything; else later holds are twice as
        long.
        """
        ...

    def replay(self, issue: Work, *, capture: bool = True) -> CapturedWork:
        """Run the work and return a replay of it, as a captured graph if `capture` is set and it can be one."""
        ...

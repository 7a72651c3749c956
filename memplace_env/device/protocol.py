"""What a plan needs of a device: memory, two streams, marks to wait for, and clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from memplace_env.device.commands import Stream
from memplace_env.execution.schedule import Copy, Run

Work = Callable[[], None]
"""Operations on tensors of the device that follow one another on a stream."""


class Replay(NamedTuple):
    """Something that a device can be given again and again.

    Attributes:
        play: does that.
        captured: whether it is one graph, so that the host takes no part in the time between its steps.
    """

    play: Work
    captured: bool


class Device(Protocol):
    """A device with memory of its own, its host's memory behind it, and two streams.

    Attributes:
        name: what people call it.
        torch_name: what PyTorch calls it.
    """

    name: str
    torch_name: str

    def arena(self, size: int, *, fast: bool) -> Tensor:
        """uint8[size], in the device if `fast`, else in the host where the device's copies reach it.

        Raises:
            ExecutionError: there is not that much.
        """
        ...

    def issue(self, stream: Stream, work: Work, step: Run | Copy | None = None) -> None:
        """Let a stream do something behind all else that it has to do; `step` says what for."""
        ...

    def mark(self, stream: Stream) -> Any:
        """The moment when all that a stream has to do now is done."""
        ...

    def wait(self, stream: Stream, mark: Any) -> None:
        """Let a stream wait for a mark of the other one."""
        ...

    def clock(self, stream: Stream) -> Any:
        """A mark whose time can be read once it has passed, of each replay anew."""
        ...

    def seconds(self, first: Any, last: Any) -> float:
        """Between two clocks that have passed."""
        ...

    def finish(self) -> None:
        """Return when both streams have nothing more to do."""
        ...

    def hold(self, stream: Stream) -> None:
        """Keep a stream busy for as long as a host may need to issue what comes next."""
        ...

    def held(self, first: Any) -> bool:
        """Whether a clock behind `hold` has not passed yet, so that the stream was busy until the host had issued
        everything, or no longer hold is possible; else later holds are twice as long."""
        ...

    def replay(self, issue: Work, *, capture: bool = True) -> Replay:
        """What issues the same again, as a captured graph if that is wanted and can be."""
        ...

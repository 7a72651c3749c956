"""How long work takes on a device, by its own clocks."""

from __future__ import annotations

import statistics

from memplace_env.device.commands import Stream
from memplace_env.device.protocol import Device, Replay, Work
from memplace_env.execution.schedule import Run


def timed(device: Device, play: Work, before: Work = lambda: None) -> float:
    """Seconds between the compute stream's clocks before and behind whatever is issued.

    The stream is kept busy until the host has issued it, so that what the host takes stays out of both an op's time and
    a plan's. Where it was not kept so for long enough, all is done again.

    Args:
        device: where.
        play: issues it.
        before: done before each time that it is issued, and not timed.
    """
    while True:
        before()
        device.hold(Stream.COMPUTE)
        first = device.clock(Stream.COMPUTE)
        play()
        last = device.clock(Stream.COMPUTE)
        held = device.held(first)
        device.finish()
        if held:
            return device.seconds(first, last)


def median_seconds(device: Device, play: Work, runs: int) -> float:
    """Median time of something that is issued so often."""
    play()
    return statistics.median(timed(device, play) for _ in range(runs))


def repeated(device: Device, work: Work, repeats: int, *, step: Run | None = None, capture: bool = True) -> Replay:
    """Some work on the compute stream, so often, one behind the other.

    Args:
        device: where.
        work: what is done.
        repeats: how often.
        step: what it is for.
        capture: whether it may be one graph.
    """

    def issue() -> None:
        for _ in range(repeats):
            device.issue(Stream.COMPUTE, work, step)

    return device.replay(issue, capture=capture)

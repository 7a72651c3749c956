"""Times of work on a device by its own clocks."""

from __future__ import annotations

import statistics

from memplace_env.backends.cuda.device_protocol import CapturedWork, Device, Stream, Work
from memplace_env.backends.ort.plan_steps import RunOp


def timed(device: Device, play: Work, before: Work = lambda: None) -> float:
    """Return the seconds between the compute stream's clocks before and after some work.

    The stream is kept busy until the host has issued the work, so that the host's time does not count. If it was not
    kept busy for long enough, everything is done again.

    Args:
        device: the device.
        play: issues the work.
        before: called before each issue, not timed.
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
    """Return the median time of work that is issued `runs` times, after one run without timing."""
    play()
    return statistics.median(timed(device, play) for _ in range(runs))


def repeated(
    device: Device, work: Work, repeats: int, *, step: RunOp | None = None, capture: bool = True
) -> CapturedWork:
    """Return a replay of work on the compute stream, repeated.

    Args:
        device: the device.
        work: the work.
        repeats: number of repeats.
        step: the step that it belongs to.
        capture: whether it may be one graph.
    """

    def issue() -> None:
        for _ in range(repeats):
            device.issue(Stream.COMPUTE, work, step)

    return device.replay(issue, capture=capture)

"""Waiting times of tests: longer on a busy machine, so that only a hang fails a test."""

import os


def patience(seconds: float) -> float:
    """Return the seconds to wait for something that takes at most `seconds` on a quiet machine."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * max(4.0, 2.0 * busy)  # the load average lags a minute behind

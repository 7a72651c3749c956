"""Compilation of kernels: the seconds that it takes, and the line that says so.

The line is written once per process, as soon as compiling has taken `QUIET_S`: to a terminal, or wherever stderr goes
after `say_when_compiling`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

QUIET_S: Final = 1.0
"""Seconds of compiling that no line is worth; our choice."""

_LINE: Final = (
    "memplace: compiling kernels, which takes up to a minute the first time; 'memplace warm-up' does it ahead.\n"
)

Announce = Callable[[int], None]
"""Called with the number of kernels compiled so far."""


class _Preparation:
    """Adds up the time in which kernels are made ready; numba's lock lets one thread at a time do that."""

    def __init__(self) -> None:
        self.compiled = 0
        self.announced: list[Announce] = []
        self.aloud = False
        self._said = False
        self._finished = self._since = 0.0
        self._depth = 0

    @property
    def seconds(self) -> float:
        return self._finished + (time.perf_counter() - self._since if self._depth else 0.0)

    def begin(self, *, compiling: bool) -> None:
        if self._depth == 0:  # a kernel's callees are compiled within its own compilation
            self._since = time.perf_counter()
        self._depth += 1
        if compiling and not self._said and self.seconds > QUIET_S:
            self._said = True
            self._say()

    def end(self, *, compiling: bool) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._finished += time.perf_counter() - self._since
        if compiling:
            self.compiled += 1
            for announce in self.announced:
                announce(self.compiled)

    def _say(self) -> None:
        with suppress(AttributeError, OSError, ValueError):  # without a stderr, or after its end
            if self.aloud or sys.stderr.isatty():
                sys.stderr.write(_LINE)
                sys.stderr.flush()


_preparation = _Preparation()


def begin_preparation(*, compiling: bool) -> None:
    """Count the time from here on; parts may lie within each other. `compiling`: else machine code is loaded."""
    _preparation.begin(compiling=compiling)


def end_preparation(*, compiling: bool) -> None:
    """End what `begin_preparation` began last."""
    _preparation.end(compiling=compiling)


def preparation_seconds() -> float:
    """Return the seconds in which this process has compiled kernels or loaded their machine code so far."""
    return _preparation.seconds


def compiled_kernels() -> int:
    """Return the number of functions that this process has compiled so far, those of numba's library included."""
    return _preparation.compiled


def say_when_compiling() -> None:
    """Let the line about compiling go to stderr also where that is no terminal."""
    _preparation.aloud = True


@contextmanager
def announcing(announce: Announce) -> Iterator[None]:
    """Call a function whenever a kernel has been compiled, in the thread that did it."""
    _preparation.announced.append(announce)
    try:
        yield
    finally:
        _preparation.announced.remove(announce)

"""Ctrl-C, and being told to end, at moments when something has to be finished or said first."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


class Interrupted(Exception):  # noqa: N818 - it is none
    """An interrupt, and in a few words what is left after it."""


@contextmanager
def finishing() -> Iterator[None]:
    """An interrupt waits for the end of the block; a second one ends that as well.

    Raises:
        KeyboardInterrupt: at the end of the block, if there was one.
    """
    if current_thread() is not main_thread():  # no other hears any
        yield
        return
    heard: list[int] = []

    def later(number: int, frame: FrameType | None) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)

    before = {
        number: signal.signal(number, later)
        for number in (signal.SIGINT, signal.SIGTERM)
        if callable(signal.getsignal(number))
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if heard:
        raise KeyboardInterrupt


@contextmanager
def telling(left: Callable[[], str]) -> Iterator[None]:
    """Have an interrupt's one line say what is left.

    Raises:
        Interrupted: with that, if there is one.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(left()) from None

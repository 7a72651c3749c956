"""Ctrl-C and SIGTERM while a command runs: write files whole, say what is left, stop a search.

Before a command runs, `memplace.py` handles both signals; it imports nothing, so the exit code is repeated there.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Event, Lock, Thread, current_thread, main_thread
from types import FrameType
from typing import TypeVar

from rich.progress import Progress as Bar

from memplace_env.cli.console import note

INTERRUPTED = 130
"""Exit code of an interrupted command, as shells report SIGINT."""
_POLL_S = 0.1
"""Seconds between two looks for an interrupt."""

T = TypeVar("T")


class Interrupted(Exception):  # noqa: N818 - not an error
    """An interrupt, with a few words on what is left after it."""


@contextmanager
def finishing() -> Iterator[None]:
    """Delay an interrupt until the end of the block; a second one ends the block at once.

    Raises:
        KeyboardInterrupt: at the end of the block, if there was an interrupt.
    """
    signals: list[int] = []

    def delay(number: int, _: FrameType | None) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)

    with _handled_by(delay):
        yield
    if signals:
        raise KeyboardInterrupt


@contextmanager
def recording() -> Iterator[list[int]]:
    """Record the numbers of signals that interrupt the block, in a list, instead of raising KeyboardInterrupt.

    For code that waits for another thread: an exception at any bytecode of Python's locks leaves them locked for ever.
    """
    signals: list[int] = []
    with _handled_by(lambda number, _: signals.append(number)):
        yield signals


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Hand interrupts to `handler` during the block; does nothing in other threads, which never receive any."""
    if current_thread() is not main_thread():
        yield
        return
    before = {
        number: signal.signal(number, handler)
        for number in (signal.SIGINT, signal.SIGTERM)
        if callable(signal.getsignal(number))
    }
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def reporting(left: Callable[[], str]) -> Iterator[None]:
    """Have an interrupt in the block report what is left.

    Raises:
        Interrupted: with the text that `left` returns, in place of KeyboardInterrupt.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(left()) from None


def in_thread(work: Callable[[], T], bar: Bar, left: Callable[[], str], stop: Event | None = None) -> T:
    """Run `work` beside the main thread, which receives Ctrl-C even while a solver's compiled code runs.

    Args:
        work: the work; its result is returned, its exception raised.
        bar: progress bar, which an interrupt closes.
        left: returns a few words on what is left if an interrupt ends the process.
        stop: set by the first interrupt, which then does not end the process; None: every interrupt ends it.
    """
    result: Future[T] = Future()
    working = Lock()
    working.acquire()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)
        finally:
            working.release()

    with recording() as interrupts:
        Thread(target=run, name="memplace-search", daemon=True).start()
        ended = False
        while not ended:
            # A signal between Python's last look for signals and the lock's own wait is noticed only after the wait.
            ended = working.acquire(timeout=_POLL_S)
            if len(interrupts) > (stop is not None):
                bar.stop()
                sys.stderr.write(f"memplace: interrupted, {left()}.\n")
                sys.stderr.flush()
                # A solver cannot be made to return, and an orderly end of the interpreter would wait for it.
                os._exit(INTERRUPTED)
            if interrupts and stop is not None and not stop.is_set():
                stop.set()
                note("interrupted; the best plan so far is kept. Press Ctrl-C again to give it up.")
    return result.result()

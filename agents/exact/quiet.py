"""Keeps a C library's chatter off the standard output."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_LOCK = Lock()


@contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """Send what is written to file descriptor 1 to descriptor 2 meanwhile, one thread at a time.

    HiGHS 1.12, the one in SciPy 1.17, now and then prints a line although its output is off (HiGHS issue 2783): that
    would spoil a JSON document on the standard output. On Windows nothing is done.
    """
    if os.name != "posix":
        yield
        return
    with _LOCK:
        sys.stdout.flush()
        saved = os.dup(1)
        os.dup2(2, 1)
        try:
            yield
        finally:
            ctypes.CDLL(None).fflush(None)
            os.dup2(saved, 1)
            os.close(saved)

"""Linux's means to keep agents' processes apart, to end them, and to know what time they took.

On other systems, and where a kernel is too old, the functions do less and say nothing: see SECURITY.md.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_LANDLOCK_CREATE_RULESET: Final = 444
_LANDLOCK_RESTRICT_SELF: Final = 446
_LANDLOCK_SCOPE_SIGNAL: Final = 2


def hide_memory() -> None:
    """Forbid other processes of this user to read this one's memory, and to take its pipes."""
    _prctl(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Make this process the parent of all processes below it whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Have this process killed when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os._exit(1)


def fence() -> None:
    """Forbid this process, and those that it starts, to signal others and to look into them: by Landlock, also root."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if sys.platform == "linux":
        # struct landlock_ruleset_attr: restricted rights on files and on ports, and, from Linux 6.12 on, scopes.
        rules, libc = (ctypes.c_uint64 * 3)(0, 0, _LANDLOCK_SCOPE_SIGNAL), ctypes.CDLL(None)
        handle = libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(ctypes.sizeof(rules)), 0)
        if handle >= 0:
            libc.syscall(_LANDLOCK_RESTRICT_SELF, handle, 0)
            os.close(handle)


def end_group(process: int) -> None:
    """Kill a run's process and those of its group, if there are any left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


class ProcessTimes:
    """Processor time of all processes below this one.

    It is what they report when they are waited for, or what they were seen to have used, whichever is more: of a child
    whose parent ignores its end, nobody is told.
    """

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._seen: dict[tuple[int, str], int] = {}

    @property
    def seconds(self) -> float:
        """Processor seconds so far."""
        return max(self._waited_s, sum(self._seen.values()) / os.sysconf("SC_CLK_TCK"))

    def wait(self) -> int:
        """Return the id of a process that has ended, or 0 if none has; then look at those that run.

        Raises:
            ChildProcessError: if there are no processes any more.
        """
        process, _, usage = os.wait4(-1, os.WNOHANG)
        self._waited_s += usage.ru_utime + usage.ru_stime
        for each in () if process else _below():
            with suppress(OSError):  # it has ended
                # pid (name) state ...; the name may hold anything.
                fields = Path(f"/proc/{each}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                self._seen[each, fields[19]] = int(fields[11]) + int(fields[12])  # start; user and system time
        return process

    def sweep(self) -> None:
        """Kill all processes below this one, orphans that it adopted included, and wait for them."""
        with suppress(ChildProcessError):
            while True:
                if not self.wait():
                    for process in _below():
                        with suppress(ProcessLookupError, PermissionError):
                            os.kill(process, signal.SIGKILL)
                    time.sleep(1e-3)


def _below() -> Iterator[int]:
    """Yield the ids of all processes below this one."""
    waiting = [os.getpid()]
    while waiting:
        for tasks in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):
                children = list(map(int, tasks.read_text().split()))
                waiting += children
                yield from children


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)

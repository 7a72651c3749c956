"""The console script `memplace`: the application behind a guard, so that Ctrl-C ends it in one line at any moment.

It stands beside the package, as an import from there takes a good part of a second.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # `typing` takes its time
if TYPE_CHECKING:
    from typing import Any

_SIGNALS = signal.SIGINT, signal.SIGTERM
_INTERRUPTED = 130


def main() -> None:
    """Run the command line and end the process; exit code 130 if it is interrupted or told to end."""
    heard = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # as under `nohup`
    _hear(heard, _leave)
    _open_streams()
    sys.unraisablehook = _again
    from memplace_env.cli.app import app

    os.register_at_fork(after_in_child=_forget)
    try:
        _hear(heard, signal.default_int_handler)
        app(prog_name="memplace")
    except KeyboardInterrupt:  # one more, while the first is dealt with
        _leave()
    except SystemExit as end:
        if end.code == _INTERRUPTED:  # at once: an interrupt in an `exec` has Python end as if it were not handled
            os._exit(_INTERRUPTED)
        raise
    finally:
        _hear(heard, _leave)


def _hear(numbers: list[signal.Signals], handler: Any) -> None:
    for number in numbers:
        signal.signal(number, handler)


# While modules come and go an exception could be swallowed, or meet names that are None: so none is raised.
def _leave(*_: object, write: Any = os.write, leave: Any = os._exit) -> None:
    """End at once; nothing is being written."""
    try:
        write(2, b"memplace: interrupted.\n")
    finally:
        leave(_INTERRUPTED)


def _forget() -> None:
    """A forked worker ends as its pool tells it to."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _again(lost: Any) -> None:
    """An interrupt in a finaliser, which Python would report and forget, comes again a moment later."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        from threading import Timer, main_thread

        Timer(0.02, signal.pthread_kill, [main_thread().ident, signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(lost)


def _open_streams() -> None:
    """Streams that take every text; one that is closed leads nowhere, lest a file that is opened takes its place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        mode = "w" if number else "r"
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
        elif number:
            getattr(sys, name).reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()

"""The console script `memplace`: the application behind a guard, so that Ctrl-C ends it in one line at any moment.

It is beside the package, since an import from there takes a good part of a second. While a command runs,
`memplace_env/cli/interrupts.py` handles both signals.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

TYPE_CHECKING = False  # importing `typing` takes milliseconds
if TYPE_CHECKING:
    from typing import Any

_SIGNALS = signal.SIGINT, signal.SIGTERM
_INTERRUPTED = 130


def main() -> None:
    """Run the command line and end the process; exit code 130 after an interrupt or SIGTERM."""
    handled = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # ignored as under `nohup`
    _handle(handled, _leave)
    _open_streams()
    sys.unraisablehook = _again
    # Registered first, so that it is called last; after that Python would put the default handlers back.
    atexit.register(_ignore, handled)
    try:
        from memplace_env.cli.app import app
    except ModuleNotFoundError as error:
        from memplace_env._lib.lazy import missing

        sys.exit(f"memplace: {missing('the command line', error)}")
    os.register_at_fork(after_in_child=_forget)
    try:
        _handle(handled, signal.default_int_handler)
        app(prog_name="memplace")
    except KeyboardInterrupt:  # a second one, while the first is handled
        _leave()
    except SystemExit as end:
        if end.code == _INTERRUPTED:  # at once: after an interrupt in `exec`, Python ends as if it were unhandled
            os._exit(_INTERRUPTED)
        raise
    finally:
        _handle(handled, _leave)


def _handle(numbers: list[signal.Signals], handler: Any) -> None:
    for number in numbers:
        signal.signal(number, handler)


# While modules are loaded or unloaded, an exception could be swallowed, or meet names that are None: none is raised.
def _leave(*_: object, write: Any = os.write, leave: Any = os._exit) -> None:
    """End the process at once; no file is being written."""
    try:
        write(2, b"memplace: interrupted.\n")
    finally:
        leave(_INTERRUPTED)


def _ignore(numbers: list[signal.Signals]) -> None:
    """Ignore signals while the interpreter is taken down: the command is done, and its exit code stands."""
    _handle(numbers, signal.SIG_IGN)


def _forget() -> None:
    """Restore SIGTERM in a forked worker, which its pool ends."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _again(lost: Any) -> None:
    """Repeat an interrupt in a finaliser, which Python would report and forget, a moment later."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        from threading import Timer, main_thread

        Timer(0.02, signal.pthread_kill, [main_thread().ident, signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(lost)


def _open_streams() -> None:
    """Let streams take every text, and reopen closed ones to nowhere, lest an opened file takes their numbers."""
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

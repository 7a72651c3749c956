"""A campaign of hostile input: `python -m tests.fuzz`. Each kind of case is a module in `kinds/`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from memplace_env._lib.errors import MemPlaceError

UNHEEDED = 10
"""Times that a signal is sent before one of them must have ended the command (our choice): each may come too late."""


class Wrong(Exception):  # noqa: N818 - a finding, not an error
    """An input was accepted that is wrong."""


@contextmanager
def accepted() -> Iterator[None]:
    """Work with what was accepted: a refusal in the block is a finding, and no refused input.

    Raises:
        Wrong: in place of a MemPlaceError.
    """
    try:
        yield
    except MemPlaceError as error:
        raise Wrong(f"accepted, and later {type(error).__name__}: {error}") from error


def unheeded(sent: Iterable[tuple[str, int]]) -> list[str]:
    """Return the signals that were sent `UNHEEDED` times or more and never ended a command before its own end.

    Args:
        sent: signals, each with the exit code of the command that it was sent to.
    """
    codes: dict[str, list[int]] = {}
    for name, code in sent:
        codes.setdefault(name, []).append(code)
    return [name for name, own in codes.items() if len(own) >= UNHEEDED and not any(own)]

"""What strangers wrote: read below a limit, parsed strictly, shown so that no terminal obeys it."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NoReturn

WORD: Final = 300
SENTENCE: Final = 2_000
"""Characters of a piece without spaces, and of a whole text, that are shown; our choice."""
DOTS: Final = 1_000
"""Dots that a line of TOML may have: the time that a key takes grows with the square of its parts."""

_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


def read(path: str | os.PathLike[str], most: int, *, follow: bool = True) -> bytes:
    """The contents of a regular file.

    Args:
        path: the file.
        most: bytes above which it is not read.
        follow: whether it may be a link to one.

    Raises:
        OSError: it cannot be read, is too large, or is a pipe, a device or another thing that may never end;
            `strerror` is the end of a sentence.
    """
    _check(path, os.stat(path, follow_symlinks=follow))  # as opening some devices does something
    # Should it have become another thing meanwhile: the opening of a pipe would wait for somebody to write into it.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        _check(path, os.fstat(handle))
        size = os.fstat(handle).st_size
        with os.fdopen(handle, "rb", closefd=False) as file:
            # Asked for at once, `most` bytes would be set aside even for a small file.
            content = file.read(size + 1) if size <= most else b""
            if len(content) > size:  # it grows, or is one of those in /proc, which say 0
                content += file.read(most + 1 - len(content))
    finally:
        os.close(handle)
    if max(size, len(content)) > most:
        raise OSError(errno.EFBIG, f"it has {max(size, len(content)):,} bytes, and {most:,} are the most", str(path))
    return content


def parse_json(text: str | bytes) -> Any:
    """A JSON document (RFC 8259) in which no name comes twice and every number is one.

    Raises:
        ValueError: it is none; the message is the end of a sentence.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (json.JSONDecodeError, UnicodeDecodeError, _RefusedError):
        raise
    except ValueError:
        raise ValueError("a number in it has too many digits") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_toml(text: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """A TOML document, with its floats as `parse_float` makes them.

    Raises:
        ValueError: it is none; the message is the end of a sentence.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > DOTS:
            raise ValueError(f"line {number} has more than {DOTS:,} dots")
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except tomllib.TOMLDecodeError:
        raise
    except (ValueError, ArithmeticError):
        raise ValueError("a number in it has too many digits") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def shown(text: object, most: int = SENTENCE) -> str:
    """A text on one line of at most about `most` characters, with escapes for what a terminal would obey.

    What is too long loses its middle, as the end of a sentence says what to do.
    """
    return escaped(" ".join(_bounded(text, most).split()), most)


def escaped(text: object, most: int = SENTENCE) -> str:
    """As `shown`, but blanks stay as they are, and line breaks are escaped too."""
    line = re.sub(rf"\S{{{WORD + 1},}}", lambda found: _cut(found[0], WORD), printable(_bounded(text, most)))
    return _cut(line, most)


def printable(text: str) -> str:
    """A text with escapes for what a terminal would obey or a JSON document could not hold."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def described(value: object) -> str:
    """What a value of any kind looks like, as `repr`, which may fail."""
    try:
        return repr(value)
    except Exception:  # integers of over 4,300 digits, objects of strangers
        return f"an object of {type(value).__name__} that cannot be shown"


def told(failure: BaseException) -> str:
    """What an exception of a stranger's says, on one line."""
    try:
        return shown(failure)
    except Exception:
        return "it cannot be shown"


def _bounded(text: object, most: int) -> str:
    """The text, cut so that no work is done on megabytes."""
    return _cut(str(text), 4 * most)


def _check(path: str | os.PathLike[str], status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        number = errno.EISDIR if kind == "a folder" else errno.EINVAL  # OSError makes its subclass of it
        raise OSError(number, f"it is {kind}, not a regular file", str(path))


class _RefusedError(ValueError):
    """JSON that Python would take."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise _RefusedError(f"{twice!r} stands in it twice")
    return table


def _no_number(text: str) -> NoReturn:
    raise _RefusedError(f"{text} is no number in JSON")


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail]}[... {len(text) - most:,} characters ...]{text[len(text) - tail :]}"

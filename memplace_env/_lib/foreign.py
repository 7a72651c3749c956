"""Untrusted input: read below a limit, parsed strictly, shown with escapes for control characters."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Callable
from numbers import Number
from typing import Any, Final, NoReturn

WORD: Final = 300
SENTENCE: Final = 2_000
"""Most characters of a piece without spaces, and of a whole text, that are shown; our choice."""
CONTENTS: Final = 100
"""Most characters of a list, tuple, set or dictionary that is shown with its items; our choice."""
DOTS: Final = 1_000
"""Most dots in a line of TOML: the time to parse a key grows with the square of its parts."""

_CONTAINERS: Final = (list, tuple, set, frozenset, dict)
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


def read(path: str | os.PathLike[str], most: int, *, follow: bool = True) -> bytes:
    """Return the contents of a regular file.

    Args:
        path: the file.
        most: bytes above which it is not read.
        follow: whether it may be a link to one.

    Raises:
        OSError: it cannot be read, is too large, or is a pipe, a device or another thing that may never end;
            `strerror` is the end of a sentence.
    """
    _check(path, os.stat(path, follow_symlinks=follow))  # as opening some devices does something
    # Should it have become another thing meanwhile: the opening of a pipe would wait for a writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        _check(path, os.fstat(handle))
        size = os.fstat(handle).st_size
        with os.fdopen(handle, "rb", closefd=False) as file:
            # Asked for at once, `most` bytes would be set aside even for a small file.
            content = file.read(size + 1) if size <= most else b""
            if len(content) > size:  # it grows, or is one of those in /proc, whose size is 0
                content += file.read(most + 1 - len(content))
    finally:
        os.close(handle)
    if max(size, len(content)) > most:
        raise OSError(errno.EFBIG, f"it has {max(size, len(content)):,} bytes; the limit is {most:,}", str(path))
    return content


def parse_json(text: str | bytes) -> Any:
    """Return a parsed JSON document (RFC 8259), in which no name comes twice and every number is finite.

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
    """Return a parsed TOML document, with its floats as `parse_float` makes them.

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
    """Return a text on one line of at most about `most` characters, with control characters escaped.

    A text that is too long loses its middle, as the end of a sentence holds the remedy.
    """
    return escaped(" ".join(_bounded(text, most).split()), most)


def escaped(text: object, most: int = SENTENCE) -> str:
    """Return a text as `shown` does, but with its blanks, and with line breaks escaped too."""
    line = re.sub(rf"\S{{{WORD + 1},}}", lambda match: _cut(match[0], WORD), printable(_bounded(text, most)))
    return _cut(line, most)


def printable(text: str) -> str:
    """Return a text with escapes for control characters and for what a JSON document cannot hold."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def described(value: object) -> str:
    """Return the `repr` of a value of any kind for a message, cut if it is a long text or number.

    Instead: the shape of an array, the number of items of a long container, the type of what holds arrays or is long.
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape and hasattr(value, "dtype"):  # numbers of NumPy have the shape ()
        return f"an array of shape {shape} and dtype {value.dtype}"
    container = next((kind for kind in _CONTAINERS if isinstance(value, kind)), None)
    try:
        size = 0 if container is None else len(value)  # type: ignore[arg-type]
        text = repr(value) if size <= CONTENTS else ""  # an item takes a character or more
    except Exception:  # integers of over 4,300 digits, objects of third parties
        return f"an object of {type(value).__name__} that cannot be shown"
    is_text = isinstance(value, str | bytes | bytearray)
    holds_arrays = not is_text and ("array(" in text or "tensor(" in text)
    if container is not None and not holds_arrays and max(size, len(text)) > CONTENTS:
        return f"a {container.__name__} of {size:,} {'item' if size == 1 else 'items'}"
    is_long = len(text) > WORD and not is_text and not isinstance(value, Number)
    return f"an object of {type(value).__name__}" if holds_arrays or is_long else _cut(text, WORD)


def message_of(failure: BaseException) -> str:
    """Return the message of a third party's exception, on one line."""
    try:
        return shown(failure)
    except Exception:
        return "it cannot be shown"


def _bounded(text: object, most: int) -> str:
    """Return the text, cut so that no work is done on megabytes."""
    return _cut(str(text), 4 * most)


def _check(path: str | os.PathLike[str], status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        number = errno.EISDIR if kind == "a folder" else errno.EINVAL  # OSError makes its subclass of it
        raise OSError(number, f"it is {kind}, not a regular file", str(path))


class _RefusedError(ValueError):
    """An error in JSON that Python itself would accept."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise _RefusedError(f"{twice!r} occurs twice in it")
    return table


def _no_number(text: str) -> NoReturn:
    raise _RefusedError(f"{text} is not a number in JSON")


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail]}[... {len(text) - most:,} characters ...]{text[len(text) - tail :]}"

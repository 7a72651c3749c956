"""What strangers wrote: read below a limit, parsed strictly, shown so that no terminal obeys it."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, Final, NoReturn

WORD: Final = 300
SENTENCE: Final = 2_000
"""Characters of a piece without spaces, and of a whole text, that are shown; our choice."""

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
    # Without O_NONBLOCK the opening of a pipe would wait for somebody to write into it.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    if not follow and Path(path).is_symlink():
        raise _refused(path, errno.ELOOP, "it is a link, not a regular file")
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
            raise _refused(path, errno.EISDIR if kind == "a folder" else errno.EINVAL, f"it is {kind}, not a regular file")
        content = file.read(most + 1)
    if len(content) > most:
        size = max(status.st_size, len(content))
        raise _refused(path, errno.EFBIG, f"it has {size:,} bytes, and {most:,} are the most")
    return content


def parse_json(text: str | bytes) -> Any:
    """A JSON document (RFC 8259) in which no name comes twice and every number is one.

    Raises:
        ValueError: it is none; the message is the end of a sentence.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML document.

    Raises:
        ValueError: it is none; the message is the end of a sentence.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def shown(text: object, most: int = SENTENCE) -> str:
    """A text on one line of at most about `most` characters, with escapes for what a terminal would obey.

    What is too long loses its middle, as the end of a sentence says what to do.
    """
    whole = str(text)
    if len(whole) > 4 * most:  # so that no work is done on megabytes
        whole = _cut(whole, 4 * most)
    line = " ".join(whole.split())
    line = line if line.isprintable() else "".join(map(_escaped, line))
    line = re.sub(rf"\S{{{WORD + 1},}}", lambda found: _cut(found[0], WORD), line)
    return _cut(line, most)


def _refused(path: str | os.PathLike[str], number: int, why: str) -> OSError:
    return OSError(number, why, os.fspath(path))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands in it twice")
    return table


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail]}[... {len(text) - most:,} characters ...]{text[len(text) - tail :]}"


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

"""Writing files so that a reader never meets half of one, and folders that one process at a time writes into."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from memplace_env.errors import MemPlaceError

_NO_LOCKS: Final = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What file systems say that know no such locks; there it is up to the user."""


def write_atomically(path: str | Path, content: str | bytes) -> Path:
    """Write a file beside `path`, then rename it; parent folders are made.

    Raises:
        OSError: if the place cannot be written; nothing is left behind then.
    """
    path = Path(path)
    write_together(path.parent, {path.name: content})
    return path


def write_together(folder: Path, files: Mapping[str, str | bytes | None]) -> None:
    """Write files of one moment: they are renamed, in their order, after all of them are safely there.

    Until then they are called `.NAME.new`. What a killed process leaves of that is overwritten the next time.

    Args:
        folder: it is made, with its parents.
        files: contents by name; None removes an old one.

    Raises:
        OSError: if one cannot be written; all are then still as they were, and nothing is left behind.
    """
    made = _made(folder)
    staged: list[Path] = []
    with ExitStack() as open_files:
        try:
            contents = {name: content for name, content in files.items() if content is not None}
            for name in sorted(contents):  # in one order, so that no two processes wait for each other
                content, path = contents[name], folder / f".{name}.new"
                handle = _opened(path)
                staged.append(path)
                file = open_files.enter_context(os.fdopen(handle, "wb"))
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
            for name in files:
                if (folder / name).is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(folder / name))
            for name in files:
                if name in contents:
                    os.replace(folder / f".{name}.new", folder / name)
                else:
                    (folder / name).unlink(missing_ok=True)
        except BaseException:
            for path in staged:
                path.unlink(missing_ok=True)
            _remove_empty(made)
            raise


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else writes into the folder meanwhile; the lock ends with this process, however that ends.

    The folder is made, and removed again if nothing was written.

    Raises:
        MemPlaceError: if somebody else writes into it, or it is no folder.
    """
    if folder.exists() and not folder.is_dir():
        raise MemPlaceError(f"{folder} is there and is no folder; pass another --out.")
    made = _made(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not _locked(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            raise MemPlaceError(f"Another run writes into {folder}; wait for it, or pass another --out.")
        yield
    finally:
        _locked(handle, fcntl.LOCK_UN)  # closing is not enough where a process that was forked has the folder open
        os.close(handle)
        _remove_empty(made)


def is_empty(folder: Path) -> bool:
    """Whether there is nothing in a folder, but perhaps what a killed process left of a file that it was writing."""
    return not folder.exists() or all(fnmatch(path.name, ".*.new") for path in folder.iterdir())


def _opened(path: Path) -> int:
    """An empty file that no other process writes at the same time; one that is left from a dead process is taken."""
    while True:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        ours = False
        try:
            _locked(handle, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                ours = os.path.samestat(os.fstat(handle), os.stat(path))
            if ours:  # whoever had it before us has not renamed or removed it
                os.ftruncate(handle, 0)
                os.fchmod(handle, 0o644)
                return handle
        except BaseException:
            if ours:
                path.unlink(missing_ok=True)
            os.close(handle)
            raise
        os.close(handle)


def _locked(handle: int, operation: int) -> bool:
    """Whether an open file is locked now; False if another process has it."""
    try:
        fcntl.flock(handle, operation)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _made(folder: Path) -> list[Path]:
    """Make a folder and its parents; which of them were not there, the innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _remove_empty(folders: list[Path]) -> None:
    for path in folders:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()

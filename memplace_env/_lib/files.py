"""Writing files so that a reader never meets half of one, and folders that one process at a time writes into."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from memplace_env._lib.errors import MemPlaceError

_NO_LOCKS: Final = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without such locks, where keeping other processes away is up to the user."""
_LINKS: Final = 40
"""Most symbolic links in a row that are followed, as in Linux."""


def write_atomically(path: str | Path, content: str | bytes) -> Path:
    """Write a file beside `path`, then rename it; parent folders are made.

    Links, pipes and devices are treated as by `write_together`.

    Raises:
        OSError: if the place cannot be written; nothing is left behind then.
    """
    path = Path(path)
    write_together(path.parent, {path.name: content})
    return path


def write_together(
    folder: Path, files: Mapping[str, str | bytes | None], wanted: Callable[[], bool] = lambda: True
) -> bool:
    """Write files of one moment: they are renamed, in their order, after all of them are safely there.

    Until then they are called `.NAME.new`. What a killed process leaves of that is overwritten the next time. A file
    that is replaced hands on its permissions. A link stays, and what it leads to is replaced or made. A pipe or a
    character device stays too, and so does what this process has open, as /dev/stdout: it is written before anything is
    renamed.

    Args:
        folder: it is made, with its parents.
        files: contents by name; None removes an old one.
        wanted: called when no other process can write files of these names any more; if False, all stay as they were.

    Returns:
        the value of `wanted`.

    Raises:
        OSError: if one cannot be written; all files are then still as they were, and nothing is left behind.
    """
    new_folders = _make_folders(folder)
    staged: list[Path] = []
    with ExitStack() as open_files:
        try:
            contents = {
                folder / name: content.encode() if isinstance(content, str) else content
                for name, content in files.items()
                if content is not None
            }
            targets = {folder / name: _target(folder / name) for name in files}
            new = {path: target for path, target in targets.items() if target is not None and path in contents}
            if len(set(map(os.path.realpath, new.values()))) < len(new):
                raise OSError(errno.EINVAL, "two of its files are links to one", str(folder))
            # In one order, so that no two processes wait for each other.
            for path, replaced in sorted(new.items(), key=lambda item: os.path.realpath(item[1])):
                new_folders = [*_make_folders(replaced.parent), *new_folders]
                handle = _opened(_beside(replaced), like=replaced)
                staged.append(_beside(replaced))
                file = open_files.enter_context(os.fdopen(handle, "wb"))
                file.write(contents[path])
                file.flush()
            if not wanted():
                _discard(staged, new_folders)
                return False
            for path in [path for path in contents if path not in new]:
                with os.fdopen(_through(path), "wb") as file:
                    file.write(contents[path])
            for path, target in targets.items():
                if path in new:
                    os.replace(_beside(new[path]), new[path])
                elif target is not None:
                    path.unlink(missing_ok=True)
        except BaseException:
            _discard(staged, new_folders)
            raise
    return True


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other processes from writing into the folder; the lock ends with this process, however that ends.

    The folder is made, and removed again if nothing was written.

    Raises:
        MemPlaceError: if another process writes into it, or it is no folder.
    """
    if folder.exists() and not folder.is_dir():
        raise MemPlaceError(f"{folder} exists and is not a folder; pass another --out.")
    new_folders = _make_folders(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not _locked(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            raise MemPlaceError(f"Another run writes into {folder}; wait for it, or pass another --out.")
        yield
    finally:
        _locked(handle, fcntl.LOCK_UN)  # closing is not enough where a process that was forked has the folder open
        os.close(handle)
        _remove_empty(new_folders)


def is_empty(folder: Path) -> bool:
    """Return whether a folder holds nothing but, perhaps, a half-written file of a killed process."""
    return not folder.exists() or all(fnmatch(path.name, ".*.new") for path in folder.iterdir())


def _target(path: Path) -> Path | None:
    """Return the file to rename over when a path is written, existing or not; None to write into what is there.

    Raises:
        OSError: a folder is there, or another thing that can be neither; `strerror` is the end of a sentence.
    """
    if _descriptor(path) is not None:
        return None
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(there.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISFIFO(there.st_mode) or stat.S_ISCHR(there.st_mode):
        return None
    if not stat.S_ISREG(there.st_mode):
        raise OSError(errno.EINVAL, "it is not a file, a pipe or a character device", str(path))
    return target


def _descriptor(path: Path) -> int | None:
    """Return the number of the open file of this process that a path such as /dev/stdout means, None for others.

    To rename over it, or to open it anew, would lose what was written to it before.
    """
    mine = f"/proc/{os.getpid()}/fd"
    for _ in range(_LINKS):
        if path.name.isdecimal() and os.path.realpath(path.parent) == mine:
            return int(path.name)
        if not path.is_symlink():
            break
        path = path.parent / os.readlink(path)
    return None


def _through(path: Path) -> int:
    """Open a pipe, a device or a file that is open already, for writing."""
    number = _descriptor(path)
    if number is not None:
        return os.dup(number)
    return os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOCTTY)


def _beside(path: Path) -> Path:
    """Return the name under which a file is written before it is renamed."""
    return path.with_name(f".{path.name}.new")


def _opened(path: Path, like: Path) -> int:
    """Open an empty file that no other process writes at the same time; one left from a dead process is taken over.

    It has the permissions of the file `like`, if that is there.
    """
    while True:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        ours = False
        try:
            _locked(handle, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                ours = os.path.samestat(os.fstat(handle), os.stat(path))
            if ours:  # the process that held the lock before has not renamed or removed it
                os.ftruncate(handle, 0)
                with suppress(FileNotFoundError):
                    os.fchmod(handle, stat.S_IMODE(os.stat(like).st_mode))
                return handle
        except BaseException:
            if ours:
                path.unlink(missing_ok=True)
            os.close(handle)
            raise
        os.close(handle)


def _locked(handle: int, operation: int) -> bool:
    """Lock or unlock an open file; return False if another process holds the lock."""
    try:
        fcntl.flock(handle, operation)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and its parents; return those that were not there, the innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _discard(staged: Iterable[Path], new_folders: list[Path]) -> None:
    for path in staged:
        path.unlink(missing_ok=True)
    _remove_empty(new_folders)


def _remove_empty(folders: list[Path]) -> None:
    for path in folders:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()

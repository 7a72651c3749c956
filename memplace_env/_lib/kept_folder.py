"""Folders that keep what was made from code and models, until these change."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numba
from numba.misc.appdirs import AppDirs


def kept_folder(name: str, digest: str) -> Path | None:
    """Return the folder of that name for what was made under this digest, made if need be; None if none can be written.

    It is below `NUMBA_CACHE_DIR` if that is set, else beside the package, else in the user's cache folder, else in a
    private folder for temporary files. When it is made, folders of that name with other digests go.
    """
    for base in _bases():
        folder = base / f"{name}-{digest}"
        with suppress(OSError):
            fresh = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            if fresh:
                for old in base.glob(f"{name}-*"):
                    if old != folder:
                        shutil.rmtree(old, ignore_errors=True)
            return folder
    return None


def _bases() -> Iterator[Path]:
    given: str = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    if given:
        yield Path(given)
    yield Path(__file__).parents[1] / "__pycache__"
    yield Path(AppDirs(appname="memplace", appauthor=False).user_cache_dir)  # type: ignore[no-untyped-call]
    with suppress(OSError):
        yield _private_temporary()


def _private_temporary() -> Path:
    """Return a folder that no other user can write into, as machine code is loaded from it.

    Raises:
        OSError: if it cannot be made, or another user made it.
    """
    owner = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"memplace-{owner}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or (
        hasattr(os, "getuid") and (status.st_uid != owner or status.st_mode & 0o022)
    ):
        raise PermissionError(f"{folder} is not private")
    return folder

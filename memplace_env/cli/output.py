"""Where results go."""

from __future__ import annotations

import os
import re
from pathlib import Path

from memplace_env.cli.interrupts import finishing
from memplace_env.errors import MemPlaceError
from memplace_env.workload.resolve import SUFFIXES


def default_folder(model: str, accelerator: str) -> Path:
    """`out/<model>-<accelerator>`, with what file systems dislike replaced."""
    return Path("out") / slug(f"{short_name(model)}-{accelerator}")


def short_name(model: str) -> str:
    """What folders are called after: the model's name, or the stem of its file."""
    return Path(model).stem if model.lower().endswith(SUFFIXES) else model


def slug(name: str) -> str:
    """A name without what file systems dislike."""
    return re.sub(r"[^\w.+-]+", "-", name)


def check_folder(folder: Path) -> None:
    """Find out before a long search that the results could not be written.

    Raises:
        MemPlaceError: if the folder is a file, or it could not be made or written.
    """
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise MemPlaceError(f"--out {folder} cannot be a folder: {existing} is a file; pass another place.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise MemPlaceError(f"--out {folder} cannot be written: no permission in {existing}; pass another place.")
<<<<<<< HEAD


def write_folder(folder: Path, files: Mapping[str, bytes | None]) -> None:
    """Write the files into the folder, after all of them are safely on the disk; None removes an old one.

    An interrupt waits for it.

    Raises:
        OSError: if that fails; files of an earlier run are then still as they were.
    """
    with finishing():
        _write_folder(folder, files)


def _write_folder(folder: Path, files: Mapping[str, bytes | None]) -> None:
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    staging = None
    try:
        staging = Path(tempfile.mkdtemp(prefix=".memplace-", dir=folder))
        contents = {name: content for name, content in files.items() if content is not None}
        for name, content in contents.items():
            (staging / name).write_bytes(content)
        for name in files:
            if (folder / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, "Is a directory", str(folder / name))
        for name in files:
            if name in contents:
                os.replace(staging / name, folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        staging.rmdir()
    except BaseException:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        for path in made:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        raise
=======
>>>>>>> learned

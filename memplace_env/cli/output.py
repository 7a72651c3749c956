"""Where results go."""

from __future__ import annotations

import os
import re
from pathlib import Path

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

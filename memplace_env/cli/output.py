"""Folders for results."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from memplace_env._lib.errors import MemPlaceError
from memplace_env.placement.workloads import SUFFIXES
from memplace_env.program.model_file import format_of, name_of

_LONGEST_NAME = 120
"""Characters of a model in a folder's name at most; file systems allow 255. Our choice."""


def default_folder(model: str, accelerator: str, simulator: str | None = None, agents: Iterable[str] = ()) -> Path:
    """Return `out/<model>-<accelerator>`, with characters that file systems dislike replaced.

    A file that is not in the current folder is named with its folders, so that two of one name do not share theirs.
    A simulator, see `ModelFlags.other_simulator`, follows as `-<simulator>`, agents as `-<agent>+<agent>`, so that each
    has a folder of its own: latencies of two simulators do not compare.
    """
    return Path("out") / slug("-".join(filter(None, (_long_name(model), accelerator, simulator, "+".join(agents)))))


def _long_name(model: str) -> str:
    """Return the model's name, or the path of its file, without its suffix and cut in front.

    The path is that from the current folder if the file is in it or below, else from the root.
    """
    if format_of(model) not in SUFFIXES:
        return model
    path, here = Path(os.path.abspath(model)).with_name(name_of(model)), Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path.relative_to(path.anchor)
    return "-".join(shown.parts)[-_LONGEST_NAME:]


def short_name(model: str) -> str:
    """Return the model's name, or the stem of its file, for names of folders."""
    return name_of(model) if format_of(model) in SUFFIXES else model


def slug(name: str) -> str:
    """Return a name without characters that file systems dislike."""
    return re.sub(r"[^\w.+-]+", "-", name)


def check_folder(folder: Path, flag: str = "--out") -> None:
    """Check before a long search that the results can be written.

    Raises:
        MemPlaceError: if the folder is a file, or cannot be created or written.
    """
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise MemPlaceError(f"{flag} {folder} cannot be a folder: {existing} is a file; pass another place.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise MemPlaceError(f"{flag} {folder} cannot be written: no permission in {existing}; pass another place.")

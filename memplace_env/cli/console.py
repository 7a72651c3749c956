"""Output: results go to stdout or a folder, everything else to stderr."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from memplace_env._lib.errors import MemPlaceError
from memplace_env._lib.foreign import escaped
from memplace_env._lib.logger import LOGGER
from memplace_env.placement.workloads import SUFFIXES
from memplace_env.program.model_file import format_of, name_of

_PIPED_WIDTH, _NARROWEST, _WIDEST = 140, 20, 1000


class _Plain(Console):
    """A console that shows each text as it is: markup, emoji codes and commands to the terminal are only letters."""

    def render_str(self, text: str, **look: Any) -> Text:
        """Return the escaped text."""
        return Text(escaped(text), style=look.get("style", ""))


def stdout() -> Console:
    """Return the console for results; in a pipe or file it is wide enough for most tables."""
    return _console(sys.stdout, None if "COLUMNS" in os.environ else _PIPED_WIDTH)


def stderr() -> Console:
    """Return the console for progress, notes and errors."""
    return _console(sys.stderr)


def _console(file: Any, piped_width: int | None = None) -> Console:
    console = _Plain(file=file, highlight=False)
    width = console.width if console.is_terminal or piped_width is None else piped_width
    console.width = min(max(width, _NARROWEST), _WIDEST)
    return console


def note(text: str) -> None:
    """Print a line beside the results; a failure to do so is ignored."""
    with suppress(OSError):
        stderr().print(text, style="dim", soft_wrap=True)


class _Notes(logging.Handler):
    """Notes of the library's warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message."""
        note(record.getMessage())


_NOTES = _Notes(logging.WARNING)


def show_warnings() -> None:
    """Print the library's warnings beside the results from now on."""
    LOGGER.addHandler(_NOTES)


def print_json(value: Any) -> None:
    """Print the JSON document of a `--json` run."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


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

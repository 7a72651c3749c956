"""Consoles: results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.text import Text

from memplace_env._lib.foreign import escaped
from memplace_env._lib.logger import LOGGER

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

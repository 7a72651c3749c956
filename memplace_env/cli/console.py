"""Where output goes: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.text import Text

from memplace_env.foreign import escaped

_PIPED_WIDTH, _NARROWEST, _WIDEST = 140, 20, 1000


class _Plain(Console):
    """Shows each text on a line and as it is: markup, emoji codes and what a terminal would obey are only letters."""

    def render_str(self, text: str, **look: Any) -> Text:
        """The text."""
        return Text(escaped(text), style=look.get("style", ""))


def stdout() -> Console:
    """For results; in a pipe or file wide enough that tables are not folded."""
    return _console(sys.stdout, None if "COLUMNS" in os.environ else _PIPED_WIDTH)


def stderr() -> Console:
    """For progress, notes and errors."""
    return _console(sys.stderr)


def _console(file: Any, piped_width: int | None = None) -> Console:
    console = _Plain(file=file, highlight=False)
    width = console.width if console.is_terminal or piped_width is None else piped_width
    console.width = min(max(width, _NARROWEST), _WIDEST)
    return console


def note(text: str) -> None:
    """A line beside the results, which is no reason to give those up."""
    with suppress(OSError):
        stderr().print(text, style="dim", soft_wrap=True)


def print_json(value: Any) -> None:
    """The one JSON document of a `--json` run."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")

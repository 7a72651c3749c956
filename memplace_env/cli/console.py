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

_PIPED_WIDTH, _NARROWEST = 140, 20


class _Plain(Console):
    """Shows each text on a line and as it is: markup, emoji codes and what a terminal would obey are only letters."""

    def render_str(self, text: str, **look: Any) -> Text:
        """The text."""
        return Text(escaped(text), style=look.get("style", ""))


def stdout() -> Console:
    """For results; in a pipe or file wide enough that tables are not folded."""
    console = _Plain(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED_WIDTH
    console.width = max(console.width, _NARROWEST)
    return console


def stderr() -> Console:
    """For progress, notes and errors."""
    return _Plain(stderr=True, highlight=False)


def note(text: str) -> None:
    """A line beside the results, which is no reason to give those up."""
    with suppress(OSError):
        stderr().print(text, style="dim", soft_wrap=True)


def print_json(value: Any) -> None:
    """The one JSON document of a `--json` run."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")

"""Where output goes: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from rich.console import Console

_PIPED_WIDTH = 140


def stdout() -> Console:
    """For results; in a pipe or file wide enough that tables are not cut."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED_WIDTH
    return console


def stderr() -> Console:
    """For progress, notes and errors."""
    return Console(stderr=True, highlight=False)


def note(text: str) -> None:
    """A line beside the results."""
    stderr().print(text, style="dim", markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """The one JSON document of a `--json` run."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")

"""README's first command prints what README says."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.conftest import Run

README = Path(__file__).parents[2] / "README.md"
SECONDS = re.compile(r"\s+(\d+\.\d+|–)$")
"""The last column of a row of the table: seconds, or none."""


def lines(text: str) -> list[str]:
    """Return the lines that are not empty, without seconds and with single spaces."""
    return [" ".join(SECONDS.sub("", line.rstrip()).split()) for line in text.splitlines() if line.strip()]


@pytest.mark.slow
def test_the_first_command_prints_readmes_figures(run: Run) -> None:
    section = README.read_text("utf-8").partition("## One command\n")[2]
    command, shown = re.findall(r"(?m)^    .*(?:\n(?:    .*)?$)*", section)[:2]
    result = run(*dedent(command).split()[1:])
    assert result.exit_code == 0, result.stderr
    expected, printed = lines(dedent(shown)), lines(result.stdout)
    first = printed.index(expected[0])
    assert printed[first : first + len(expected)] == expected

"""A campaign of hostile input: `python -m tests.fuzz`. Each kind of case is a module in `kinds/`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memplace_env._lib.errors import MemPlaceError

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
"""Folder of the campaigns' records."""


class Wrong(Exception):  # noqa: N818 - a finding, not an error
    """An input was accepted that is wrong."""


@contextmanager
def accepted() -> Iterator[None]:
    """Work with what was accepted: a refusal in the block is a finding, and no refused input.

    Raises:
        Wrong: in place of a MemPlaceError.
    """
    try:
        yield
    except MemPlaceError as error:
        raise Wrong(f"accepted, and later {type(error).__name__}: {error}") from error

"""A campaign of hostile input: `python -m tests.fuzz`. Each kind of case is a module in `kinds/`."""

from __future__ import annotations


class Wrong(Exception):  # noqa: N818 - a finding, not an error
    """An input was accepted that is wrong."""

"""A campaign of hostile input: `python -m benchmarks.fuzz`. Each kind of case is a module in `kinds/`."""

from __future__ import annotations


class Wrong(Exception):  # noqa: N818 - a finding, not an error
    """Something was accepted that is wrong."""

"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A GitHub table; the first column is aligned left, all others right."""
    lines = [headers, ["---", *["--:"] * (len(headers) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

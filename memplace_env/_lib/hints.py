"""Hints in errors about an unknown name: the name that was probably meant, or all names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: object, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant, if any is close; case does not count, and a beginning is close."""
    if not isinstance(name, str) or not name:
        return None
    by_lower = {other.lower(): other for other in names}
    close = get_close_matches(name.lower(), by_lower, n=1) or [x for x in by_lower if x.startswith(name.lower())]
    return by_lower[close[0]] if close else None


def instead(name: object, names: Iterable[str]) -> str:
    """Return the end of a sentence: "did you mean 'exact'?", or "there are egrl, exact." if none is close."""
    names = list(names)
    close = nearest(name, names)
    return f"did you mean {close!r}?" if close else f"there are {', '.join(names)}."

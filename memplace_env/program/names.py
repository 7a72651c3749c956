"""Names read from files: safe to show, and short enough to derive other names from."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from memplace_env._lib.foreign import printable

LONGEST: Final = 200
"""Most characters of a name that is shown; our choice."""

# Characters that `stem` keeps of a long name's start and end, and of its digest.
_HEAD, _TAIL, _DIGEST = 120, 60, 16


def clean(name: str) -> str:
    """Return a name for tables, pictures and JSON: printable, at most `LONGEST` characters; mostly the name itself."""
    if len(name) <= LONGEST and name.isprintable():
        return name
    return stem(printable(stem(name)))


def stem(name: str) -> str:
    """Return a prefix for derived names: the name itself, or for a long one a unique abbreviation.

    Otherwise names derived from a name of megabytes would take more memory than the file.
    """
    if len(name) <= LONGEST:
        return name
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{name[:_HEAD]}~{digest[:_DIGEST]}~{name[-_TAIL:]}"

"""Names out of files: what is made of them where they are shown, and where other names are made from them."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from memplace_env.foreign import printable

LONGEST: Final = 200
"""Characters of a name that is shown; our choice."""

_HEAD, _TAIL, _DIGEST = 120, 60, 16


def clean(name: str) -> str:
    """The name for tables, pictures and JSON: printable, at most `LONGEST` characters, so usually the name itself."""
    if len(name) <= LONGEST and name.isprintable():
        return name
    return stem(printable(stem(name)))


def stem(name: str) -> str:
    """What other names may begin with: the name itself, or a short one that no other name has in its place.

    Without it, names made from a name of megabytes would take memory that no file has.
    """
    if len(name) <= LONGEST:
        return name
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{name[:_HEAD]}~{digest[:_DIGEST]}~{name[-_TAIL:]}"

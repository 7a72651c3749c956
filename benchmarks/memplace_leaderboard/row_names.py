"""Names of rows: one alphabet, no two that look alike, and no agent's name on another one's row."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from memplace_agents.built_in_agents import BUILT_IN
from memplace_env._lib.errors import LeaderboardError
from memplace_leaderboard.submission import Meta

ALIKE: Final = str.maketrans("01i52", "ollsz")
"""Digits and letters, and those that they are mistaken for. Our choice."""
PAIRS: Final = (("rn", "m"), ("vv", "w"), ("cl", "d"))
"""Pairs of letters that are mistaken for one. Our choice."""
_SIGNS: Final = re.compile(r"[^a-z0-9]+")
_VERSION: Final = re.compile(r"(?<=[0-9])[^a-z0-9]+(?=[0-9])")


def look(name: str) -> str:
    """Return what is left of a name for a hasty reader: equal for names that look alike."""
    apart = _VERSION.sub("\0", name.casefold())  # 1.0 is not 10
    letters = "\0".join(_SIGNS.sub("", part) for part in apart.split("\0")).translate(ALIKE)
    for pair, letter in PAIRS:
        letters = letters.replace(pair, letter)
    return letters


_BUILT_IN: Final = {look(spec.name): spec.name for spec in BUILT_IN}


def check_name(meta: Meta) -> None:
    """Raise a LeaderboardError if a row has the name of an agent of this package, or one like it, and is another."""
    own = _BUILT_IN.get(look(meta.name))
    if own is not None and ((meta.name, meta.agent) != (own, own) or meta.options):
        raise LeaderboardError(
            f"{meta.name!r} is or looks like {own!r}, the name of an agent of memplace with its default options; give "
            "the row another name."
        )


def check_unique(names: Iterable[str]) -> None:
    """Raise a LeaderboardError if two names of submissions look alike."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(look(name))
        if other is not None:
            same = f"Two submissions are called {name!r}" if other == name else f"{name!r} looks like {other!r}"
            raise LeaderboardError(f"{same}; each row needs a name of its own.")
        seen[look(name)] = name

"""How much a model file may ask for. A model that is over a limit is refused by an error that names it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

from memplace_env.errors import WorkloadError

MAX_FILE_BYTES: Final = 2**31 - 1
"""Of a model file; protocol buffers and flat buffers end there too."""

MAX_RANK: Final = 64
"""Dims of a tensor, as NumPy has it."""

LIMITS: Final[Mapping[str, int]] = {
    "nodes": 100_000,
    "operands and results": 400_000,
    "nodes in branches within branches": 100_000,
    "bytes of local functions": 2**28,
    "elements of computed constants": 2**26,
}
"""Of one model, local functions and the branches that are taken counted as often as they are used. All are ours: far
above what exporters write, and below what would keep a machine busy for minutes."""

SECONDS: Final = 60.0
"""Of one pass over a model, should all of the above let something through."""


class Meter:
    """Counts what a model asks for."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()
        self._until = time.monotonic() + SECONDS

    def add(self, what: str, amount: int) -> None:
        """Counts `amount` more of `what`, a key of `LIMITS`.

        Raises:
            WorkloadError: that is more than there may be, or it has taken too long.
        """
        self._spent[what] += amount
        if self._spent[what] > LIMITS[what]:
            raise WorkloadError(
                f"The model has over {LIMITS[what]:,} {what} once its functions and branches stand in place, which "
                "is the most that is read; split it into smaller models."
            )
        if time.monotonic() > self._until:
            raise WorkloadError(
                f"Reading the model takes over {SECONDS:.0f} s, the most that a pass may take; split it into smaller "
                "models, or use a faster machine."
            )

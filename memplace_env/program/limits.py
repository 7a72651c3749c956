"""Limits on the size of model files. A model that exceeds one is refused with an error that names the limit."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.foreign import described

MAX_FILE_BYTES: Final = 2**31 - 1
"""Largest model file; protocol buffers and flat buffers have the same limit."""

MAX_RANK: Final = 64
"""Most dims of a tensor, as in NumPy."""

MAX_WORK: Final = 2**60
"""Most work of one op; more is a mistake in the dims, and could overflow int64 in sums."""

LIMITS: Final[Mapping[str, int]] = {
    "nodes": 100_000,
    "operands and results": 400_000,
    "nodes in branches within branches": 100_000,
    "bytes of local functions": 2**28,
    "elements of computed constants": 2**26,
}
"""Most items of each kind in one model. Local functions and taken branches count once per use. All numbers are our
choice: far above what exporters write, and below what would keep a machine busy for minutes."""

SECONDS: Final = 60.0
"""Most processor time of one pass over a model, for files that pass all the limits above and are slow even so."""


def check_trips(trips: int | None) -> None:
    """Refuse a number of rounds of loops that is no whole number from 0.

    Raises:
        WorkloadError: it is none.
    """
    if trips is not None and (not isinstance(trips, int | np.integer) or isinstance(trips, bool) or trips < 0):
        raise WorkloadError(f"trips is {described(trips)}; the number of rounds of a loop is a whole number from 0.")


class Meter:
    """Count the items of a model against `LIMITS`, and the time against `SECONDS`."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()
        self._until = time.thread_time() + SECONDS

    def add(self, kind: str, amount: int) -> None:
        """Count `amount` more items of `kind`, a key of `LIMITS`.

        Raises:
            WorkloadError: the limit or the time is exceeded.
        """
        self._spent[kind] += amount
        if self._spent[kind] > LIMITS[kind]:
            raise WorkloadError(
                f"The model has over {LIMITS[kind]:,} {kind} once its functions and branches are inlined, which is the "
                "most that is read; split it into smaller models."
            )
        if time.thread_time() > self._until:
            raise WorkloadError(
                f"Reading the model takes over {SECONDS:.0f} s of the processor's time, the most that a pass may take; "
                "split it into smaller models."
            )

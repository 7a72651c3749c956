"""Plans and measurements as bytes between an agent's process and the judge's, which trusts nothing that it reads."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from memplace_env._lib.errors import LeaderboardError
from memplace_env.placement.memory_plan import ALLOCATION, TRANSFER, MemoryPlan
from memplace_env.placement.task import Task

MESSAGE_BYTES: Final = 2**26
"""Largest message from an agent's process."""
_COUNT: Final = struct.Struct("<q")
_SIZES: Final = struct.Struct("<qqq")


def to_bytes(plans: Sequence[MemoryPlan]) -> bytes:
    """Return the arrays of plans; names, hashes and settings are those of the judge's task."""
    parts = [_COUNT.pack(len(plans))]
    for plan in plans:
        parts += [
            _SIZES.pack(len(plan.use_level), len(plan.allocations), len(plan.transfers)),
            np.ascontiguousarray(plan.use_level, dtype="<i1").tobytes(),
            np.ascontiguousarray(plan.allocations, dtype="<i8").tobytes(),
            np.ascontiguousarray(plan.transfers, dtype="<i8").tobytes(),
        ]
    return b"".join(parts)


def from_bytes(data: bytes, task: Task) -> list[MemoryPlan]:
    """Return the plans of `to_bytes` for a task; they may still be invalid.

    Raises:
        LeaderboardError: if the bytes are not what `to_bytes` makes.
    """
    try:
        (count,), at = _COUNT.unpack_from(data), _COUNT.size
        if count < 0:
            raise ValueError("the number of plans is negative")
        plans = []
        for _ in range(count):
            uses, blocks, copies = _SIZES.unpack_from(data, at)
            if min(uses, blocks, copies) < 0:
                raise ValueError("a size is negative")
            at += _SIZES.size
            use_level = np.frombuffer(data, "<i1", uses, at)
            at += uses
            allocations = np.frombuffer(data, "<i8", blocks * len(ALLOCATION), at)
            at += allocations.nbytes
            transfers = np.frombuffer(data, "<i8", copies * len(TRANSFER), at)
            at += transfers.nbytes
            plans.append(task.make_plan(use_level, allocations, transfers.reshape(-1, len(TRANSFER))))
        if at != len(data):
            raise ValueError("something follows the last plan")
    except (ValueError, struct.error, OverflowError) as error:
        raise LeaderboardError(f"an agent's process sent plans that cannot be read ({error}).") from None
    return plans

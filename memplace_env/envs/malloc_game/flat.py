"""The observation of the game as one vector, for networks that read no pictures."""

from __future__ import annotations

from typing import Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env.envs.malloc_game.observation import AHEAD, BINS, LOOKAHEAD, PROGRESS, TENSOR, Observations
from memplace_env.kernel import kernel
from memplace_env.threads import in_chunks

COARSE: Final = 8
"""Address bins of the coarse profile, and its columns of ops."""
SPAN: Final = BINS // COARSE
"""Bins and ops of the profile that one cell of the coarse one is the mean of."""

_FIRST_PROGRESS = len(TENSOR)
_FIRST_MASK = _FIRST_PROGRESS + len(PROGRESS)
_FIRST_BANDWIDTH = _FIRST_MASK + 3
_FIRST_PROFILE = _FIRST_BANDWIDTH + COARSE
_FIRST_AHEAD = _FIRST_PROFILE + 2 * COARSE * COARSE
_SIZE = _FIRST_AHEAD + AHEAD * len(LOOKAHEAD)


def flat_space() -> spaces.Box:
    """Box(0, 1, (546,) float32): what `dict_space` says, with the profile and the bandwidth coarser.

    | numbers               | meaning                                                                                |
    |-----------------------|----------------------------------------------------------------------------------------|
    | 0..16 `tensor`        | its 17 columns                                                                         |
    | 17..22 `progress`     | its 6 columns                                                                          |
    | 23..25 `action_mask`  | 1 for legal Copy, NoCopy, Drop                                                         |
    | 26..33 `bandwidth`    | means over 8 ops, the last number is about the current op and the seven before         |
    | 34..161 `profile`     | (2, 8, 8): channel, address, op; means over 8 address bins and 8 ops, 1: all of it     |
    | 162..545 `lookahead`  | (32, 12): the decisions from the current one on, row by row                            |
    """
    return spaces.Box(0, 1, (_SIZE,), np.float32)


def empty_flat(count: int) -> NDArray[np.float32]:
    """An uninitialised array for so many states."""
    return np.empty((count, _SIZE), np.float32)


def flatten(seen: Observations, into: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """float32[B, 546] of the observations of B states, see `flat_space`; a new array unless there is one to fill."""
    count = len(seen.tensor)
    flat = empty_flat(count) if into is None else into
    assert len(flat) == count
    in_chunks(lambda first, last: _flatten_all(seen.part(first, last), flat[first:last]), count)
    return flat


@kernel
def _flatten_all(seen, flat):
    for index in range(len(flat)):
        row = flat[index]
        row[:_FIRST_PROGRESS] = seen.tensor[index]
        row[_FIRST_PROGRESS:_FIRST_MASK] = seen.progress[index]
        for action in range(3):
            row[_FIRST_MASK + action] = seen.action_mask[index, action]
        for part in range(COARSE):
            row[_FIRST_BANDWIDTH + part] = min(seen.bandwidth[index, part * SPAN : (part + 1) * SPAN].mean(), 1.0)
        _coarsen(seen.profile[index].reshape(2 * BINS * BINS).view(np.uint64), row[_FIRST_PROFILE:_FIRST_AHEAD])
        row[_FIRST_AHEAD:] = seen.lookahead[index].reshape(AHEAD * len(LOOKAHEAD))


@kernel
def _coarsen(words, cells):
    """Means of a profile, as words of eight cells, over blocks of 8 x 8; the sums of a block stand in four lanes."""
    lanes, every, byte = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0001000100010001), np.uint64(8)
    for block in range(2 * COARSE):
        for part in range(COARSE):
            sums = np.uint64(0)
            for line in range(SPAN):
                word = words[(block * SPAN + line) * COARSE + part]
                sums += (word & lanes) + (word >> byte & lanes)
            cells[block * COARSE + part] = np.int64(sums * every >> np.uint64(48)) / (255 * SPAN * SPAN)

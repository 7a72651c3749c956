"""The observation of the game as one vector, for networks without convolutions."""

from __future__ import annotations

from typing import Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env._lib.kernel import kernel
from memplace_env._lib.threads import in_chunks
from memplace_env.envs.malloc_game.observation import AHEAD, BINS, LOOKAHEAD, PROGRESS, TENSOR, Observations

COARSE: Final = 8
"""Address bins of the coarse profile, and its columns of ops."""
SPAN: Final = BINS // COARSE
"""Address bins, and ops, of the fine profile in one cell of the coarse one."""

_FIRST_PROGRESS = len(TENSOR)
_FIRST_MASK = _FIRST_PROGRESS + len(PROGRESS)
_FIRST_BANDWIDTH = _FIRST_MASK + 3
_FIRST_PROFILE = _FIRST_BANDWIDTH + COARSE
_FIRST_AHEAD = _FIRST_PROFILE + 2 * COARSE * COARSE
_SIZE = _FIRST_AHEAD + AHEAD * len(LOOKAHEAD)


def flat_space() -> spaces.Box:
    """Return Box(0, 1, (546,) float32): the fields of `dict_space`, with the profile and the bandwidth coarser.

    | numbers               | meaning                                                                                |
    |-----------------------|----------------------------------------------------------------------------------------|
    | 0..16 `tensor`        | its 17 columns                                                                         |
    | 17..22 `progress`     | its 6 columns                                                                          |
    | 23..25 `action_mask`  | 1 for legal Copy, NoCopy, Drop                                                         |
    | 26..33 `bandwidth`    | means over 8 ops; the last number covers the current op and the seven before           |
    | 34..161 `profile`     | (2, 8, 8): channel, address, op; means over 8 address bins and 8 ops, 1: full          |
    | 162..545 `lookahead`  | (32, 12): the decisions from the current one on, row by row                            |
    """
    return spaces.Box(0, 1, (_SIZE,), np.float32)


def empty_flat(count: int) -> NDArray[np.float32]:
    """Return float32[count, 546], uninitialised."""
    return np.empty((count, _SIZE), np.float32)


def flatten(observations: Observations, into: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """Return float32[B, 546] of the observations of B states, see `flat_space`; in `into` if that is given."""
    count = len(observations.tensor)
    flat = empty_flat(count) if into is None else into
    assert len(flat) == count
    in_chunks(lambda first, last: _flatten_all(observations.part(first, last), flat[first:last]), count)
    return flat


@kernel
def _flatten_all(arrays, flat):
    # One state per pass; its parts stand in the row in the order of the table of `flat_space`.
    for index in range(len(flat)):
        row = flat[index]
        row[:_FIRST_PROGRESS] = arrays.tensor[index]
        row[_FIRST_PROGRESS:_FIRST_MASK] = arrays.progress[index]
        for action in range(3):
            row[_FIRST_MASK + action] = arrays.action_mask[index, action]
        for part in range(COARSE):
            row[_FIRST_BANDWIDTH + part] = min(arrays.bandwidth[index, part * SPAN : (part + 1) * SPAN].mean(), 1.0)
        _coarsen(arrays.profile[index].reshape(2 * BINS * BINS).view(np.uint64), row[_FIRST_PROFILE:_FIRST_AHEAD])
        row[_FIRST_AHEAD:] = arrays.lookahead[index].reshape(AHEAD * len(LOOKAHEAD))


@kernel
def _coarsen(words, cells):
    """Fill `cells` with the means of a profile, as words of eight cells, over blocks of 8 x 8 cells."""
    # A word's even and odd bytes are added to four lanes of 16 bits; 8 lines sum to at most 16 * 255 < 2**16 in each.
    # Multiplying by `every` adds the four lanes up in the highest one: at most 64 * 255, which fits too.
    lanes, every, byte = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0001000100010001), np.uint64(8)
    # `block` counts (channel, coarse address bin), `part` coarse columns of ops; a line of a profile has COARSE words.
    for block in range(2 * COARSE):
        for part in range(COARSE):
            sums = np.uint64(0)
            for line in range(SPAN):
                word = words[(block * SPAN + line) * COARSE + part]
                sums += (word & lanes) + (word >> byte & lanes)
            cells[block * COARSE + part] = np.int64(sums * every >> np.uint64(48)) / (255 * SPAN * SPAN)

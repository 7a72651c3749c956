"""The observation of the game as one vector, for networks without convolutions."""

from __future__ import annotations

from typing import Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.observation import AHEAD, BINS, LOOKAHEAD, PROGRESS, TENSOR
from memplace_env.envs.malloc_game.observation_parts import (
    fill_bandwidth,
    fill_lookahead,
    fill_mask,
    fill_progress,
    fill_tensor,
)
from memplace_env.envs.malloc_game.occupancy import COARSE, SPAN
from memplace_env.envs.malloc_game.state import OP

_FIRST_PROGRESS = len(TENSOR)
_FIRST_MASK = _FIRST_PROGRESS + len(PROGRESS)
_FIRST_BANDWIDTH = _FIRST_MASK + 3
_FIRST_PROFILE = _FIRST_BANDWIDTH + COARSE
_FIRST_AHEAD = _FIRST_PROFILE + 2 * COARSE * COARSE
_SIZE = _FIRST_AHEAD + AHEAD * len(LOOKAHEAD)
MASK: Final = slice(_FIRST_MASK, _FIRST_BANDWIDTH)
"""The numbers that are the action mask."""


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


@kernel(forceinline=True, error_model="numpy")
def fill_flat(tables, layout, state, unchanging, profile, row):
    """Fill float32[546], the observation of a state with this coarse profile, see `flat_space`."""
    fill_tensor(tables, layout, state, unchanging, row[:_FIRST_PROGRESS])
    fill_progress(tables, layout, state, row[_FIRST_PROGRESS:_FIRST_MASK])
    fill_mask(state, row[_FIRST_MASK:_FIRST_BANDWIDTH])
    fill_bandwidth(tables, layout, state, row[_FIRST_BANDWIDTH:_FIRST_PROFILE])
    now = min(state[OP], len(tables.costs.compute_ps) - 1)
    cells = row[_FIRST_PROFILE:_FIRST_AHEAD].reshape(2 * COARSE, COARSE)
    sums = np.zeros((COARSE, 2 * COARSE), np.int32)
    # The ring's oldest op is the one after `now`; each eight ops from there on make a column.
    for age in range(BINS):
        column, ops = sums[age // SPAN], profile[(now + 1 + age) % BINS]
        for cell in range(2 * COARSE):
            column[cell] += ops[cell]
    for cell in range(2 * COARSE):
        for part in range(COARSE):
            cells[cell, part] = sums[part, cell] / (255 * SPAN * SPAN)
    fill_lookahead(tables, layout, state, unchanging.features, row[_FIRST_AHEAD:].reshape(AHEAD, len(LOOKAHEAD)))

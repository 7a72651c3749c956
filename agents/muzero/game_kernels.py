"""Compiled play of the game without its forced decisions."""

from __future__ import annotations

from numba import njit

from memplace_env.envs.malloc_game.rules import choose, play
from memplace_env.envs.malloc_game.state import MASK

NO_PLAY = -1
"""In the place of an action: play nothing but forced decisions."""


@njit(cache=True, nogil=True)
def play_to_next_choice(tables, layout, states, actions):  # type: ignore[no-untyped-def]
    """Play an action in each state, then all forced ones.

    Args:
        tables, layout: of the game.
        states: int64[B, size], changed in place; those of finished games stay as they are.
        actions: int64[B], or `NO_PLAY`.
    """
    for game in range(len(states)):
        state = states[game]
        if actions[game] != NO_PLAY and state[MASK] != 0:
            play(tables, layout, state, choose(state[MASK], actions[game]))
        while state[MASK] != 0 and state[MASK] & (state[MASK] - 1) == 0:
            play(tables, layout, state, choose(state[MASK], 0))

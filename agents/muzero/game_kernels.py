"""Compiled play of the game without its forced decisions."""

from __future__ import annotations

from memplace_env.envs.malloc_game.rules import play_nearest
from memplace_env.envs.malloc_game.state import MASK
from memplace_env.kernel import kernel

NO_PLAY = -1
"""In the place of an action: play nothing but forced decisions."""


@kernel
def play_to_next_choice(tables, layout, states, actions):
    """Play an action in each state, then all forced ones.

    Args:
        tables, layout: of the game.
        states: int64[B, size], changed in place; those of finished games stay as they are.
        actions: int64[B], or `NO_PLAY`.
    """
    for game in range(len(states)):
        state = states[game]
        if actions[game] != NO_PLAY:
            play_nearest(tables, layout, state, actions[game])
        while state[MASK] != 0 and state[MASK] & (state[MASK] - 1) == 0:
            play_nearest(tables, layout, state, 0)

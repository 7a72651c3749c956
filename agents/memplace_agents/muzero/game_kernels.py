"""Compiled play of the game without its forced decisions."""

from __future__ import annotations

from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.rules import play_nearest
from memplace_env.envs.malloc_game.state import MASK

NO_PLAY = -1
"""Stands for an action: play nothing but forced decisions."""


@kernel
def play_to_next_choice(tables, layout, states, actions):
    """Play an action in each state, then all forced ones.

    Args:
        tables, layout: tables and layout of the game.
        states: int64[B, size], changed in place; those of finished games stay as they are.
        actions: int64[B], or `NO_PLAY`.
    """
    for game in range(len(states)):
        state = states[game]
        if actions[game] != NO_PLAY:
            play_nearest(tables, layout, state, actions[game])
        # state[MASK] has a bit for each legal action: 0 once the game is over, and x & (x - 1) clears the lowest bit,
        # so it is 0 if a single action is legal. That one is played, as `play_nearest` replaces illegal actions.
        while state[MASK] != 0 and state[MASK] & (state[MASK] - 1) == 0:
            play_nearest(tables, layout, state, 0)

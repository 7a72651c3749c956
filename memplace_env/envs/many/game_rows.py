"""Kernels that play games of different programs by one call; the rows say what is played, see `EpisodeRows`."""

from __future__ import annotations

from memplace_env._lib.array_rows import viewed
from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.occupancy import draw_profiles
from memplace_env.envs.malloc_game.step import observe_state, step_state


@kernel
def step_games(
    tables, layout, unchanging, view, table_rows, layout_rows, unchanging_rows, state_rows,
    actions, moves, skip_forced, profiles, heads, into,
):  # fmt: skip
    """Play one decision in each game and observe, see `step.step_all`; the first four arguments give types alone.

    Args:
        tables, layout, unchanging, view: `EpisodeRows.like`.
        table_rows, layout_rows, unchanging_rows, state_rows: `EpisodeRows.matrices`.
        actions, moves, skip_forced, profiles, into: as for `step.step_all`.
        heads: int64[B, HEAD], filled with the first fields of the states.
    """
    for index in range(len(actions)):
        state, profile = viewed(view, state_rows[index]).state, profiles[index]
        own, at = viewed(tables, table_rows[index]), viewed(layout, layout_rows[index])
        moves[:, index] = step_state(own, at, state, actions[index], skip_forced, profile)
        observe_state(own, at, state, viewed(unchanging, unchanging_rows[index]), profile, into, index)
        # Masks, estimates and whether a game is over are read from the heads, for all games at once.
        heads[index] = state[: heads.shape[1]]


@kernel
def observe_games(
    tables, layout, unchanging, view, table_rows, layout_rows, unchanging_rows, state_rows, which, profiles, into
):
    """Draw the profiles of the games `which`, int64[n], and observe them, in rows of `profiles` and `into`."""
    for index in which:
        state = viewed(view, state_rows[index]).state
        own, at = viewed(tables, table_rows[index]), viewed(layout, layout_rows[index])
        draw_profiles(own, at, state.reshape(1, len(state)), profiles[index : index + 1])
        observe_state(own, at, state, viewed(unchanging, unchanging_rows[index]), profiles[index], into, index)

"""Moves together with the observations after them, as compiled functions of one state, and of a batch."""

from __future__ import annotations

import numpy as np

from memplace_env._lib.array_rows import at
from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.flat import fill_flat
from memplace_env.envs.malloc_game.observation_parts import (
    fill_bandwidth,
    fill_lookahead,
    fill_mask,
    fill_progress,
    fill_tensor,
)
from memplace_env.envs.malloc_game.occupancy import before_move, copy_profile, update_profile
from memplace_env.envs.malloc_game.rules import is_forced, play, play_nearest
from memplace_env.envs.malloc_game.state import MASK


@kernel
def step_all(tables, layout, unchanging, states, actions, skip_forced, moves, heads, profiles, into, first, last):
    """Play one decision in games first..last-1 of B by `step_state`, and fill `into` with the observations after it.

    Args:
        tables, layout, unchanging, states: `AddressRows` of what each game plays: its tables, its layout, the parts of
            its observations that never change, and its state.
        actions: int64[B]; an illegal one is replaced as by `rules.play_nearest`.
        skip_forced: whether forced decisions that follow are played, too.
        moves: int64[3, B], filled with what `step_state` returns.
        heads: int64[B, HEAD], filled with the first fields of the states.
        profiles: profiles of the states before, fine or coarse; brought up to date.
        into: `Observations`, or with coarse profiles float32[B, 546].
    """
    for index in range(first, last):
        its_tables, its_layout, state = at(tables, index), at(layout, index), at(states, index)
        moves[:, index] = step_state(its_tables, its_layout, state, actions[index], skip_forced, profiles[index])
        observe_state(its_tables, its_layout, state, at(unchanging, index), profiles[index], into, index)
        # Masks, estimates and whether a game is over are read from the heads, for all games at once.
        heads[index] = state[: heads.shape[1]]


@kernel
def observe_all(tables, layout, unchanging, states, which, profiles, into, first, last):
    """Fill rows i = first..last-1 of `into` with the observations of games `which[i]`, see `step_all`."""
    for row in range(first, last):
        index = which[row]
        its_tables, its_layout, state = at(tables, index), at(layout, index), at(states, index)
        observe_state(its_tables, its_layout, state, at(unchanging, index), profiles[index], into, row)


@kernel(borrows=True)
def step_state(tables, layout, state, action, skip_forced, profile):
    """Play a decision as `rules.play_nearest` does, and bring the state's profile up to date.

    With `skip_forced` the decisions that follow are played, too, as long as they have a single legal action.

    Returns:
        The gain of all of them in ps, the action played (-1 in a finished state), how many forced decisions followed.
    """
    before = before_move(tables, layout, state)
    gain, played = play_nearest(tables, layout, state, action)
    update_profile(tables, layout, state, before, profile)
    skipped = np.int64(0)
    while skip_forced and is_forced(state):
        before = before_move(tables, layout, state)
        gain += play(tables, layout, state, state[MASK] >> 1)  # of the masks 1, 2, 4 the actions 0, 1, 2
        update_profile(tables, layout, state, before, profile)
        skipped += 1
    return gain, played, skipped


@kernel(borrows=True, forceinline=True)
def observe_state(tables, layout, state, unchanging, profile, into, index):
    """Fill row `index` of the observations `into` of a state; a branch on `profile.ndim` is decided when compiled."""
    if profile.ndim == 2:
        fill_flat(tables, layout, state, unchanging, profile, into[index])
    else:
        copy_profile(profile, into.profile[index])
        fill_bandwidth(tables, layout, state, into.bandwidth[index])
        fill_lookahead(tables, layout, state, unchanging.features, into.lookahead[index])
        fill_tensor(tables, layout, state, unchanging, into.tensor[index])
        fill_progress(tables, layout, state, into.progress[index])
        fill_mask(state, into.action_mask[index])

"""Moves together with the observations after them, as compiled functions of one state, and of a batch."""

from __future__ import annotations

import numpy as np

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
def step_all(tables, layout, states, actions, moves, skip_forced, profiles, unchanging, into):
    """Play one decision in each state by `step_state`, and fill `into` with the observations after it.

    Args:
        tables, layout: tables and layout of the game.
        states: int64[B, size].
        actions: int[B]; an illegal one is replaced as by `rules.play_nearest`.
        moves: int64[3, B], filled with what `step_state` returns.
        skip_forced: whether forced decisions that follow are played, too.
        profiles: profiles of the states before, fine or coarse; brought up to date.
        unchanging: parts of observations that never change during a game.
        into: `Observations`, or with coarse profiles float32[B, 546].
    """
    for index in range(len(states)):
        state, profile = states[index], profiles[index]
        moves[:, index] = step_state(tables, layout, state, actions[index], skip_forced, profile)
        observe_state(tables, layout, state, unchanging, profile, into, index)


@kernel
def observe_all(tables, layout, states, unchanging, profiles, into):
    """Fill `into` with the observations of states whose profiles are given, as `step_all` does."""
    for index in range(len(states)):
        observe_state(tables, layout, states[index], unchanging, profiles[index], into, index)


@kernel
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


@kernel(forceinline=True)
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

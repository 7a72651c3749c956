"""Kernels that decide steps of different programs by one call; the rows say what is decided, see `EpisodeRows`."""

from __future__ import annotations

from memplace_env._lib.array_rows import viewed
from memplace_env._lib.kernel import kernel
from memplace_env.envs.steps.step_kernels import CURSOR, observe_state, step_state


@kernel
def step_episodes(tables, view, table_rows, state_rows, actions, moves, decisions, heads, into):
    """Decide the next entry in each episode and observe; the first two arguments give types alone.

    Args:
        tables, view: `EpisodeRows.like`.
        table_rows, state_rows: `EpisodeRows.matrices`.
        actions: int64[B], levels wanted.
        moves: int64[2, B], filled with the picoseconds gained and the levels given, see `step_state`.
        decisions: int64[B], filled with the decision of an assignment that comes next, -1 at the end.
        heads: int64[B, HEAD], filled with the first fields of the states.
        into: float32[B, N], filled with the observations.
    """
    for index in range(len(actions)):
        state, own = viewed(view, state_rows[index]).state, viewed(tables, table_rows[index])
        moves[0, index], moves[1, index] = step_state(own, state, actions[index])
        observe_state(own, state, into[index])
        # Masks, estimates and whether an episode is over are read from the heads, for all episodes at once.
        heads[index] = state[: heads.shape[1]]
        decisions[index] = own.decision[state[CURSOR]] if state[CURSOR] < len(own.decision) else -1


@kernel
def observe_episodes(tables, view, table_rows, state_rows, which, into):
    """Observe the episodes `which`, int64[n], in rows of `into`, float32[B, N]."""
    for index in which:
        observe_state(viewed(tables, table_rows[index]), viewed(view, state_rows[index]).state, into[index])

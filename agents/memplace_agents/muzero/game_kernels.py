"""Compiled play of the game without its forced decisions."""

from __future__ import annotations

from memplace_agents.search.annealing_kernels import nearest_legal
from memplace_env._lib.array_rows import at
from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.rules import is_forced, play, play_nearest
from memplace_env.envs.malloc_game.state import MASK, USE
from memplace_env.envs.malloc_game.step import observe_state, step_state


@kernel(borrows=True)
def follow_until(tables, layout, state, preferences, use):
    """Play along preferences int8[U] until use number `use` is next, then go on to the next decision with a choice."""
    while state[MASK] != 0 and state[USE] < use:
        play(tables, layout, state, nearest_legal(state[MASK], preferences[state[USE]]))
    while is_forced(state):
        play_nearest(tables, layout, state, 0)


@kernel
def expand_nodes(tables, layout, unchanging, states, profiles, nodes, parents, actions, node, rows, first, last):
    """Play an action in a node of the trees of games first..last-1, and the forced decisions after it; observe it.

    Args:
        tables, layout, unchanging, states, profiles: the roots, see `step.step_all`; only read.
        nodes: states int64[B, N, size] and profiles of all other nodes; node n has index n - 1.
        parents: int64[B], node to play in; 0 for the root.
        actions: int64[B].
        node: number of the new node, from 1.
        rows: float32[B, 546], filled with observations of the new nodes; float32[0, 546] for none.
    """
    for game in range(first, last):
        its_tables, its_layout, parent = at(tables, game), at(layout, game), parents[game]
        state, profile = nodes[0][game, node - 1], nodes[1][game, node - 1]
        if parent == 0:
            state[:], profile[:] = at(states, game), profiles[game]
        else:
            state[:], profile[:] = nodes[0][game, parent - 1], nodes[1][game, parent - 1]
        step_state(its_tables, its_layout, state, actions[game], True, profile)
        if len(rows):
            observe_state(its_tables, its_layout, state, at(unchanging, game), profile, rows, game)

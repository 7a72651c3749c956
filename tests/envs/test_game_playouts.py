"""Whole games by one call: each is a game by the rules; its plan can run and has the game's latency."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.envs.malloc_game import playouts, rules
from memplace_env.envs.malloc_game.state import ESTIMATE, MASK, STALL_PS, USE, plan_of
from memplace_env.placement.synthetic import random_dag
from memplace_env.program.program import Program
from tests.envs.both_sides import Compiled, require_sound
from tests.references.reference_game import COPY, DROP, NO_COPY
from tests.strategies import game_tasks
from tests.thorough import examples


def lazy(compiled: Compiled) -> int:
    """Drop if it is legal and waits for nothing, else NoCopy, else Copy."""
    legal, trial = compiled.legal(), compiled.fork()
    if DROP in legal:
        trial.play(DROP)
        if trial.state[STALL_PS] > compiled.state[STALL_PS]:
            legal.remove(DROP)
    return max(legal, key=(COPY, NO_COPY, DROP).index)


def chosen(compiled: Compiled, wanted: int) -> int:
    """The wanted action if it is legal, else the lazy one."""
    return wanted if wanted in compiled.legal() else lazy(compiled)


@examples(40)
@given(game_tasks(), st.integers(0, 2**32))
def test_playouts_are_games(task, seed):
    start = Compiled(task)
    fixed = start.tables, start.layout
    states, rng = start.states(5), np.random.default_rng(seed)
    playouts.random_playouts(*fixed, states[:2], seed % 2**31)
    playouts.greedy_playouts(*fixed, states[2:3])
    playouts.lazy_playout(*fixed, states[3])
    wanted = rng.integers(-1, 4, size=(1, task.program.num_uses))
    played = wanted.copy()
    playouts.replay_all(*fixed, states[4:], played)
    again, greedy, lazily, replayed = start.states(2), start.fork(), start.fork(), start.fork()
    playouts.random_playouts(*fixed, again, seed % 2**31)
    assert np.array_equal(again, states[:2])

    gains, actions = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for action in wanted[0]:
        expected = chosen(replayed, action)
        rules.play_all(*fixed, replayed.state[None], np.array([action]), gains, actions)
        assert actions[0] == expected
        assert played[0, replayed.state[USE] - 1] == expected
        trials = [
            (greedy.fork().play(action), -rank)
            for rank, action in enumerate((NO_COPY, COPY, DROP))
            if action in greedy.legal()
        ]
        greedy.play((NO_COPY, COPY, DROP)[-max(trials)[1]])
        lazily.play(lazy(lazily))
    assert np.array_equal(replayed.state, states[4])
    assert np.array_equal(lazily.state, states[3])
    assert np.array_equal(greedy.state, states[2])
    rules.play_all(*fixed, replayed.state[None], np.array([DROP]), gains, actions)
    assert (gains[0], actions[0]) == (0, -1)
    for state in states:
        assert state[MASK] == 0
        require_sound(task, plan_of(task, start.layout, state), state[ESTIMATE], None)


def long_programs(ops: int) -> st.SearchStrategy[Program]:
    return st.builds(lambda seed: random_dag(seed, ops=ops, largest=4000), st.integers(0, 2**32))


@pytest.mark.slow
@pytest.mark.parametrize("ops", [60, 250])
@examples(40)
@given(st.data(), st.integers(0, 2**31 - 9))
def test_long_games_are_sound(ops, data, seed):
    """Programs too long for the reference, checked by validator and simulator."""
    task = data.draw(game_tasks(long_programs(ops)))
    start = Compiled(task)
    states = start.states(6)
    playouts.random_playouts(start.tables, start.layout, states[1:], seed)
    playouts.greedy_playouts(start.tables, start.layout, states[:1])
    for state in states:
        require_sound(task, plan_of(task, start.layout, state), state[ESTIMATE], None)

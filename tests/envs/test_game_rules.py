"""The compiled rules of mallocGame: equal to the readable reference, never stuck, exact, and losing no data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env.resolve import make_task
from memplace_env.task import Task
from memplace_env.testing.reference_game import COPY, DROP, Game
from memplace_env.testing.strategies import game_tasks, programs_with_idle_ops, two_level_accelerators
from memplace_env.workload.builder import ProgramBuilder
from tests.envs.both_sides import (
    ACTIONS,
    TASTES,
    Compiled,
    pick,
    play_a_game,
    play_both,
    require_same,
    require_same_end,
)


@settings(max_examples=350)
@given(game_tasks(), st.integers(0, 2**32), TASTES)
def test_rules_equal_the_reference(task, seed, taste):
    play_a_game(task, Random(seed), taste)


@pytest.mark.slow
@settings(max_examples=600)
@given(game_tasks(programs_with_idle_ops(32)), st.integers(0, 2**32), TASTES)
def test_rules_equal_the_reference_in_longer_games(task, seed, taste):
    play_a_game(task, Random(seed), taste)


@settings(max_examples=60)
@given(game_tasks(programs_with_idle_ops(8)), st.integers(0, 2**32), TASTES)
def test_mask_is_sound_and_complete(task, seed, taste):
    rng, compiled, game = Random(seed), Compiled(task), Game.begin(task)
    while not game.over:
        for action in ACTIONS:
            ahead = game.fork()
            if action in compiled.legal():
                trial = compiled.fork()
                play_both(trial, ahead, action)
                require_same(trial, ahead)
            else:
                with pytest.raises(ValueError, match=r"\w+ \w+"):
                    ahead.play(action)
        play_both(compiled, game, pick(rng, compiled.legal(), taste))


@settings(max_examples=60)
@given(game_tasks(), st.integers(0, 2**32), TASTES)
def test_copied_state_is_a_fork(task, seed, taste):
    rng, compiled = Random(seed), Compiled(task)
    for _ in range(rng.randrange(task.program.num_uses + 1)):
        compiled.play(pick(rng, compiled.legal(), taste))
    before, twin, script = compiled.state.copy(), compiled.fork(), []
    while compiled.legal():
        action = pick(rng, compiled.legal(), taste)
        script.append((action, compiled.play(action)))
    assert np.array_equal(twin.state, before)
    ended = compiled.state.copy()
    assert [twin.play(action) for action, _ in script] == [gain for _, gain in script]
    assert np.array_equal(compiled.state, ended)
    assert np.array_equal(twin.state, ended)
    assert twin.plan() == compiled.plan()


@given(two_level_accelerators(), st.integers(1, 3))
def test_program_without_uses_is_over_at_once(chip, ops):
    builder = ProgramBuilder("idle", "int8")
    for _ in range(ops):
        builder.op("Idle", [], [], vector_ops=5)
    game = play_a_game(make_task(builder.build(), chip), Random(0), [1, 1, 1])
    assert game.over
    assert game.blocks == []


def test_random_games_meet_every_rule():
    """Random games are no proof where they never go: each refusal and each fate of a block or a copy occurs."""
    met: Counter[str] = Counter()

    @settings(max_examples=150)
    @given(game_tasks(), st.integers(0, 2**32), TASTES)
    def meet(task, seed, taste):
        rng, game = Random(seed), Game.begin(task)
        while not game.over:
            verdicts = [game.legal(action) for action in ACTIONS]
            met.update(re.sub(r"\d+", "#", reason) for _, reason in verdicts if reason)
            action = pick(rng, [action for action in ACTIONS if verdicts[action][0]], taste)
            known, intact = game.block(game.tensor), game.intact(game.tensor)
            met["prefetch again"] += action == COPY and known is not None and not intact
            met["write back at a read"] += action == COPY and intact
            met["drop what is cached"] += action == DROP and intact
            game.play(action)
        met.update("drains never" if write.end is None else "drains" for write in game.write_backs)
        met["drains over ops"] += any(write.end is not None and write.end > write.start for write in game.write_backs)
        met["prefetch over ops"] += any(block.copied and block.made > block.start + 1 for block in game.blocks)
        met["prefetch beside op"] += any(block.copied and block.made == block.start + 1 for block in game.blocks)

    meet()
    rare = {what: times for what, times in met.items() if times < 3}
    assert not rare
    assert len(met) == 10 + 8, met


def all_games(compiled: Compiled, game: Game, gains: int = 0) -> Iterator[tuple[Compiled, Game, int]]:
    """Every way to finish this game."""
    require_same(compiled, game)
    if game.over:
        yield compiled, game, gains
    for action in compiled.legal():
        trial, ahead = compiled.fork(), game.fork()
        gain = play_both(trial, ahead, action)
        yield from all_games(trial, ahead, gains + gain)


def play_all_games(task: Task, most: int) -> None:
    """Play at most so many of all games."""
    for compiled, game, gains in islice(all_games(Compiled(task), Game.begin(task)), most):
        require_same_end(compiled, game, gains)


@settings(max_examples=60)
@given(game_tasks(programs_with_idle_ops(3)))
def test_all_games_of_tiny_programs(task):
    play_all_games(task, most=120)


@pytest.mark.slow
@settings(max_examples=120)
@given(game_tasks(programs_with_idle_ops(4)))
def test_more_games_of_tiny_programs(task):
    play_all_games(task, most=1000)

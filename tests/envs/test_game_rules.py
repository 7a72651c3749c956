"""The compiled rules of mallocGame: equal to the readable reference, never stuck, exact, and losing no data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env._lib.errors import WorkloadError
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.task import Task
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from tests.agents.tiny_tasks import tasks_with_roles
from tests.envs.both_sides import (
    ACTIONS,
    TASTES,
    Compiled,
    all_games,
    pick,
    play_a_game,
    play_both,
    require_same,
    require_same_end,
)
from tests.references.reference_game import COPY, DROP, NO_COPY, Game
from tests.strategies import game_tasks, programs_with_idle_ops, programs_with_pairs, two_level_accelerators
from tests.thorough import examples


@examples(60)
@given(game_tasks(), st.integers(0, 2**32), TASTES)
def test_rules_equal_the_reference(task, seed, taste):
    play_a_game(task, Random(seed), taste)


@examples(60)
@given(tasks_with_roles(ops=8, levels=2), st.integers(0, 2**32), TASTES)
def test_rules_equal_the_reference_where_memories_have_roles(task, seed, taste):
    if task.must_leave.any():
        with pytest.raises(WorkloadError, match="may not lie in B of 'nnp-i': leave out what says so"):
            MallocGameProblem(task)
    else:
        play_a_game(task, Random(seed), taste)


@pytest.mark.slow
@examples(100)
@given(game_tasks(programs_with_idle_ops(32)), st.integers(0, 2**32), TASTES)
def test_rules_equal_the_reference_in_longer_games(task, seed, taste):
    play_a_game(task, Random(seed), taste)


@examples(60)
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


@examples(60)
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


FATES = {
    "prefetch again", "prefetch over ops", "prefetch beside op", "write back at a read", "drop what is cached",
    "ends over ops", "ends never", "ends at a wait", "in time before what is pending", "late for room", "late for time",
    "late with the time of what is pending", "late and later for the same wait", "drop waits", "drop waits for others",
    "result waits", "spares what is of use", "takes what is of use", "stays beside a block",
    "a return below zero", "in place", "in place a second time",
}  # fmt: skip


def fates_of(game: Game, action: int) -> Iterator[str]:
    """Yield the rarer effects that a legal action is about to have."""
    op, x = game.op, game.tensor
    known, intact, pending = game.block(x), game.intact(x), game.pending()
    if game.is_result:
        found = game.room(action) if action != DROP else None
        if found:
            yield from ["result waits"] * (found.write_backs > 0)
        if found and found.in_place:
            yield "in place"
            yield from ["in place a second time"] * any(by.in_place and by.offset == found.offset for by in game.blocks)
        elif found and not found.write_backs:
            yield from fates_of_a_place(game, found.offset, op)
    elif action == DROP:
        oldest = bool(pending) and pending[0].tensor == x
        yield from ["drop what is cached"] * intact
        yield from ["drop waits" if oldest else "drop waits for others"] * bool(game.wait(DROP))
    elif intact:
        yield from ["write back at a read"] * (action == COPY)
    else:
        found = game.copy_in()
        yield from fates_of_a_place(game, found.offset, found.start)
        yield "prefetch beside op" if found.start == op - 1 else "prefetch over ops"
        yield from ["prefetch again"] * (known is not None)
        begun = bool(pending) and pending[0].start < op
        short = game.setting.demand(x, prefetch=True) > sum(game.free[game._earliest_copy() :])
        took = begun and sum(game.free[pending[0].start :]) > 0
        if not found.wait:
            yield from ["in time before what is pending"] * (begun and found.start < pending[0].start)
        else:
            yield "late for time" if short else "late for room"
        yield from ["late with the time of what is pending"] * (took and found.start >= pending[0].start)
        earlier = found.start > game._earliest_copy() and game.free[found.start - 1] == 0
        yield from ["late and later for the same wait"] * (found.wait > 0 and earlier)


def fates_of_a_place(game: Game, offset: int, start: int) -> Iterator[str]:
    top = offset + game.size(game.tensor)
    cached = [block for block in game.blocks if game.wanted(block) and game.held_until(block) < start]
    taken = [block for block in cached if block.offset < top and offset < block.top]
    yield from ["takes what is of use" if taken else "spares what is of use"] * bool(cached)
    yield from ["stays beside a block"] * any(
        offset in (block.top, block.offset - top + offset) for block in game.blocks
    )


def test_random_games_meet_every_rule():
    """Random games are no proof where they never go: each refusal and each fate of a block or a copy occurs."""
    met: Counter[str] = Counter()

    @settings(max_examples=450)
    @given(game_tasks(), st.integers(0, 2**32), TASTES)
    def meet(task, seed, taste):
        rng, game = Random(seed), Game.begin(task)
        begun = game.estimate()
        while not game.over:
            verdicts = [game.legal(action) for action in ACTIONS]
            met.update(re.sub(r"\d+", "#", reason) for _, reason in verdicts if reason)
            action = pick(rng, [action for action in ACTIONS if verdicts[action][0]], taste)
            met.update(fates_of(game, action))
            game.play(action)
        met.update("ends never" if write.end is None else "ends" for write in game.write_backs)
        met.update("ends over ops" for write in game.write_backs if write.end and write.end > write.start)
        waited = [op for op, wait in enumerate(game.stall) if wait]
        met.update("ends at a wait" for write in game.write_backs if write.end is not None and write.end + 1 in waited)
        met["a return below zero"] += game.estimate() > begun

    meet()
    rare = {what: met[what] for what in FATES if met[what] < 3}
    assert not rare
    refusals = met.keys() - FATES - {"ends"}
    assert len(refusals) == 13, refusals


def test_a_result_waits_for_as_many_write_backs_as_it_needs():
    """Two of three small results have to leave before a large one fits; the game is sound with it."""
    chip = load_accelerator("tpu-v4i")
    slow = replace(chip.levels[1], read_bytes_per_s=460_500_000_000, write_bytes_per_s=460_500_000_000)
    chip = replace(chip, levels=(replace(chip.levels[0], capacity_bytes=100), slow))
    builder = ProgramBuilder("crowded", chip.dtype)
    small = [builder.tensor(f"small{k}", 30) for k in range(3)]
    large = builder.tensor("large", 40)
    for tensor in (*small, large):
        builder.op("Make", [], [tensor], vector_ops=0)
        if tensor is small[2]:
            builder.op("Idle", [], [], vector_ops=0)
    builder.op("Read", [*small, large], [builder.tensor("y", 1, TensorKind.OUTPUT)], vector_ops=0)
    task = make_task(builder.build(), chip)
    compiled, game, gains = Compiled(task), Game.begin(task), 0
    for action in (COPY, COPY, COPY, NO_COPY, NO_COPY, DROP, DROP, NO_COPY, DROP):
        require_same(compiled, game)
        if game.tensor == large and game.is_result:
            assert game.room(NO_COPY).write_backs == 2
        gains += play_both(compiled, game, action)
    require_same_end(compiled, game, gains)


@pytest.mark.parametrize("made", [NO_COPY, COPY])
def test_a_result_without_room_goes_where_its_operand_dies(made):
    """One of two results, once the operand is on no way back; that is waited for."""
    chip = load_accelerator("tpu-v4i")
    slow = replace(chip.levels[1], read_bytes_per_s=460_500_000_000, write_bytes_per_s=460_500_000_000)
    chip = replace(chip, levels=(replace(chip.levels[0], capacity_bytes=50), slow))
    builder = ProgramBuilder("in place", chip.dtype)
    a, b, c = (builder.tensor(name, 40) for name in "abc")
    y = builder.tensor("y", 1, TensorKind.OUTPUT)
    builder.op("Make", [], [a], vector_ops=0)
    builder.op("Idle", [], [], vector_ops=0)
    builder.op("Split", [a], [b, c], vector_ops=0, inplace=[(a, b), (a, c)])
    builder.op("Read", [b, c], [y], vector_ops=0)
    task = make_task(builder.build(), chip)
    compiled, game, gains = Compiled(task), Game.begin(task), 0
    for action in (made, NO_COPY, NO_COPY, DROP, NO_COPY, DROP, DROP):
        require_same(compiled, game)
        if game.tensor == b and game.is_result:
            assert game.room(NO_COPY).in_place
            assert game.wait(NO_COPY) > 0 if made == COPY else game.wait(NO_COPY) == 0
        elif game.tensor == c and game.is_result:
            assert compiled.legal() == [DROP]
        gains += play_both(compiled, game, action)
    require_same_end(compiled, game, gains)
    assert len(compiled.plan().handed_over(task.program)) == 1


def play_all_games(task: Task, most: int) -> None:
    """Play at most so many of all games."""
    for compiled, game, gains in islice(all_games(Compiled(task), Game.begin(task)), most):
        require_same_end(compiled, game, gains)


@examples(60)
@given(game_tasks(programs_with_idle_ops(3) | programs_with_pairs(programs_with_idle_ops(3))))
def test_all_games_of_tiny_programs(task):
    play_all_games(task, most=120)


@pytest.mark.slow
@examples(30)
@given(game_tasks(programs_with_idle_ops(4) | programs_with_pairs(programs_with_idle_ops(4))))
def test_more_games_of_tiny_programs(task):
    play_all_games(task, most=1000)

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

from memplace_env.envs.malloc_game import rules
from memplace_env.envs.malloc_game.state import (
    ESTIMATE,
    MASK,
    OFFSET,
    OP,
    TAIL_PS,
    USE,
    WINDOW,
    game_tables,
    layout_of,
    plan_of,
)
from memplace_env.plan import MemoryPlan, violations
from memplace_env.resolve import make_task
from memplace_env.simulator import time_plan
from memplace_env.task import Task
from memplace_env.testing.reference_game import COPY, DROP, NO_COPY, Game
from memplace_env.testing.reference_position import FAST
from memplace_env.testing.strategies import game_tasks, programs_with_idle_ops, two_level_accelerators
from memplace_env.workload.builder import ProgramBuilder
from memplace_env.workload.program import Program
from memplace_env.workload.synthetic import random_dag

ACTIONS = (COPY, NO_COPY, DROP)
TASTES = st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any)
"""How much a player likes each action."""


class Compiled:
    """The compiled rules on one state, with the few words that the reference has for the same things."""

    def __init__(self, task: Task) -> None:
        self.task, self.program, self.tables = task, task.program, game_tables(task)
        self.layout = layout_of(self.tables)
        self.state = np.full(self.layout.size, -7, dtype=np.int64)
        rules.begin(self.tables, self.layout, self.state)

    def legal(self) -> list[int]:
        return [action for action in ACTIONS if self.state[MASK] >> action & 1]

    def play(self, action: int) -> int:
        return int(rules.play(self.tables, self.layout, self.state, action))

    def fork(self) -> Compiled:
        twin = object.__new__(Compiled)
        twin.__dict__ = {**self.__dict__, "state": self.state.copy()}
        return twin

    def states(self, count: int) -> np.ndarray:
        return np.repeat(self.state[None], count, axis=0)

    def plan(self) -> MemoryPlan:
        return plan_of(self.task, self.layout, self.state)


def pick(rng: Random, legal: list[int], taste: list[int]) -> int:
    liked = [action for action in legal if taste[action]] or legal
    return rng.choices(liked, [taste[action] or 1 for action in liked])[0]


def require_same(compiled: Compiled, game: Game) -> None:
    """Both sides see the same position, and it is a sane one."""
    state = compiled.state
    assert (state[USE], state[OP], state[ESTIMATE]) == (game.use, game.op, game.estimate())
    verdicts = [game.legal(action) for action in ACTIONS]
    assert compiled.legal() == [action for action in ACTIONS if verdicts[action][0]], verdicts
    assert all(legal != bool(reason) for legal, reason in verdicts)
    assert bool(compiled.legal()) != game.over
    if not game.over and (game.is_result or not game.intact(game.tensor)):
        assert state[OFFSET] == none_is_minus_one(game.place())
        assert game.is_result or state[WINDOW] == none_is_minus_one(game.window())
    require_nothing_lost(game)


def none_is_minus_one(value: int | None) -> int:
    return -1 if value is None else value


def require_nothing_lost(game: Game) -> None:
    """Data that somebody still needs is in an intact block, or in the backing memory by the time of its next use."""
    program = game.setting.task.program
    needed_at = dict.fromkeys(game.setting.outputs, program.num_ops)
    undecided = range(program.num_uses - 1, game.use - 1, -1)
    needed_at |= {int(program.use_tensor[use]): int(program.use_op[use]) for use in undecided}
    for tensor in needed_at.keys() & set(program.use_tensor[: game.use].tolist()):
        assert game.intact(tensor) or game.valid_from[tensor] <= needed_at[tensor], f"tensor {tensor} is lost"


def play_both(compiled: Compiled, game: Game, action: int) -> int:
    """One decision on both sides; returns the gain."""
    use, tensor, copied = game.use, game.tensor, not game.is_result and not game.intact(game.tensor)
    gain = game.play(action)
    assert compiled.play(action) == gain
    if game.levels[use] == FAST:
        assert game.intact(tensor)
        assert game.block(tensor).copied or game.setting.task.program.producer[tensor] >= 0
        assert not copied or game.block(tensor).start <= game.block(tensor).made - 1
    return gain


def require_sound(task: Task, plan: MemoryPlan, estimate: int, gains: int | None) -> None:
    """The plan of a finished game is valid and takes what the game says; nothing stalls."""
    assert violations(task, plan) == []
    report = time_plan(task, plan)
    assert report.latency_ps == estimate
    assert not report.stall_ps.any()
    assert report.lower_bound_ps <= estimate
    if gains is not None:
        backing = MemoryPlan.of(task, np.ones(task.program.num_uses), np.empty((0, 5)))
        assert gains == time_plan(task, backing).latency_ps - estimate


def require_same_end(compiled: Compiled, game: Game, gains: int) -> None:
    plan = game.plan()
    assert compiled.plan() == plan
    assert compiled.state[TAIL_PS] == sum(write.left for write in game.write_backs)
    require_sound(compiled.task, plan, game.estimate(), gains)


def play_a_game(task: Task, rng: Random, taste: list[int]) -> Game:
    """A random game, both sides compared at every decision."""
    compiled, game, gains = Compiled(task), Game.begin(task), 0
    require_same(compiled, game)
    while not game.over:
        gains += play_both(compiled, game, pick(rng, compiled.legal(), taste))
        require_same(compiled, game)
    require_same_end(compiled, game, gains)
    return game


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


def chosen(compiled: Compiled, wanted: int) -> int:
    """The wanted action if it is legal, else Drop, else the first that is."""
    return next(action for action in (wanted, DROP, *ACTIONS) if action in compiled.legal())


@settings(max_examples=40)
@given(game_tasks(), st.integers(0, 2**32))
def test_playouts_are_games(task, seed):
    start = Compiled(task)
    fixed = start.tables, start.layout
    states, rng = start.states(5), np.random.default_rng(seed)
    rules.random_playouts(*fixed, states[:2], seed % 2**31)
    rules.greedy_playouts(*fixed, states[2:3])
    rules.lazy_playout(*fixed, states[3])
    wanted = rng.integers(-1, 4, size=(1, task.program.num_uses))
    played = wanted.copy()
    rules.replay_all(*fixed, states[4:], played)
    again, greedy, lazy, replayed = start.states(2), start.fork(), start.fork(), start.fork()
    rules.random_playouts(*fixed, again, seed % 2**31)
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
        lazy.play(next(action for action in (DROP, NO_COPY, COPY) if action in lazy.legal()))
    assert np.array_equal(replayed.state, states[4])
    assert np.array_equal(lazy.state, states[3])
    assert np.array_equal(greedy.state, states[2])
    rules.play_all(*fixed, replayed.state[None], np.array([DROP]), gains, actions)
    assert (gains[0], actions[0]) == (0, -1)
    for state in states:
        assert state[MASK] == 0
        require_sound(task, plan_of(task, start.layout, state), state[ESTIMATE], None)


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


def long_programs(ops: int) -> st.SearchStrategy[Program]:
    return st.builds(lambda seed: random_dag(seed, ops=ops, largest=4000), st.integers(0, 2**32))


@pytest.mark.slow
@pytest.mark.parametrize("ops", [60, 250])
@settings(max_examples=40)
@given(st.data(), st.integers(0, 2**31 - 9))
def test_long_games_are_sound(ops, data, seed):
    """Too long for the reference; the validator and the simulator judge."""
    task = data.draw(game_tasks(long_programs(ops)))
    start = Compiled(task)
    states = start.states(6)
    rules.random_playouts(start.tables, start.layout, states[1:], seed)
    rules.greedy_playouts(start.tables, start.layout, states[:1])
    for state in states:
        require_sound(task, plan_of(task, start.layout, state), state[ESTIMATE], None)

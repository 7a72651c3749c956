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

from memplace_env.accelerator import Accelerator
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
    layout,
    plan_of,
)
from memplace_env.plan import MemoryPlan, validate
from memplace_env.simulator import BuiltinSimulator
from memplace_env.workload.builder import ProgramBuilder
from memplace_env.workload.program import Program
from memplace_env.workload.synthetic import random_dag
from tests.reference_game import COPY, DROP, FAST, NO_COPY, Game
from tests.strategies import programs_with_idle_ops, two_level_accelerators

ACTIONS = (COPY, NO_COPY, DROP)
TASTES = st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any)
"""How much a player likes each action."""


class Compiled:
    """The compiled rules on one row, with the few words that the reference has for the same things."""

    def __init__(self, program: Program, chip: Accelerator) -> None:
        self.program, self.chip = program, chip
        self.tables = game_tables(program, chip)
        self.at = layout(self.tables)
        self.row = np.full(self.at.size, -7, dtype=np.int64)
        rules.begin(self.tables, self.at, self.row)

    def legal(self) -> list[int]:
        return [action for action in ACTIONS if self.row[MASK] >> action & 1]

    def play(self, action: int) -> int:
        return int(rules.play(self.tables, self.at, self.row, action))

    def fork(self) -> Compiled:
        twin = object.__new__(Compiled)
        twin.__dict__ = {**self.__dict__, "row": self.row.copy()}
        return twin

    def rows(self, count: int) -> np.ndarray:
        return np.repeat(self.row[None], count, axis=0)

    def plan(self) -> MemoryPlan:
        return plan_of(self.program, self.chip, self.at, self.row)


def pick(rng: Random, legal: list[int], taste: list[int]) -> int:
    liked = [action for action in legal if taste[action]] or legal
    return rng.choices(liked, [taste[action] or 1 for action in liked])[0]


def require_same(compiled: Compiled, game: Game) -> None:
    """Both sides see the same position, and it is a sane one."""
    row = compiled.row
    assert (row[USE], row[OP], row[ESTIMATE]) == (game.use, game.op, game.estimate())
    verdicts = [game.legal(action) for action in ACTIONS]
    assert compiled.legal() == [action for action in ACTIONS if verdicts[action][0]], verdicts
    assert all(legal != bool(reason) for legal, reason in verdicts)
    assert bool(compiled.legal()) != game.over
    if not game.over and (game.is_result or not game.intact(game.tensor)):
        assert row[OFFSET] == none_is_minus_one(game.place())
        assert game.is_result or row[WINDOW] == none_is_minus_one(game.window())
    require_nothing_lost(game)


def none_is_minus_one(value: int | None) -> int:
    return -1 if value is None else value


def require_nothing_lost(game: Game) -> None:
    """Data that somebody still needs is in an intact block, or in the backing memory by the time of its next use."""
    program = game.setting.program
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
        assert game.block(tensor).copied or game.setting.program.producer[tensor] >= 0
        assert not copied or game.block(tensor).start <= game.block(tensor).made - 1
    return gain


def require_sound(program: Program, chip: Accelerator, plan: MemoryPlan, estimate: int, gains: int | None) -> None:
    """The plan of a finished game is valid and takes what the game says; nothing stalls."""
    assert validate(program, chip, plan) == []
    report = BuiltinSimulator().run(program, chip, plan)
    assert report.latency_ps == estimate
    assert not report.stall_ps.any()
    assert report.lower_bound_ps <= estimate
    if gains is not None:
        backing = MemoryPlan.of(program, chip, np.ones(program.num_uses), np.empty((0, 5)))
        assert gains == BuiltinSimulator().run(program, chip, backing).latency_ps - estimate


def require_same_end(compiled: Compiled, game: Game, gains: int) -> None:
    plan = game.plan()
    assert compiled.plan() == plan
    assert compiled.row[TAIL_PS] == sum(write.left for write in game.write_backs)
    require_sound(compiled.program, compiled.chip, plan, game.estimate(), gains)


def play_a_game(program: Program, chip: Accelerator, rng: Random, taste: list[int]) -> Game:
    """A random game, both sides compared at every decision."""
    compiled, game, gains = Compiled(program, chip), Game.begin(program, chip), 0
    require_same(compiled, game)
    while not game.over:
        gains += play_both(compiled, game, pick(rng, compiled.legal(), taste))
        require_same(compiled, game)
    require_same_end(compiled, game, gains)
    return game


@settings(max_examples=350)
@given(programs_with_idle_ops(), two_level_accelerators(), st.integers(0, 2**32), TASTES)
def test_rules_equal_the_reference(program, chip, seed, taste):
    play_a_game(program, chip, Random(seed), taste)


@pytest.mark.slow
@settings(max_examples=600)
@given(programs_with_idle_ops(32), two_level_accelerators(), st.integers(0, 2**32), TASTES)
def test_rules_equal_the_reference_in_longer_games(program, chip, seed, taste):
    play_a_game(program, chip, Random(seed), taste)


@settings(max_examples=60)
@given(programs_with_idle_ops(8), two_level_accelerators(), st.integers(0, 2**32), TASTES)
def test_mask_is_sound_and_complete(program, chip, seed, taste):
    rng, compiled, game = Random(seed), Compiled(program, chip), Game.begin(program, chip)
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
@given(programs_with_idle_ops(), two_level_accelerators(), st.integers(0, 2**32), TASTES)
def test_copied_row_is_a_fork(program, chip, seed, taste):
    rng, compiled = Random(seed), Compiled(program, chip)
    for _ in range(rng.randrange(program.num_uses + 1)):
        compiled.play(pick(rng, compiled.legal(), taste))
    before, twin, script = compiled.row.copy(), compiled.fork(), []
    while compiled.legal():
        action = pick(rng, compiled.legal(), taste)
        script.append((action, compiled.play(action)))
    assert np.array_equal(twin.row, before)
    ended = compiled.row.copy()
    assert [twin.play(action) for action, _ in script] == [gain for _, gain in script]
    assert np.array_equal(compiled.row, ended)
    assert np.array_equal(twin.row, ended)
    assert twin.plan() == compiled.plan()


@given(two_level_accelerators(), st.integers(1, 3))
def test_program_without_uses_is_over_at_once(chip, ops):
    builder = ProgramBuilder("idle", "int8")
    for _ in range(ops):
        builder.op("Idle", [], [], vector_ops=5)
    game = play_a_game(builder.build(), chip, Random(0), [1, 1, 1])
    assert game.over
    assert game.blocks == []


def test_random_games_meet_every_rule():
    """Random games are no proof where they never go: each refusal and each fate of a block or a copy occurs."""
    met: Counter[str] = Counter()

    @settings(max_examples=150)
    @given(programs_with_idle_ops(), two_level_accelerators(), st.integers(0, 2**32), TASTES)
    def meet(program, chip, seed, taste):
        rng, game = Random(seed), Game.begin(program, chip)
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
@given(programs_with_idle_ops(), two_level_accelerators(), st.integers(0, 2**32))
def test_playouts_are_games(program, chip, seed):
    start = Compiled(program, chip)
    rows, rng = start.rows(4), np.random.default_rng(seed)
    rules.random_playouts(start.tables, start.at, rows[:2], seed % 2**31)
    rules.greedy_playouts(start.tables, start.at, rows[2:3])
    wanted = rng.integers(-1, 4, size=(1, program.num_uses))
    played = wanted.copy()
    rules.replay_rows(start.tables, start.at, rows[3:], played)
    again, greedy, replayed = start.rows(2), start.fork(), start.fork()
    rules.random_playouts(start.tables, start.at, again, seed % 2**31)
    assert np.array_equal(again, rows[:2])

    gains, actions = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for action in wanted[0]:
        expected = chosen(replayed, action)
        rules.play_rows(start.tables, start.at, replayed.row[None], np.array([action]), gains, actions)
        assert actions[0] == expected
        assert played[0, replayed.row[USE] - 1] == expected
        trials = [
            (greedy.fork().play(action), -rank)
            for rank, action in enumerate((NO_COPY, COPY, DROP))
            if action in greedy.legal()
        ]
        greedy.play((NO_COPY, COPY, DROP)[-max(trials)[1]])
    assert np.array_equal(replayed.row, rows[3])
    assert np.array_equal(greedy.row, rows[2])
    rules.play_rows(start.tables, start.at, replayed.row[None], np.array([DROP]), gains, actions)
    assert (gains[0], actions[0]) == (0, -1)
    for row in rows:
        assert row[MASK] == 0
        require_sound(program, chip, plan_of(program, chip, start.at, row), row[ESTIMATE], None)


def all_games(compiled: Compiled, game: Game, gains: int = 0) -> Iterator[tuple[Compiled, Game, int]]:
    """Every way to finish this game."""
    require_same(compiled, game)
    if game.over:
        yield compiled, game, gains
    for action in compiled.legal():
        trial, ahead = compiled.fork(), game.fork()
        gain = play_both(trial, ahead, action)
        yield from all_games(trial, ahead, gains + gain)


def play_all_games(program: Program, chip: Accelerator, most: int) -> int:
    """Play at most so many of all games; returns how many there were."""
    games = 0
    for compiled, game, gains in islice(all_games(Compiled(program, chip), Game.begin(program, chip)), most):
        require_same_end(compiled, game, gains)
        games += 1
    return games


@settings(max_examples=60)
@given(programs_with_idle_ops(3), two_level_accelerators())
def test_all_games_of_tiny_programs(program, chip):
    play_all_games(program, chip, most=120)


@pytest.mark.slow
@settings(max_examples=120)
@given(programs_with_idle_ops(4), two_level_accelerators())
def test_more_games_of_tiny_programs(program, chip):
    play_all_games(program, chip, most=1000)


@pytest.mark.slow
@pytest.mark.parametrize("ops", [60, 250])
@settings(max_examples=25)
@given(st.integers(0, 2**32), two_level_accelerators())
def test_long_games_are_sound(ops, seed, chip):
    """Too long for the reference; the validator and the simulator judge."""
    start = Compiled(random_dag(seed, ops=ops, largest=4000), chip)
    rows = start.rows(6)
    rules.random_playouts(start.tables, start.at, rows[1:], seed % 2**31)
    rules.greedy_playouts(start.tables, start.at, rows[:1])
    for row in rows:
        require_sound(start.program, chip, plan_of(start.program, chip, start.at, row), row[ESTIMATE], None)

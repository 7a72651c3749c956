"""The game on both sides, the compiled rules and the readable reference, compared at every decision."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
from hypothesis import strategies as st

from memplace_env.envs.malloc_game import rules
from memplace_env.envs.malloc_game.playouts import lazy_playout
from memplace_env.envs.malloc_game.state import (  # fmt: skip
    ESTIMATE,
    MASK,
    OP,
    QUEUE_HEAD,
    QUEUE_TAIL,
    STALL_PS,
    TAIL_PS,
    USE,
    game_tables,
    layout_of,
    plan_of,
)
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import time_plan
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from tests.references.reference_game import COPY, DROP, NO_COPY, Game
from tests.references.reference_position import FAST
from tests.references.reference_simulator import Timing, simulate

ACTIONS = (COPY, NO_COPY, DROP)
TASTES = st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any)
"""Relative weights with which a player chooses each action."""


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

    def preview(self) -> tuple[int, int, int]:
        return tuple(map(int, rules.preview(self.tables, self.layout, self.state)))

    def plan(self) -> MemoryPlan:
        """Return the plan of the game, finished lazily."""
        end = self.fork()
        lazy_playout(self.tables, self.layout, end.state)
        return plan_of(self.task, self.layout, end.state)


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
    layout, ops = compiled.layout, len(game.stall)
    assert state[layout.free :][: game.op].tolist() == game.free
    assert state[layout.stall :][:ops].tolist() == game.stall
    assert state[STALL_PS] == sum(game.stall)
    queue = state[layout.queue :][state[QUEUE_HEAD] : state[QUEUE_TAIL]]
    assert queue.tolist() == [write.tensor for write in game.pending()]
    if not game.over:
        before = state.copy()
        assert compiled.preview() == expected_preview(game)
        assert np.array_equal(state, before)
    require_nothing_lost(game)


def expected_preview(game: Game) -> tuple[int, int, int]:
    """First op and offset of the block that the next decision would place, -1 if none; wait for it, or of Drop."""
    if game.is_result:
        room = game.room(NO_COPY)
        return (game.op, room.offset, room.wait) if room else (-1, -1, 0)
    if game.intact(game.tensor):
        return -1, -1, game.drop_wait() or 0
    return game.copy_in() or (-1, -1, 0)


def require_nothing_lost(game: Game) -> None:
    """Data with uses left is in an intact block, or in the backing memory by the time of its next use."""
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


def require_sound(task: Task, plan: MemoryPlan, estimate: int, gains: int | None) -> Timing:
    """The plan of a finished game is valid and has the game's latency; both simulators agree."""
    assert violations(task, plan) == []
    report, timing = time_plan(task, plan), simulate(task, plan)
    assert report.latency_ps == timing.latency == estimate
    assert report.op_time_ps.tolist() == timing.op_times
    assert report.stall_ps.tolist() == timing.stalls
    assert report.traffic_bound_ps <= estimate
    if gains is not None:
        backing = task.make_plan(np.ones(task.program.num_uses), np.empty((0, 5)))
        assert gains == time_plan(task, backing).latency_ps - estimate
    return timing


def require_same_end(compiled: Compiled, game: Game, gains: int) -> None:
    """Both sides end in the same plan, and it takes what they say, op by op."""
    plan = game.plan()
    assert compiled.plan() == plan
    assert compiled.state[TAIL_PS] == game.tail
    timing = require_sound(compiled.task, plan, game.estimate(), gains)
    assert timing.stalls == game.stall
    assert timing.tail == game.tail


def require_same_plan(compiled: Compiled, game: Game) -> None:
    """The plan of an unfinished game is that of its fork, finished lazily, without further waits."""
    fork = game.fork()
    fork.finish()
    plan = compiled.plan()
    assert plan == game.plan() == fork.plan()
    assert fork.stall == game.stall
    require_sound(compiled.task, plan, fork.estimate(), None)


def play_a_game(task: Task, rng: Random, taste: list[int]) -> Game:
    """A random game, both sides compared at every decision."""
    compiled, game, gains = Compiled(task), Game.begin(task), 0
    planned_at = rng.randrange(task.program.num_uses + 1)
    require_same(compiled, game)
    while not game.over:
        if game.use == planned_at:
            require_same_plan(compiled, game)
        gains += play_both(compiled, game, pick(rng, compiled.legal(), taste))
        require_same(compiled, game)
    require_same_end(compiled, game, gains)
    return game


def all_games(compiled: Compiled, game: Game, gains: int = 0) -> Iterator[tuple[Compiled, Game, int]]:
    """Every way to finish this game."""
    require_same(compiled, game)
    if game.over:
        yield compiled, game, gains
    for action in compiled.legal():
        trial, ahead = compiled.fork(), game.fork()
        gain = play_both(trial, ahead, action)
        yield from all_games(trial, ahead, gains + gain)

"""One program and one machine as a game: rows in, rows, plans and observations out."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memplace_env.accelerator import Accelerator
from memplace_env.compiler.evaluate import in_chunks
from memplace_env.envs.malloc_game import rules
from memplace_env.envs.malloc_game.observation import (
    Buffers,
    draw_profiles,
    make_buffers,
    next_uses,
    observe_rows,
    step_rows,
    use_features,
)
from memplace_env.envs.malloc_game.state import ESTIMATE, MASK, USE, game_tables, layout, plan_of
from memplace_env.plan import MemoryPlan
from memplace_env.simulator.report import SECONDS
from memplace_env.workload.program import Ints, Program


class MallocGameProblem:
    """The game of a program on a machine with two memory levels, played on state rows int64[B, size].

    This is the planners' interface: rows are plain arrays, so that a tree search copies, stacks and selects them
    freely, and plays thousands at once without an environment.

    Attributes:
        program, accelerator: what was passed in.
        g, at: tables and layout, see `state`.
        size: length of a row.
        all_backing_ps: latency with everything in the backing memory.
    """

    def __init__(self, program: Program, accelerator: Accelerator) -> None:
        self.program = program
        self.accelerator = accelerator
        self.g = game_tables(program, accelerator)
        self.at = layout(self.g)
        self.size = self.at.size
        self.all_backing_ps = int(self.g.rest_ps[0])
        self._kind = program.tensor_kind.astype(np.int8)

    @property
    def num_decisions(self) -> int:
        """U, the length of every game."""
        return self.program.num_uses

    @cached_property
    def first_row(self) -> Ints:
        """int64[size], the state before the first decision; read-only."""
        row = np.zeros(self.size, dtype=np.int64)
        rules.begin(self.g, self.at, row)
        row.flags.writeable = False
        return row

    def new_rows(self, count: int) -> Ints:
        """int64[count, size], games that have just begun."""
        return np.repeat(self.first_row[None], count, axis=0)

    def play(self, rows: Ints, actions: NDArray[np.integer]) -> tuple[Ints, Ints]:
        """Play one decision in each row, in place.

        Args:
            rows: int64[B, size], C-contiguous.
            actions: int[B]; an illegal action is replaced by Drop, or else by the first legal one.

        Returns:
            int64[B], by how many picoseconds each decision lowers the estimated latency (0 in finished rows), and
            int64[B], the actions played (-1 in finished rows).
        """
        gains, played = np.empty((2, len(rows)), dtype=np.int64)
        wanted = np.ascontiguousarray(actions, dtype=np.int64)

        def chunk(a: int, b: int) -> None:
            rules.play_rows(self.g, self.at, rows[a:b], wanted[a:b], gains[a:b], played[a:b])

        in_chunks(chunk, len(rows))
        return gains, played

    def replay(self, rows: Ints, actions: Ints) -> None:
        """Finish rows with action sequences int64[B, U], both in place; `actions` then holds what was really played."""
        in_chunks(lambda a, b: rules.replay_rows(self.g, self.at, rows[a:b], actions[a:b]), len(rows))

    def finish_greedily(self, rows: Ints) -> None:
        """Finish rows in place, always with the best immediate gain."""
        in_chunks(lambda a, b: rules.greedy_playouts(self.g, self.at, rows[a:b]), len(rows))

    def finish_randomly(self, rows: Ints, seed: int) -> None:
        """Finish rows in place with uniformly random legal actions; row b draws from its own stream."""
        in_chunks(lambda a, b: rules.random_playouts(self.g, self.at, rows[a:b], seed + a), len(rows))

    def finish_lazily(self, row: Ints) -> None:
        """Finish one row in place with Drop if legal, else NoCopy, else Copy."""
        rules.lazy_playout(self.g, self.at, row)

    def legal(self, rows: Ints) -> NDArray[np.bool_]:
        """bool[B, 3], legal Copy, NoCopy, Drop; no action in finished rows."""
        return (rows[:, MASK, None] >> np.arange(3) & 1).astype(bool)

    def done(self, rows: Ints) -> NDArray[np.bool_]:
        """bool[B], finished games."""
        return np.asarray(rows[:, USE] == self.num_decisions)

    def latency_s(self, rows: Ints) -> NDArray[np.float64]:
        """float64[B], estimated latency in seconds; exact in finished rows."""
        return rows[:, ESTIMATE].astype(np.float64) * SECONDS

    def plan(self, row: Ints) -> MemoryPlan:
        """The plan of a game; an unfinished one is finished lazily, on a copy."""
        row = row.copy()
        self.finish_lazily(row)
        return plan_of(self.program, self.accelerator, self.at, row)

    def observe(self, rows: Ints) -> Buffers:
        """Observations of rows."""
        out = make_buffers(len(rows))
        features, following = self._features

        def chunk(a: int, b: int) -> None:
            part = out.rows(a, b)
            observe_rows(self.g, self.at, rows[a:b], features, following, self._kind, part)
            draw_profiles(self.g, self.at, rows[a:b], part.profile)

        in_chunks(chunk, len(rows))
        return out

    def step(
        self, rows: Ints, actions: NDArray[np.integer], profiles: NDArray[np.uint8], out: Buffers | None = None
    ) -> tuple[Ints, Ints, Buffers]:
        """As `play`, and observe, for less than one after the other.

        Args:
            rows, actions: as for `play`.
            profiles: uint8[B, 2, 64, 64], the rows' profiles before; brought up to date in place.
            out: buffers to fill; new ones if None.
        """
        gains, played = np.empty((2, len(rows)), dtype=np.int64)
        wanted = np.ascontiguousarray(actions, dtype=np.int64)
        made = make_buffers(len(rows)) if out is None else out
        features, following = self._features

        def chunk(a: int, b: int) -> None:
            part = made if b - a == len(rows) else made.rows(a, b)
            state = rows[a:b], wanted[a:b], gains[a:b], played[a:b], profiles[a:b]
            step_rows(self.g, self.at, *state, features, following, self._kind, part)

        in_chunks(chunk, len(rows))
        return gains, played, made

    @cached_property
    def _features(self) -> tuple[NDArray[np.float32], Ints]:
        return use_features(self.program, self.g), next_uses(self.g)

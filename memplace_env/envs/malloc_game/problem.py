"""The game of a task: states in; states, plans and observations out, without Gymnasium."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.array_rows import row_of
from memplace_env._lib.errors import EnvError
from memplace_env._lib.threads import cached_property, in_chunks
from memplace_env._lib.units import PS, ceil_div
from memplace_env.envs.malloc_game import playouts, rules
from memplace_env.envs.malloc_game.known import KnownStates
from memplace_env.envs.malloc_game.observation import Unchanging, unchanging
from memplace_env.envs.malloc_game.state import (  # fmt: skip
    ESTIMATE,
    MASK,
    USE,
    StateLayout,
    Tables,
    game_tables,
    layout_of,
    plan_of,
)
from memplace_env.placement.compiler import all_backing_report
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plans
from memplace_env.placement.task import Task, streamed
from memplace_env.program.program import Ints


class MallocGameProblem:
    """The game of a program on a machine with two memory levels and streamed weights, on states int64[B, size].

    This is the planners' interface: states are plain arrays, so that a tree search copies, stacks and selects them
    freely, and plays thousands at once without an environment. Methods trust the states that they are given, as kernels
    follow the indices in them: states must come from here or from `get_state`. Only `known.check` checks one.

    Attributes:
        task, program, accelerator: the task on a chip with streamed weights; of another chip, on its streamed copy.
        tables, layout: see `state`.
        size: length of a state.
        known: check of states from elsewhere.
        all_backing_ps: latency with everything in the backing memory.
        evaluated: number of games finished by steps or evaluated here so far.
    """

    def __init__(self, task: Task) -> None:
        self.evaluated = 0
        self.tables = game_tables(task)
        self.task = streamed(task)
        self.program, self.accelerator = self.task.program, self.task.accelerator
        self.layout = layout_of(self.tables)
        self.size = self.layout.size
        self.known = KnownStates(self.tables, self.layout)
        self.all_backing_ps = int(self.tables.rest_ps[0])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the task alone; the copy derives its tables anew."""
        return MallocGameProblem, (self.task,)

    @property
    def num_decisions(self) -> int:
        """Number of decisions in every game, U."""
        return self.program.num_uses

    @cached_property
    def num_choices(self) -> int:
        """Decisions with a choice in a game, about: the mean of eight random ones, rounded up; at least 1."""
        states, rng, count = self.new_states(8), np.random.default_rng(0), 0
        while not self.done(states).all():
            legal = self.legal(states)
            count += int((legal.sum(axis=1) > 1).sum())
            self.play(states, (rng.random(legal.shape) * legal).argmax(axis=1))
        return max(ceil_div(count, len(states)), 1)

    @cached_property
    def first_state(self) -> Ints:
        """The state before the first decision, int64[size]; read-only."""
        state = np.zeros(self.size, dtype=np.int64)
        rules.begin(self.tables, self.layout, state)
        state.flags.writeable = False
        return state

    @cached_property
    def first_choice(self) -> Ints:
        """The state before the first decision that is not forced, int64[size]; read-only.

        The decisions before it gain nothing: without a block only Drop can be forced, and nothing is waited for.
        """
        state = self.without_forced(self.first_state)
        state.flags.writeable = False
        return state

    def without_forced(self, state: Ints) -> Ints:
        """Return the state int64[size] after the forced decisions that follow this one; the last is left in any case.

        So an episode that begins here has a step.
        """
        state = state.copy()
        playouts.play_forced(self.tables, self.layout, state)
        return state

    def new_states(self, count: int) -> Ints:
        """Return int64[count, size], games at their beginning."""
        return np.repeat(self.first_state[None], count, axis=0)

    def checked_state(self, state: Any) -> Ints:
        """Return a copy of a state int64[size] that legal play leads to; one from elsewhere is played again.

        Raises:
            EnvError: if no legal play leads to it.
        """
        return self.known.check(state)

    def checked_start(self, state: Any) -> Ints:
        """Return a copy of a state int64[size] that an episode can begin from.

        Raises:
            EnvError: if no legal play leads to it, or its game is over.
        """
        start = self.checked_state(state)
        if start[USE] == self.num_decisions:
            raise EnvError("The game of this state is over, so no episode can begin from it; pass an earlier one.")
        return start

    def play(self, states: Ints, actions: NDArray[np.integer]) -> tuple[Ints, Ints]:
        """Play one decision in each state, in place.

        Args:
            states: int64[B, size], C-contiguous.
            actions: int[B]; an illegal one is replaced by Drop if that waits for nothing, else by NoCopy, else by Copy.

        Returns:
            int64[B], picoseconds by which each decision lowers the estimated latency (0 in finished states), and
            int64[B], the actions played (-1 in finished states).
        """
        gains, played = np.empty((2, len(states)), dtype=np.int64)
        actions = np.ascontiguousarray(actions, dtype=np.int64)

        def chunk(first: int, last: int) -> None:
            some = slice(first, last)
            rules.play_all(self.tables, self.layout, states[some], actions[some], gains[some], played[some])

        in_chunks(chunk, len(states))
        return gains, played

    def replay(self, states: Ints, actions: Ints) -> None:
        """Finish states with action sequences int64[B, U], both in place; `actions` then holds the actions played."""
        in_chunks(lambda a, b: playouts.replay_all(self.tables, self.layout, states[a:b], actions[a:b]), len(states))

    def finish_greedily(self, states: Ints) -> None:
        """Finish states in place with the actions of best immediate gain."""
        in_chunks(lambda a, b: playouts.greedy_playouts(self.tables, self.layout, states[a:b]), len(states))

    def finish_randomly(self, states: Ints, seed: int) -> None:
        """Finish states in place with uniformly random legal actions; state b draws from its own stream."""
        in_chunks(lambda a, b: playouts.random_playouts(self.tables, self.layout, states[a:b], seed + a), len(states))

    def finish_lazily(self, state: Ints) -> None:
        """Finish one state in place with Drop if it is legal and waits for nothing, else NoCopy, else Copy."""
        playouts.lazy_playout(self.tables, self.layout, state)

    def legal(self, states: Ints) -> NDArray[np.bool_]:
        """Return bool[B, 3], the legal ones of Copy, NoCopy, Drop; none in finished states."""
        return (states[:, MASK, None] >> np.arange(3) & 1).astype(bool)

    def done(self, states: Ints) -> NDArray[np.bool_]:
        """Return bool[B], which games are finished."""
        return np.asarray(states[:, USE] == self.num_decisions)

    def latency_s(self, states: Ints) -> NDArray[np.float64]:
        """Return latencies in seconds by the cost arrays, float64[B]; estimates, exact in finished states."""
        return states[:, ESTIMATE].astype(np.float64) * PS

    def final_latency_s(self, states: Ints) -> NDArray[np.float64]:
        """Return latencies of finished games in seconds, float64[B], by the black box if there is one."""
        self.evaluated += len(states)
        if not self.task.is_black_box:
            return self.latency_s(states)
        reports = evaluate_plans(self.task, [self.plan(state) for state in states])
        return np.array([report.latency_s for report in reports])

    def return_correction(self, states: Ints, black_box_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64[B], fractions that a black box with these latencies adds to what finished games save."""
        fraction = black_box_s / all_backing_report(self.task).latency_s
        return np.asarray(self.latency_s(states) / (self.all_backing_ps * PS) - fraction)

    def plan(self, state: Ints) -> MemoryPlan:
        """Return the plan of a game; an unfinished one is finished lazily, on a copy."""
        state = state.copy()
        self.finish_lazily(state)
        return plan_of(self.task, self.layout, state)

    @cached_property
    def unchanging(self) -> Unchanging:
        """Parts of observations that never change during a game."""
        return unchanging(self.program, self.tables)

    @cached_property
    def parts(self) -> tuple[Tables, StateLayout, Unchanging]:
        """Tables that kernels read, see `Batch`."""
        return self.tables, self.layout, self.unchanging

    @cached_property
    def part_rows(self) -> tuple[Ints, ...]:
        """Addresses of `parts`."""
        return tuple(map(row_of, self.parts))

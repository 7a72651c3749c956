"""The stepwise problem of a task: states in; states, observations, scores and plans out, without Gymnasium."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.array_rows import row_of
from memplace_env._lib.errors import EnvError, PlanError, WorkloadError
from memplace_env._lib.threads import cached_property, in_chunks
from memplace_env._lib.units import PS
from memplace_env.envs.one_shot.problem import OneShotProblem
from memplace_env.envs.one_shot.reward import Scores
from memplace_env.envs.steps.step_features import checked_order, density_of, entry_features, program_features
from memplace_env.envs.steps.step_kernels import (  # fmt: skip
    CURSOR,
    ESTIMATE,
    HEAD,
    MASK,
    first_state,
    step_all,
)
from memplace_env.envs.steps.step_tables import (  # fmt: skip
    BACKING,
    LEVELS,
    StepTables,
    entries_with_choice,
    entry_of_tensors,
    tables_of,
)
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.compiler.placing_order import latency_ps
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.roles import without_penalties
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, TensorKind


class StepsProblem:
    """The one-shot problem of a task entry by entry, of a sliced task tensor by tensor, on states int64[B, size].

    States are plain arrays: planners copy, stack and select them freely. Methods trust the states that they are given,
    as kernels follow the indices in them; only `checked_state` checks one.

    Args:
        task: the task; its chip has two or three levels.
        order: "density" (entries that save most time per byte and op of their life first) or "schedule".

    Attributes:
        task, order: as given.
        one_shot: the problem that is decided; it compiles and evaluates the levels of finished states, and counts them.
        entry_of: int64[K], the entry of each tensor, -1 where it has none.
        tables: see `StepTables`.

    Raises:
        WorkloadError: if the chip has another number of levels, or no entry has a choice.
        EnvError: for an unknown order.
    """

    def __init__(self, task: Task, order: str = "density") -> None:
        self.task, self.order = task, checked_order(order)
        self.one_shot = OneShotProblem(task, by_tensor=True)
        decided = self.one_shot if task.program.slices is not None else OneShotProblem(task)
        self.tables = _complete_tables(task, decided.decision_of, self.order)
        self.entry_of = entry_of_tensors(decided.decision_of, self.tables.decision)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the task and the order; the copy derives its tables anew."""
        return StepsProblem, (self.task, self.order)

    @property
    def num_decisions(self) -> int:
        """Number of decisions in every episode, E."""
        return len(self.tables.decision)

    @property
    def size(self) -> int:
        """Length of a state."""
        return len(self.tables.first_state)

    @property
    def all_backing_ps(self) -> int:
        """Latency with everything in the backing memory, ps."""
        return self.tables.all_backing_ps

    @property
    def parts(self) -> tuple[StepTables]:
        """Tables that kernels read, see `Batch`."""
        return (self.tables,)

    @cached_property
    def part_rows(self) -> tuple[Ints]:
        """Addresses of `parts`."""
        return (row_of(self.tables),)

    def new_states(self, count: int) -> Ints:
        """Return int64[count, size], episodes at their beginning."""
        return np.repeat(self.tables.first_state[None], count, axis=0)

    def checked_start(self, state: Any) -> Ints:
        """Return a copy of a state int64[size] that an episode can begin from.

        Raises:
            EnvError: if no decisions lead to it, or its episode is over.
        """
        start = self.checked_state(state)
        if start[CURSOR] == self.num_decisions:
            raise EnvError("The episode of this state is over, so none can begin from it; pass an earlier one.")
        return start

    def play(self, states: Ints, actions: NDArray[np.integer]) -> tuple[Ints, Ints]:
        """Decide the next entry in each state, in place.

        Args:
            states: int64[B, size], C-contiguous.
            actions: int[B], levels 0..2; one that is not allowed is replaced, see `StepsEnv`.

        Returns:
            int64[B], picoseconds by which each decision lowers the estimated latency (0 in finished states), and
            int64[B], the levels given (-1 in finished states).
        """
        gains, played = np.empty((2, len(states)), dtype=np.int64)
        actions = np.ascontiguousarray(actions, dtype=np.int64)
        in_chunks(
            lambda a, b: step_all(self.tables, states[a:b], actions[a:b], gains[a:b], played[a:b]),
            len(states),
        )
        return gains, played

    def legal(self, states: Ints) -> NDArray[np.bool_]:
        """Return bool[B, 3], the levels that the next entry is allowed; none in finished states."""
        return (states[:, MASK, None] >> np.arange(LEVELS) & 1).astype(bool)

    def done(self, states: Ints) -> NDArray[np.bool_]:
        """Return bool[B], which episodes are finished."""
        return np.asarray(states[:, CURSOR] == self.num_decisions)

    def latency_s(self, states: Ints) -> NDArray[np.float64]:
        """Return float64[B], seconds by the cost arrays, with undecided entries in the backing memory."""
        return states[:, ESTIMATE].astype(np.float64) * PS

    def levels(self, states: Ints) -> Ints:
        """Return int64[B, K], the level that states ask for each tensor; what is undecided is in the backing memory."""
        entry_levels = states[:, HEAD : HEAD + self.num_decisions][:, self.entry_of]
        return np.where((self.entry_of < 0) | (entry_levels == BACKING), self.task.backing, entry_levels)

    def actions_of(self, plan: MemoryPlan) -> Ints:
        """Return int64[E], the decisions that give each entry the level of its tensors in a plan; not always legal.

        Raises:
            PlanError: if the plan is for another program.
        """
        if plan.program_sha256 != self.task.program.sha256:
            raise PlanError(f"The plan was made for another program than {self.task.program.name!r} is now.")
        levels, actions = plan.tensor_levels(self.task.program), np.empty(self.num_decisions, dtype=np.int64)
        by_size = np.argsort(self.task.program.tensor_bytes, kind="stable")
        placed = by_size[self.entry_of[by_size] >= 0]
        actions[self.entry_of[placed]] = levels[placed]  # the last, the largest, overwrites the others
        return np.where(actions == self.task.backing, BACKING, actions)

    def scores(self, states: Ints) -> Scores:
        """Return the scores of the plans that the compiler makes of the states' levels."""
        return self.one_shot.evaluate(self.levels(states))

    def final_latency_s(self, states: Ints) -> NDArray[np.float64]:
        """Return latencies of the plans of finished states in seconds, float64[B], by the black box if there is one."""
        return self.scores(states).latency_s

    def plan(self, state: Ints) -> MemoryPlan:
        """Return the compiler's plan of a state's levels, see `OneShotProblem.compile`."""
        return self.one_shot.compile(self.levels(state[None])[0]).plan

    def checked_state(self, state: Any) -> Ints:
        """Return a copy of a state int64[size] that decisions lead to, after deciding it again.

        Raises:
            EnvError: if it is no such array, or no decisions lead to it.
        """
        if not isinstance(state, np.ndarray) or state.dtype != np.int64 or state.shape != (self.size,):
            kind = f"{state.dtype}{list(state.shape)}" if isinstance(state, np.ndarray) else type(state).__name__
            raise EnvError(f"A state of these steps is int64[{self.size}], as get_state gives it, not {kind}.")
        checked, replayed = np.array(state), self.new_states(1)
        if 0 <= checked[CURSOR] <= self.num_decisions:
            for level in checked[HEAD : HEAD + checked[CURSOR]]:
                if not 0 <= level < LEVELS:
                    break
                self.play(replayed, level[None])
        if not np.array_equal(replayed[0], checked):
            raise EnvError("No decisions lead to this state; pass one that get_state gave, unchanged.")
        return checked


def _complete_tables(task: Task, decision_of: Ints, order: str) -> StepTables:
    """Return the tables of a task with their times, features and first state.

    Raises:
        WorkloadError: as `StepsProblem`.
    """
    program, costs = task.program, task.costs
    if not 2 <= task.accelerator.num_levels <= LEVELS:
        raise WorkloadError(
            f"MemPlaceSteps has three actions, for chips with two or three memory levels; {task.accelerator.name!r} "
            f"has {task.accelerator.num_levels}."
        )
    decisions = entries_with_choice(task, decision_of)
    if not len(decisions):
        raise WorkloadError(
            f"No tensor of {program.name!r} can be placed in a fast memory of {task.accelerator.name!r}, so there is "
            "nothing to decide."
        )
    if order == "density":
        density = density_of(tables_of(task, decision_of, decisions))
        decisions = decisions[np.argsort(-density, kind="stable")]
    native = native_plan(task)
    if task.must_leave.any():  # times of the size of others; the order above begins with what must find room
        task = replace(task, costs=without_penalties(costs, task.program, task.allowed))
    tables = tables_of(task, decision_of, decisions)
    backing = np.full(program.num_tensors, task.backing)
    entry = entry_of_tensors(decision_of, decisions)
    fastest = np.where(entry >= 0, tables.fastest[entry], task.backing)
    tables = tables._replace(
        native_ps=latency_ps(task, native.tensor_levels(program)),
        all_backing_ps=latency_ps(task, backing),
        all_fastest_ps=latency_ps(task, fastest),
    )
    copy_ps, weights = np.zeros(len(decisions), dtype=np.int64), program.tensor_kind == TensorKind.WEIGHT
    of_weights = np.zeros(len(decisions), dtype=bool)
    of_weights[entry[weights & (entry >= 0)]] = True
    begin = np.zeros(len(decisions), dtype=np.int64)
    begin[entry[entry >= 0]] = program.live_start[entry >= 0]
    if task.streams_weights:
        copied = (entry >= 0) & weights
        np.add.at(copy_ps, entry[copied], costs.prefetch_ps[copied])
    tables = tables._replace(
        entry_features=entry_features(tables, of_weights, copy_ps, begin),
        program_features=program_features(task, tables),
    )
    return tables._replace(first_state=first_state(tables))

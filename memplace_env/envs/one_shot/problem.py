"""The rules of the one-shot formulation, without Gymnasium: assignments in, scores and plans out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib.errors import ActionError
from memplace_env._lib.threads import cached_property
from memplace_env._lib.units import PJ, PS
from memplace_env.envs.arguments import integers
from memplace_env.envs.one_shot.reward import Scores
from memplace_env.placement.compiler import Compiled, at_home, native_levels, native_plan, native_report
from memplace_env.placement.compiler.compile import evaluate_assignments, place_assignment
from memplace_env.placement.compiler.placing_order import Order, schedule_of
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import Report, evaluate_plans
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints

_ORDER: Order = "weights-before-results"


class OneShotProblem:
    """The one-shot problem of a task: a memory level for every tensor, decided at once.

    An assignment is the environment's action, int[2T]: decision 2t is the level of the weights that op t is the first
    to read, decision 2t+1 that of the results of op t. Decisions of ops without such weights or with no other results
    than graph outputs are ignored. Levels are int[K], one for each tensor, as the compiler takes them; those of inputs
    and outputs are ignored.

    Args:
        task: the task.
        by_tensor: whether methods take levels in place of assignments, so that each tensor and each slice of one has a
            decision of its own, as what is decided in steps.

    Attributes:
        task, program, accelerator: the task and its parts.
        num_decisions: length of an assignment, 2T, or of levels, K.
        decision_of: int64[K], index of the decision about each tensor, -1 for inputs and outputs.
        decides: bool[num_decisions], decisions that are not ignored.
        evaluated: number of assignments evaluated here so far.
    """

    def __init__(self, task: Task, by_tensor: bool = False) -> None:
        self.evaluated = 0
        self.task, self.program, self.accelerator = task, task.program, task.accelerator
        self.num_decisions = self.program.num_tensors if by_tensor else 2 * self.program.num_ops
        of_ops = 2 * self.program.live_start + (self.program.producer >= 0)
        decision = np.arange(self.num_decisions) if by_tensor else of_ops
        self._by_tensor = by_tensor
        self.decision_of: Ints = np.where(self.program.is_placeable, decision, -1)
        self.decides: NDArray[np.bool_] = np.zeros(self.num_decisions, dtype=bool)
        self.decides[self.decision_of[self.decision_of >= 0]] = True
        self._placeable_bytes = max(int(self.program.tensor_bytes[self.program.is_placeable].sum()), 1)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments; the copy derives the rest anew."""
        return OneShotProblem, (self.task, self._by_tensor)

    @property
    def native_plan(self) -> MemoryPlan:
        """The compiler's own plan, the best of its rules by this task's simulator."""
        return native_plan(self.task)

    @property
    def native_report(self) -> Report:
        """Report of native's plan, the baseline of all speed-ups."""
        return native_report(self.task)

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """Levels that a tensor can fit into, bool[2T, L].

        A level is left out if the smallest tensor of the decision could not fit into it even if it were empty, or if it
        may hold none of them. An ignored decision has only the backing memory.
        """
        smallest = np.full(self.num_decisions, np.iinfo(np.int64).max)
        decided = self.decision_of >= 0
        np.minimum.at(smallest, self.decision_of[decided], self.program.tensor_bytes[decided])
        capacity = np.array([level.capacity_bytes for level in self.accelerator.levels])
        mask, may = smallest[:, None] <= capacity, np.zeros((self.num_decisions, len(capacity)), dtype=bool)
        mask[:, -1] = True
        np.logical_or.at(may, self.decision_of[decided], self.task.allowed[decided])
        mask &= may
        mask[~mask.any(axis=1), -1] = True
        return mask

    @cached_property
    def movable(self) -> NDArray[np.int64]:
        """Decisions with a choice of levels, int64[M]."""
        return np.flatnonzero(self.mask.sum(axis=1) > 1)

    @cached_property
    def native_assignment(self) -> NDArray[np.int64]:
        """The assignment of native's rule, int64[2T], see `native_levels`."""
        assignment: NDArray[np.int64] = self.assignments_of(native_levels(self.task)[None])[0]
        return assignment

    def check(self, assignments: ArrayLike, batch: tuple[int | None, ...] = ()) -> NDArray[np.integer]:
        """Return the assignments as an integer array of shape `batch + (2T,)`, where None is any number.

        Raises:
            ActionError: for another shape, a dtype that is no integer, or levels out of range.
        """
        shape = (*batch, self.num_decisions)
        array = integers(
            assignments,
            shape,
            f"An action for {self.program.name!r} holds integers of shape {shape}, levels of memory, two for each "
            f"of its {self.program.num_ops} ops",
        )
        if array.size and (array.min() < 0 or array.max() > self.accelerator.backing):
            names = ", ".join(f"{i} = {level.name}" for i, level in enumerate(self.accelerator.levels))
            raise ActionError(f"An action holds levels {names}; this one has {array.min()}..{array.max()}.")
        return array

    def compile(self, assignment: NDArray[np.integer]) -> Compiled:
        """Return the compiler's plan of one checked assignment; native's in its place as `OneShotEnv` says."""
        plan, moved = place_assignment(self.task, assignment.astype(np.int64), self.decision_of, _ORDER)
        return Compiled(at_home(self.task, plan), moved)

    def evaluate(self, assignments: NDArray[np.integer], threads: int | None = None) -> Scores:
        """Return scores of checked assignments int[B, 2T], by the black box, or else by kernels on all cores."""
        self.evaluated += len(assignments)
        if self.task.is_black_box:
            compiled = [self.compile(assignment) for assignment in assignments]
            reports = evaluate_plans(self.task, [plan for plan, _ in compiled])
            latency = np.array([report.latency_s for report in reports])
            energy = np.array([report.energy_j for report in reports])
            moved = np.array([reassigned for _, reassigned in compiled])
            levels = np.array([plan.tensor_levels(self.program) for plan, _ in compiled], dtype=np.int8)
            levels = levels.reshape(len(assignments), self.program.num_tensors)
        else:
            result = evaluate_assignments(schedule_of(self.task, _ORDER), assignments, self.decision_of, threads)
            latency = result.latency_ps.astype(np.float64) * PS
            energy = result.dynamic_pj.astype(np.float64) * PJ + self.accelerator.static_power_w * latency
            moved, levels = result.reassigned_bytes, result.level
        base, epsilon = self.native_report, moved / self._placeable_bytes
        saving = np.divide(base.energy_j, energy, out=np.full(len(assignments), np.nan), where=energy > 0)
        return Scores(latency, energy, epsilon, base.latency_s / latency, saving, levels)

    def assignments_of(self, levels: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return assignments int64[B, 2T] that request levels int[B, K]; a decision follows its largest tensor."""
        assignments = np.full((len(levels), self.num_decisions), self.accelerator.backing)
        by_size = np.argsort(self.program.tensor_bytes, kind="stable")
        placed = by_size[self.decision_of[by_size] >= 0]
        assignments[:, self.decision_of[placed]] = levels[:, placed]  # the last, the largest, overwrites the others
        return assignments

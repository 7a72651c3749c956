"""Differences of a plan from native's: levels of tensors, neighbours that share one, time op by op.

After EGRL's analysis of mappings (Khadka et al., ICLR 2021), whose exact definitions are not published: the plan's
levels of the bytes in each of the compiler's levels, the level that each layer uses, and the fraction of neighbouring
layers that share one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memplace_env._lib.units import PS
from memplace_env.placement.simulator import BuiltinSimulator
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program, TensorKind
from memplace_env.report.explanation.differences import Difference, difference_of
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan, native_baseline
from memplace_env.report.plans.headlines import simulator_name
from memplace_env.report.plans.whole_tensors import CutTensor, split_tensors


class Shift(NamedTuple):
    """Levels of the weights, or of the activations, in native and in the plan.

    Graph inputs and outputs are in neither: one-shot assignments do not decide about them. "Decides" is as in the
    one-shot environments: an op decides about the weights that it is the first to read and the activations it makes.

    Attributes:
        name: "weights" or "activations".
        moved_bytes: int64[L, L], bytes of the tensors by native's level (rows) and the plan's (columns).
        ops: int64[E], the ops that decide about at least one of them, in execution order.
        native_level, plan_level: int64[E], the level of the tensors that each of those ops decides about.
    """

    name: str
    moved_bytes: Ints
    ops: Ints
    native_level: Ints
    plan_level: Ints

    @property
    def total_bytes(self) -> int:
        """Bytes of all these tensors."""
        return int(self.moved_bytes.sum())

    @property
    def changed_share(self) -> float:
        """Fraction of the bytes that are in another level than in native, 0..1; 0 if there are none."""
        return 1 - int(self.moved_bytes.trace()) / self.total_bytes if self.total_bytes else 0.0

    @property
    def contiguities(self) -> tuple[float | None, float | None]:
        """The `contiguity` of native and of the plan."""
        return contiguity(self.native_level), contiguity(self.plan_level)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, sizes in bytes."""
        native, plan = self.contiguities
        return {
            "moved_bytes": self.moved_bytes.tolist(),
            "total_bytes": self.total_bytes,
            "changed_share": self.changed_share,
            "contiguity": {"native": native, "plan": plan},
            "ops": self.ops.tolist(),
            "native_level": self.native_level.tolist(),
            "plan_level": self.plan_level.tolist(),
        }


class TypeTimes(NamedTuple):
    """Number of all ops of one type, and their time in native and in the plan, stalls included, in ps."""

    op_type: str
    ops: int
    native_ps: int
    plan_ps: int

    @property
    def saved_ps(self) -> int:
        """Time saved by the plan; negative if it is slower."""
        return self.native_ps - self.plan_ps


class Explanation(NamedTuple):
    """A plan and native's plan of the same task.

    Attributes:
        task: the program and the chip.
        native, evaluated: the plans that are compared.
        weights, activations: their levels in both plans.
    """

    task: Task
    native: EvaluatedPlan
    evaluated: EvaluatedPlan
    weights: Shift
    activations: Shift

    @property
    def level_names(self) -> tuple[str, ...]:
        """L names, fastest first."""
        return tuple(level.name for level in self.task.accelerator.levels)

    @property
    def speedup(self) -> float:
        """Latency of native over that of the plan."""
        return self.native.report.latency_ps / self.evaluated.report.latency_ps

    @property
    def saved_ps(self) -> Ints:
        """int64[T], what each op saves: native's time less the plan's, with the stalls before it.

        With `tail_saved_ps` they add up to the difference of the latencies.
        """
        return self.native.op_ps - self.evaluated.op_ps

    @property
    def tail_saved_ps(self) -> int:
        """Time that the copies after the last op take less than in native, in ps."""
        return self.native.report.tail_ps - self.evaluated.report.tail_ps

    @property
    def split_tensors(self) -> list[CutTensor]:
        """The tensors whose slices the plan keeps in more than one level, largest first."""
        return split_tensors(self.task, self.evaluated.plan)

    def gains(self, most: int) -> list[Difference]:
        """Return the ops that save most time, largest saving first."""
        return self._differences(self.saved_ps, most)

    def losses(self, most: int) -> list[Difference]:
        """Return the ops that lose most time, largest loss first."""
        return self._differences(-self.saved_ps, most)

    def by_type(self) -> list[TypeTimes]:
        """Return the time of each op type, largest saving first."""
        types = np.array(self.task.program.op_type)
        rows = []
        for op_type in dict.fromkeys(self.task.program.op_type):
            mask = types == op_type
            native_ps, plan_ps = (int(evaluated.op_ps[mask].sum()) for evaluated in (self.native, self.evaluated))
            rows.append(TypeTimes(op_type, int(mask.sum()), native_ps, plan_ps))
        return sorted(rows, key=lambda times: -times.saved_ps)

    def to_json(self, most: int) -> dict[str, Any]:
        """Return plain JSON values, times in seconds, sizes in bytes; levels are numbered as in `levels`."""
        native, report, program = self.native.report, self.evaluated.report, self.task.program
        return {
            "workload": program.name,
            "accelerator": self.task.accelerator.name,
            "simulator": simulator_name(self.task),
            "found_with": str(self.evaluated.plan.settings.get("simulator", BuiltinSimulator.name)),
            "levels": list(self.level_names),
            "speedup": self.speedup,
            "native": native.summary(),
            "report": report.summary(),
            "weights": self.weights.to_json(),
            "activations": self.activations.to_json(),
            **({"split_tensors": [item.to_json() for item in self.split_tensors]} if program.slices else {}),
            "in_place": len(self.evaluated.plan.handed_over(program)),
            "saved_s": (native.latency_ps - report.latency_ps) * PS,
            "tail_saved_s": self.tail_saved_ps * PS,
            "op_saved_s": (self.saved_ps * PS).tolist(),
            "by_type": [
                {
                    "type": times.op_type,
                    "ops": times.ops,
                    "native_s": times.native_ps * PS,
                    "plan_s": times.plan_ps * PS,
                    "saved_s": times.saved_ps * PS,
                }
                for times in self.by_type()
            ],
            "gains": [item.to_json() for item in self.gains(most)],
            "losses": [item.to_json() for item in self.losses(most)],
        }

    def difference(self, op: int) -> Difference:
        """Return the difference of one op between native and the plan."""
        return difference_of(self.task, self.native, self.evaluated, op)

    def _differences(self, worth: Ints, most: int) -> list[Difference]:
        """Return the ops that are worth most, without those that are worth nothing."""
        ops = [int(op) for op in np.argsort(-worth, kind="stable")[:most] if worth[op] > 0]
        return [self.difference(op) for op in ops]


def explain_plan(task: Task, evaluated: EvaluatedPlan) -> Explanation:
    """Return the explanation of a valid plan beside native's."""
    native = native_baseline(task)
    weights, activations = (
        _shift(task, name, kind, native, evaluated)
        for name, kind in (("weights", TensorKind.WEIGHT), ("activations", TensorKind.ACTIVATION))
    )
    return Explanation(task, native, evaluated, weights, activations)


def _shift(task: Task, name: str, kind: TensorKind, native: EvaluatedPlan, evaluated: EvaluatedPlan) -> Shift:
    program, levels = task.program, task.accelerator.num_levels
    before, after = (item.plan.tensor_levels(program) for item in (native, evaluated))
    moved, tensors = np.zeros((levels, levels), dtype=np.int64), program.tensor_kind == kind
    np.add.at(moved, (before[tensors], after[tensors]), program.tensor_bytes[tensors])
    ops, native_level = decided_levels(program, kind, before)
    return Shift(name, moved, ops, native_level, decided_levels(program, kind, after)[1])


def decided_levels(program: Program, kind: TensorKind, level: Ints) -> tuple[Ints, Ints]:
    """Return the ops that decide about tensors of a kind, and the level that each of them decides on.

    An op decides about the weights that it is the first to read and the activations that it makes. Where those of
    one op are in several levels, the level with most of their bytes counts, of two with equally many the faster.

    Args:
        program: the program.
        kind: WEIGHT or ACTIVATION.
        level: int64[K], as from `MemoryPlan.tensor_levels`.

    Returns:
        int64[E], ops in execution order; int64[E], their levels.
    """
    tensors = np.flatnonzero(program.tensor_kind == kind)
    placed = np.zeros((program.num_ops, int(level.max(initial=0)) + 1), dtype=np.int64)
    np.add.at(placed, (program.live_start[tensors], level[tensors]), program.tensor_bytes[tensors])
    ops = np.flatnonzero(placed.any(axis=1))
    return ops, placed[ops].argmax(axis=1)


def contiguity(level: Ints) -> float | None:
    """Share, 0..1, of neighbours in the same level; None if there are fewer than two entries.

    `level` int64[E] is that of the ops that decide about something, in execution order, as from `decided_levels`:
    ops in between that decide nothing do not count. The share is over the E - 1 pairs of consecutive entries, each
    counting the same however many bytes it is about. Our reading of EGRL's word.
    """
    return float((level[1:] == level[:-1]).mean()) if len(level) > 1 else None

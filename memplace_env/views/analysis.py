"""How and why a plan differs from native's: levels of tensors, neighbours that share one, time op by op.

After EGRL's mapping analysis (Khadka et al., ICLR 2021), whose exact definitions are not published: where the
compiler's bytes of each level go, which level each layer uses, and how often neighbouring layers share one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report
from memplace_env.views.differences import Difference, difference, op_times
from memplace_env.views.units import PS
from memplace_env.workload.program import Ints, Program, TensorKind


class Shift(NamedTuple):
    """Where the weights, or the activations, are under native and under the plan.

    Graph inputs and outputs are in neither: a mapping does not decide about them. "Decides" is as in the one-shot
    environments: an op decides about the weights that it is the first to read and the activations that it makes.

    Attributes:
        name: "weights" or "activations".
        moved_bytes: int64[L, L], bytes of the tensors by native's level (rows) and the plan's (columns).
        ops: int64[E], the ops that decide about at least one of them, in execution order.
        native_level, plan_level: int64[E], the level of what each of those ops decides about.
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
        """Share of the bytes that are in another level than under native, 0..1; 0 if there are none."""
        return 1 - int(self.moved_bytes.trace()) / self.total_bytes if self.total_bytes else 0.0

    @property
    def contiguities(self) -> tuple[float | None, float | None]:
        """The `contiguity` of native and of the plan."""
        return contiguity(self.native_level), contiguity(self.plan_level)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, sizes in bytes."""
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
    """All ops of one type: how many, and their time under native and under the plan, stalls included, in ps."""

    op_type: str
    ops: int
    native_ps: int
    plan_ps: int

    @property
    def saved_ps(self) -> int:
        """Positive where the plan is faster."""
        return self.native_ps - self.plan_ps


class Explanation(NamedTuple):
    """A plan beside native's of the same program on the same chip.

    Attributes:
        program, accelerator: which.
        native_plan, native_report, plan, report: what is compared.
        weights, activations: where they are.
    """

    program: Program
    accelerator: Accelerator
    native_plan: MemoryPlan
    native_report: Report
    plan: MemoryPlan
    report: Report
    weights: Shift
    activations: Shift

    @property
    def level_names(self) -> tuple[str, ...]:
        """L names, fastest first."""
        return tuple(level.name for level in self.accelerator.levels)

    @property
    def speedup(self) -> float:
        """Latency of native over that of the plan."""
        return self.native_report.latency_ps / self.report.latency_ps

    @property
    def saved_ps(self) -> Ints:
        """int64[T], what each op saves: native's time less the plan's, with the stalls before it.

        With `tail_saved_ps` they add up to the difference of the latencies.
        """
        return op_times(self.native_report) - op_times(self.report)

    @property
    def tail_saved_ps(self) -> int:
        """What the copies after the last op take less than under native."""
        return self.native_report.tail_ps - self.report.tail_ps

    def gains(self, most: int) -> list[Difference]:
        """The ops that save most time, largest saving first."""
        return self._differences(self.saved_ps, most)

    def losses(self, most: int) -> list[Difference]:
        """The ops that lose most time, largest loss first."""
        return self._differences(-self.saved_ps, most)

    def by_type(self) -> list[TypeTimes]:
        """The time of each op type, largest saving first."""
        kinds, (native, plan) = np.array(self.program.op_type), map(op_times, (self.native_report, self.report))
        found = []
        for kind in dict.fromkeys(self.program.op_type):
            mask = kinds == kind
            found.append(TypeTimes(kind, int(mask.sum()), int(native[mask].sum()), int(plan[mask].sum())))
        return sorted(found, key=lambda item: -item.saved_ps)

    def to_json(self, most: int) -> dict[str, Any]:
        """Plain JSON values, times in seconds, sizes in bytes; levels are numbered as in `levels`."""
        return {
            "workload": self.program.name,
            "accelerator": self.accelerator.name,
            "levels": list(self.level_names),
            "speedup": self.speedup,
            "native": self.native_report.summary(),
            "report": self.report.summary(),
            "weights": self.weights.to_json(),
            "activations": self.activations.to_json(),
            "saved_s": (self.native_report.latency_ps - self.report.latency_ps) * PS,
            "tail_saved_s": self.tail_saved_ps * PS,
            "op_saved_s": (self.saved_ps * PS).tolist(),
            "by_type": [
                {
                    "type": kind,
                    "ops": ops,
                    "native_s": native * PS,
                    "plan_s": plan * PS,
                    "saved_s": (native - plan) * PS,
                }
                for kind, ops, native, plan in self.by_type()
            ],
            "gains": [item.to_json() for item in self.gains(most)],
            "losses": [item.to_json() for item in self.losses(most)],
        }

    def _differences(self, worth: Ints, most: int) -> list[Difference]:
        """The ops worth most, of those worth anything."""
        ops = [int(op) for op in np.argsort(-worth, kind="stable")[:most] if worth[op] > 0]
        plans, reports = (self.native_plan, self.plan), (self.native_report, self.report)
        return [difference(self.program, self.accelerator, plans, reports, op) for op in ops]


def explain_plan(
    program: Program,
    accelerator: Accelerator,
    native_plan: MemoryPlan,
    native_report: Report,
    plan: MemoryPlan,
    report: Report,
) -> Explanation:
    """Set a plan beside native's; both must be valid for this program and chip, the reports by one simulator."""
    before, after = (tensor_levels(program, item) for item in (native_plan, plan))

    def shift(name: str, kind: TensorKind) -> Shift:
        moved = np.zeros((accelerator.num_levels, accelerator.num_levels), dtype=np.int64)
        tensors = program.tensor_kind == kind
        np.add.at(moved, (before[tensors], after[tensors]), program.tensor_bytes[tensors])
        ops, native_level = decided_levels(program, kind, before)
        return Shift(name, moved, ops, native_level, decided_levels(program, kind, after)[1])

    shifts = shift("weights", TensorKind.WEIGHT), shift("activations", TensorKind.ACTIVATION)
    return Explanation(program, accelerator, native_plan, native_report, plan, report, *shifts)


def tensor_levels(program: Program, plan: MemoryPlan) -> Ints:
    """int64[K], the level of each tensor in a plan: the one that serves most of the bytes that its uses move.

    Plans of the game, and those that stream weights, may serve a tensor from several levels; of two that serve the
    same number of bytes the faster counts. Our choice.
    """
    served = np.zeros((program.num_tensors, int(plan.use_level.max(initial=0)) + 1), dtype=np.int64)
    np.add.at(served, (program.use_tensor, plan.use_level), program.use_bytes)
    levels: Ints = served.argmax(axis=1)
    return levels


def decided_levels(program: Program, kind: TensorKind, level: Ints) -> tuple[Ints, Ints]:
    """The ops that decide about tensors of a kind, and the level of what each of them decides about.

    An op decides about the weights that it is the first to read and the activations that it makes. Where those of
    one op are in several levels, the level with most of their bytes counts, of two with equally many the faster.

    Args:
        program: the program.
        kind: WEIGHT or ACTIVATION.
        level: int64[K], as from `tensor_levels`.

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

"""What still hurts: the ops that lose most time to memory, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memplace_env.analysis.judged import Judged
from memplace_env.analysis.timeline import timeline_of
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.units import PS
from memplace_env.workload.program import Program


class Hurt(NamedTuple):
    """One op that waits for memory.

    Attributes:
        op, name, op_type: which.
        time_ps: its time and the stall before it.
        lost_ps: what of that memory costs.
        share: lost_ps over the latency of the whole plan.
        level: name of the level whose port sets the op's time; None where only a stall hurts.
        tensors: name and bytes of what the op moves there, largest first.
        stall_ps: the stall before the op.
        waits_for: names of the tensors whose copies the stall finishes.
    """

    op: int
    name: str
    op_type: str
    time_ps: int
    lost_ps: int
    share: float
    level: str | None
    tensors: tuple[tuple[str, int], ...]
    stall_ps: int
    waits_for: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, times in seconds."""
        return {
            "op": self.op,
            "name": self.name,
            "type": self.op_type,
            "time_s": self.time_ps * PS,
            "lost_s": self.lost_ps * PS,
            "share": self.share,
            "level": self.level,
            "tensors": [{"name": name, "bytes": moved} for name, moved in self.tensors],
            "stall_s": self.stall_ps * PS,
            "waits_for": list(self.waits_for),
        }


def find_hurts(task: Task, judged: Judged, most: int = 8) -> list[Hurt]:
    """The `most` ops that lose most, worst first; ops that lose nothing are left out."""
    program, plan, report = task.program, judged.plan, judged.report
    lost = report.memory_loss_ps
    worst = [int(op) for op in np.argsort(-lost, kind="stable")[:most] if lost[op] > 0]
    timeline = timeline_of(task, judged) if report.stall_ps[worst].any() else None
    found = []
    for op in worst:
        level, stall = int(report.bound_by[op]), int(report.stall_ps[op])
        late = timeline.stalled_by(op, stall) if timeline and stall else []
        found.append(
            Hurt(
                op=op,
                name=program.op_name[op],
                op_type=program.op_type[op],
                time_ps=int(report.op_time_ps[op]) + stall,
                lost_ps=int(lost[op]),
                share=int(lost[op]) / report.latency_ps,
                level=report.level_names[level] if level >= 0 else None,
                tensors=moved_tensors(program, plan, op, level),
                stall_ps=stall,
                waits_for=tuple(program.tensor_name[plan.transfers[copy, 0]] for copy in late),
            )
        )
    return found


def moved_tensors(program: Program, plan: MemoryPlan, op: int, level: int) -> tuple[tuple[str, int], ...]:
    """Name and bytes of what an op moves at a level, largest first."""
    uses = np.arange(program.use_ptr[op], program.use_ptr[op + 1])
    uses = uses[plan.use_level[uses] == level]
    moved = [(program.tensor_name[program.use_tensor[use]], int(program.use_bytes[use])) for use in uses]
    return tuple(sorted(moved, key=lambda item: -item[1]))

"""Bottlenecks: the ops that lose most time to memory, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memplace_env._lib.units import PS
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator_report import Report
from memplace_env.placement.task import Task
from memplace_env.program.program import Program
from memplace_env.report.explanation.repeated_ops import RepeatedOps, repeated_ops
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.quantities import seconds
from memplace_env.report.timeline.timeline import timeline_of


class Bottleneck(NamedTuple):
    """One op that waits for memory.

    Attributes:
        op, name, op_type: its number in execution order, its name and type.
        time_ps: its time with the stall before it.
        lost_ps: the part of that time that memory costs.
        share: lost_ps over the latency of the whole plan.
        level: name of the level whose port sets the op's time, or for which its unit waits; None if it loses time in
            a stall only, or if no port explains it.
        tensors: name and bytes of each tensor that the op moves there, largest first.
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
        """Return plain JSON values, times in seconds."""
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


def find_bottlenecks(task: Task, evaluated: EvaluatedPlan, most: int = 8) -> list[Bottleneck]:
    """Return the `most` ops that lose most time to memory, worst first, without those that lose nothing."""
    lost = evaluated.report.memory_loss_ps
    worst = [int(op) for op in np.argsort(-lost, kind="stable")[:most] if lost[op] > 0]
    return _bottlenecks(task, evaluated, worst)


def repeated_bottlenecks(task: Task, evaluated: EvaluatedPlan, most: int = 8) -> list[tuple[RepeatedOps, Bottleneck]]:
    """Return the `most` groups of repeated ops that lose most time together, each with its first op's bottleneck.

    Ops are in one group if they lose time at the same level, and times and losses look equal in a table.
    """
    report = evaluated.report
    lost, time_ps = report.memory_loss_ps, evaluated.op_ps

    def alike(op: int) -> object:
        return seconds(time_ps[op] * PS), seconds(lost[op] * PS), int(report.bound_by[op])

    groups = repeated_ops(task.program, lost, most, alike)
    return list(zip(groups, _bottlenecks(task, evaluated, [group.first for group in groups]), strict=True))


def _bottlenecks(task: Task, evaluated: EvaluatedPlan, ops: list[int]) -> list[Bottleneck]:
    program, plan, report = task.program, evaluated.plan, evaluated.report
    lost = report.memory_loss_ps
    timeline = timeline_of(task, evaluated) if report.stall_ps[ops].any() else None
    bottlenecks = []
    for op in ops:
        level, stall = _awaited_level(report, op), int(report.stall_ps[op])
        late = timeline.stalled_by(op, stall) if timeline and stall else []
        # Copies of several slices of a tensor count as one.
        awaited = dict.fromkeys((program.whole_tensor[copy[0]], copy[1]) for copy in plan.transfers[late].tolist())
        bottlenecks.append(
            Bottleneck(
                op=op,
                name=program.op_name[op],
                op_type=program.op_type[op],
                time_ps=int(report.op_time_ps[op]) + stall,
                lost_ps=int(lost[op]),
                share=int(lost[op]) / report.latency_ps,
                level=report.level_names[level] if level >= 0 else None,
                tensors=moved_tensors(program, plan, op, level),
                stall_ps=stall,
                waits_for=tuple(program.whole.tensor_name[tensor] for tensor, _ in awaited),
            )
        )
    return bottlenecks


def _awaited_level(report: Report, op: int) -> int:
    """Return the level that sets an op's time; where the unit waits for all loads, that which it waits for; else -1."""
    port_ps, lost_ps = report.port_ps[op], report.op_time_ps[op] - report.compute_ps[op]
    if report.bound_by[op] < 0 < lost_ps and lost_ps in (port_ps.max(), port_ps.sum()):
        return int(port_ps.argmax())
    return int(report.bound_by[op])


def moved_tensors(program: Program, plan: MemoryPlan, op: int, level: int) -> tuple[tuple[str, int], ...]:
    """Return name and bytes of each tensor that an op moves at a level, largest first; slices of one as one."""
    uses = np.arange(program.use_ptr[op], program.use_ptr[op + 1])
    uses = uses[plan.use_level[uses] == level]
    moved: dict[int, int] = {}
    for tensor, bytes_ in zip(program.whole_tensor[program.use_tensor[uses]], program.use_bytes[uses], strict=True):
        moved[tensor] = moved.get(tensor, 0) + int(bytes_)
    named = [(program.whole.tensor_name[tensor], bytes_) for tensor, bytes_ in moved.items()]
    return tuple(sorted(named, key=lambda item: -item[1]))

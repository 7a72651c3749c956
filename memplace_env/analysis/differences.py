"""Ops that take another time under one plan than under another, and what differs there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from memplace_env.analysis.judged import Judged
from memplace_env.task import Task
from memplace_env.units import PS


class Move(NamedTuple):
    """A tensor that an op reads or writes at another level than under native: name, bytes the op moves, levels."""

    tensor: str
    bytes: int
    source: str
    target: str


class Difference(NamedTuple):
    """An op that takes another time than under native.

    Attributes:
        op, name, op_type: which.
        native_ps, plan_ps: its time and the stall before it.
        waits_ps: what the plan's stall before it is longer than native's; negative where it is shorter.
        moves: what is served by another level, largest first.
    """

    op: int
    name: str
    op_type: str
    native_ps: int
    plan_ps: int
    waits_ps: int
    moves: tuple[Move, ...]

    @property
    def saved_ps(self) -> int:
        """Positive where the plan is faster."""
        return self.native_ps - self.plan_ps

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, times in seconds."""
        return {
            "op": self.op,
            "name": self.name,
            "type": self.op_type,
            "native_s": self.native_ps * PS,
            "plan_s": self.plan_ps * PS,
            "saved_s": self.saved_ps * PS,
            "waits_s": self.waits_ps * PS,
            "moves": [move._asdict() for move in self.moves],
        }


def difference_of(task: Task, native: Judged, judged: Judged, op: int) -> Difference:
    """One op under two plans."""
    program, levels = task.program, task.accelerator.levels
    before, after = native.plan.use_level, judged.plan.use_level
    uses = np.arange(program.use_ptr[op], program.use_ptr[op + 1])
    uses = uses[before[uses] != after[uses]]
    moves = []
    for use in uses[np.argsort(-program.use_bytes[uses], kind="stable")]:
        name = program.tensor_name[program.use_tensor[use]]
        moves.append(Move(name, int(program.use_bytes[use]), levels[before[use]].name, levels[after[use]].name))
    return Difference(
        op=op,
        name=program.op_name[op],
        op_type=program.op_type[op],
        native_ps=int(native.op_ps[op]),
        plan_ps=int(judged.op_ps[op]),
        waits_ps=int(judged.report.stall_ps[op] - native.report.stall_ps[op]),
        moves=tuple(moves),
    )


def biggest_differences(plans: Sequence[Judged], most: int = 10) -> list[int]:
    """The ops whose time, with the stall before it, differs most between the plans, largest difference first."""
    spread = np.ptp(np.stack([judged.op_ps for judged in plans]), axis=0)
    return [int(op) for op in np.argsort(-spread, kind="stable")[:most] if spread[op] > 0]

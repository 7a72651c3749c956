"""Ops that take another time under a plan than under native, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report
from memplace_env.views.units import PS, seconds, shortened, size
from memplace_env.workload.program import Ints, Program


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

    @property
    def why(self) -> str:
        """The reason in a few words: what went from which level to which."""
        routes: dict[tuple[str, str], list[str]] = {}
        for move in self.moves:
            text = f"{shortened(move.tensor, 28)} {size(move.bytes)}"
            routes.setdefault((move.source, move.target), []).append(text)
        parts = [f"{source} → {target}: {_first_of(texts)}" for (source, target), texts in routes.items()]
        if self.waits_ps:
            parts.append(f"waits {seconds(abs(self.waits_ps) * PS)} {'more' if self.waits_ps > 0 else 'less'}")
        return "; ".join(parts)

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


def difference(
    program: Program,
    accelerator: Accelerator,
    plans: tuple[MemoryPlan, MemoryPlan],
    reports: tuple[Report, Report],
    op: int,
) -> Difference:
    """One op under two plans, native's first."""
    before, after = (plan.use_level for plan in plans)
    uses = np.arange(program.use_ptr[op], program.use_ptr[op + 1])
    uses = uses[before[uses] != after[uses]]
    moves = []
    for use in uses[np.argsort(-program.use_bytes[uses], kind="stable")]:
        source, target = (accelerator.levels[level[use]].name for level in (before, after))
        name = program.tensor_name[program.use_tensor[use]]
        moves.append(Move(name, int(program.use_bytes[use]), source, target))
    native_ps, plan_ps = (int(op_times(report)[op]) for report in reports)
    waits_ps = int(reports[1].stall_ps[op] - reports[0].stall_ps[op])
    return Difference(op, program.op_name[op], program.op_type[op], native_ps, plan_ps, waits_ps, tuple(moves))


def op_times(report: Report) -> Ints:
    """int64[T], ps: time of each op with the stall before it."""
    return report.op_time_ps + report.stall_ps


def _first_of(texts: list[str], most: int = 2) -> str:
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")

"""Ops that take different times in two plans, and the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from memplace_env._lib.units import PS
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan


class Move(NamedTuple):
    """A tensor that an op reads or writes at another level than in native: name, bytes that the op moves, levels.

    Slices of a tensor that move between the same levels are one.
    """

    tensor: str
    bytes: int
    source: str
    target: str


class Difference(NamedTuple):
    """An op that takes another time than in native.

    Attributes:
        op, name, op_type: its number in execution order, its name and type.
        native_ps, plan_ps: its time with the stall before it.
        waits_ps: the plan's stall before it less native's.
        moves: tensors that another level serves, largest first.
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
        """Time saved by the plan; negative if it is slower."""
        return self.native_ps - self.plan_ps

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, times in seconds."""
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


def difference_of(task: Task, native: EvaluatedPlan, evaluated: EvaluatedPlan, op: int) -> Difference:
    """Return the difference of one op between two plans."""
    program, levels = task.program, task.accelerator.levels
    before, after = native.plan.use_level, evaluated.plan.use_level
    uses = np.arange(program.use_ptr[op], program.use_ptr[op + 1])
    uses = uses[before[uses] != after[uses]]
    moved: dict[tuple[int, int, int], int] = {}
    ways = zip(program.whole_tensor[program.use_tensor[uses]], before[uses], after[uses], strict=True)
    for way, bytes_ in zip(ways, program.use_bytes[uses], strict=True):
        moved[way] = moved.get(way, 0) + int(bytes_)
    moves = [
        Move(program.whole.tensor_name[tensor], bytes_, levels[source].name, levels[target].name)
        for (tensor, source, target), bytes_ in sorted(moved.items(), key=lambda item: -item[1])
    ]
    return Difference(
        op=op,
        name=program.op_name[op],
        op_type=program.op_type[op],
        native_ps=int(native.op_ps[op]),
        plan_ps=int(evaluated.op_ps[op]),
        waits_ps=int(evaluated.report.stall_ps[op] - native.report.stall_ps[op]),
        moves=tuple(moves),
    )


def spread_of(plans: Sequence[EvaluatedPlan]) -> Ints:
    """Return int64[T], the difference of each op's longest and shortest time in the plans, stalls included, in ps."""
    spread: Ints = np.ptp(np.stack([evaluated.op_ps for evaluated in plans]), axis=0)
    return spread


def biggest_differences(plans: Sequence[EvaluatedPlan], most: int = 10) -> list[int]:
    """Return the ops whose time differs most between the plans, largest difference first."""
    spread = spread_of(plans)
    return [int(op) for op in np.argsort(-spread, kind="stable")[:most] if spread[op] > 0]

"""One on-chip memory of a plan as a panel, and the legend of its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memplace_env.placement.task import Task
from memplace_env.program.program import Ints
from memplace_env.report.panels import OP_AXIS, Box, Page, memory_panel, panel_title, pixels_per_unit
from memplace_env.report.plans.block_drawing import (
    Rectangles,
    draw_blocks,
    draw_in_flight,
    draw_names,
    in_flight_handle,
)
from memplace_env.report.plans.block_kinds import BlockKind, arrivals, block_kinds, bytes_in_blocks
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.plans.whole_tensors import joined_blocks
from memplace_env.report.quantities import percent, rate, size
from memplace_env.report.style import BLOCK_COLOURS, MUTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PlanMap(NamedTuple):
    """The common input of all panels of a plan.

    Attributes:
        task, evaluated: the plan and its task.
        kinds: kinds of the A blocks.
        arrived: int64[A], as from `arrivals`.
        slots: the right end of the op axis: T, or T + 1 if blocks or copies remain at the end of the program.
    """

    task: Task
    evaluated: EvaluatedPlan
    kinds: list[BlockKind]
    arrived: Ints
    slots: int

    @property
    def op_axis(self) -> str:
        """Label of the op axis."""
        has_end = self.slots > self.task.program.num_ops
        return OP_AXIS + ("; the last slot is the end of the program" if has_end else "")


def plan_maps(task: Task, *plans: EvaluatedPlan) -> list[PlanMap]:
    """Return the plans as maps with the same op axis."""
    ops = task.program.num_ops
    tail = any((evaluated.plan.allocations[:, 4] == ops).any() or evaluated.report.tail_ps for evaluated in plans)
    maps = []
    for evaluated in plans:
        arrived = arrivals(task, evaluated.plan)
        kinds = block_kinds(task.program, evaluated.plan.allocations[:, 0], arrived)
        maps.append(PlanMap(task, evaluated, kinds, arrived, ops + 1 if tail else ops))
    return maps


def draw_level(figure: Figure, box: Box, shown: PlanMap, level: int, title: str | None = None) -> None:
    """Draw one memory: its blocks by ops and addresses, its capacity and use; the title is its name unless given."""
    program, plan = shown.task.program, shown.evaluated.plan
    memory = shown.task.accelerator.levels[level]
    axes, unit = memory_panel(figure, box, memory, 0, shown.slots)
    panel_title(figure, axes, title or memory.name, _facts(shown, level))
    blocks = np.flatnonzero(plan.allocations[:, 1] == level)
    if len(blocks) == 0:
        axes.text(0.5, 0.5, "nothing is placed here", transform=axes.transAxes, ha="center", color=MUTED, fontsize=11)
        return
    tensor, _, offset, start, end = plan.allocations[blocks].T
    joined = joined_blocks(program, tensor, offset, np.column_stack([start, end, shown.arrived[blocks]]))
    blocks, start, end, offset = blocks[joined.block], start[joined.block], end[joined.block], offset[joined.block]
    rectangles = Rectangles(start / 1.0, offset / unit, end + 1.0 - start, joined.bytes / unit)
    pixels = pixels_per_unit(axes)
    colours = [BLOCK_COLOURS[shown.kinds[block]] for block in blocks]
    draw_blocks(axes, rectangles, colours, pixels)
    draw_in_flight(axes, rectangles, shown.arrived[blocks])
    draw_names(figure, axes, rectangles, joined.names, colours, pixels)


def draw_block_legend(figure: Figure, page: Page, maps: Sequence[PlanMap], top: float = 88) -> None:
    """Draw the legend of the kinds of blocks that occur, `top` pixels from the upper edge."""
    from matplotlib.patches import Patch

    present = [kind for kind in BlockKind if any(kind in shown.kinds for shown in maps)]
    handles = [Patch(color=BLOCK_COLOURS[kind], label=kind.value) for kind in present]
    if any((shown.arrived >= 0).any() for shown in maps):
        handles.append(in_flight_handle())
    page.legend(figure, handles, top)


def _facts(shown: PlanMap, level: int) -> str:
    memory = shown.task.accelerator.levels[level]
    used = bytes_in_blocks(shown.task.program, shown.evaluated.plan, level)[: shown.task.program.num_ops]
    peak, mean = used.max(), used.mean()
    facts = [
        size(memory.capacity_bytes),
        rate(memory.read_bytes_per_s),
        f"peak {size(peak)} ({percent(peak / memory.capacity_bytes)})",
        f"mean {percent(mean / memory.capacity_bytes)}",
        f"{size(shown.evaluated.report.bytes_moved[level])} moved",
    ]
    return "  ·  ".join(facts)

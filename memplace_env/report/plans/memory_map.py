"""The memory map: the blocks in each on-chip memory by op and address, and the time of every op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.units import PS
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints
from memplace_env.report.panels import (
    OP_AXIS,
    Box,
    Page,
    label_axis,
    legend_row,
    memory_panel,
    panel_title,
    pixels_per_unit,
    style_axes,
)
from memplace_env.report.plans.block_drawing import (
    Rectangles,
    draw_blocks,
    draw_in_flight,
    draw_names,
    in_flight_handle,
)
from memplace_env.report.plans.block_kinds import BlockKind, arrivals, block_kinds, bytes_in_blocks
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan, native_baseline
from memplace_env.report.plans.headlines import task_title
from memplace_env.report.plans.whole_tensors import joined_blocks
from memplace_env.report.quantities import cut, percent, rate, ratio, seconds, size, time_scale
from memplace_env.report.style import AXIS_PT, BLOCK_COLOURS, INK, MUTED, SAVED, TIME_COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PAGE = Page()

_HEADER, _PANEL_TITLE, _GAP = 96, 28, 10
_STRIP, _FOOTER = 150, 52


def memory_map(task: Task, evaluated: EvaluatedPlan, baseline: EvaluatedPlan | None = None) -> Figure:
    """Draw a plan, 1200 x 800 pixels.

    One panel for each on-chip memory: ops across, addresses up, a rectangle for each block, coloured by its
    content, pale while its copy is under way. Below, the time of each op: compute, what memory adds, stalls.

    Args:
        task: the program and the chip.
        evaluated: the plan, which must be valid, and its report.
        baseline: the plan to compare with; None: native's.

    Raises:
        VisualizationError: if matplotlib is not installed.
    """
    base = baseline or native_baseline(task)
    figure = new_figure(PAGE.width, PAGE.height)
    (shown,) = plan_maps(task, evaluated)
    heights = _panel_heights([level.capacity_bytes for level in task.accelerator.levels[:-1]])
    top = float(PAGE.height - _HEADER)
    for level, height in enumerate(heights):
        top -= _PANEL_TITLE + height
        draw_level(figure, PAGE.panel(top, height), shown, level)
        top -= _GAP
    draw_times(figure, PAGE.panel(_FOOTER, _STRIP), shown, base)
    speedup = f"speed-up {ratio(base.report.latency_ps / evaluated.report.latency_ps)} over {base.name}"
    latency = f"{seconds(evaluated.report.latency_s)} per inference  ·  {speedup} ({seconds(base.report.latency_s)})"
    PAGE.head(figure, cut(task_title(task), 90), latency)
    draw_block_legend(figure, PAGE, [shown])
    return figure


def _panel_heights(capacities: Sequence[int]) -> list[float]:
    """Return the pixels of each panel: larger memories get more, but far less than in proportion."""
    room = PAGE.height - _HEADER - _FOOTER - _STRIP - _PANEL_TITLE - len(capacities) * (_PANEL_TITLE + _GAP)
    weights = np.array(capacities, dtype=np.float64) ** 0.25  # the root is our choice: 4 MiB shows beside 32 GiB
    heights: list[float] = (room * weights / weights.sum()).tolist()
    return heights


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
    """Draw one memory: its blocks by ops and addresses, its capacity and use; the title is its name unless given.

    A result in an operand's place begins in the middle of its op, where the operand ends.
    """
    program, plan = shown.task.program, shown.evaluated.plan
    memory = shown.task.accelerator.levels[level]
    axes, unit = memory_panel(figure, box, memory, 0, shown.slots)
    panel_title(figure, axes, title or memory.name, _level_facts(shown, level))
    blocks = np.flatnonzero(plan.allocations[:, 1] == level)
    if len(blocks) == 0:
        axes.text(0.5, 0.5, "nothing is placed here", transform=axes.transAxes, ha="center", color=MUTED, fontsize=11)
        return
    tensor, _, offset, start, end = plan.allocations[blocks].T
    joined = joined_blocks(program, tensor, offset, np.column_stack([start, end, shown.arrived[blocks]]))
    blocks, start, end, offset = blocks[joined.block], start[joined.block], end[joined.block], offset[joined.block]
    half = np.zeros((2, len(plan.allocations)))
    for side, rows in enumerate(zip(*plan.handed_over(program), strict=True)):
        half[side, list(rows)] = 0.5
    left, right = start + half[1, blocks], end + 1.0 - half[0, blocks]
    rectangles = Rectangles(left, offset / unit, right - left, joined.bytes / unit)
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


def _level_facts(shown: PlanMap, level: int) -> str:
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


def draw_times(figure: Figure, box: Box, shown: PlanMap, baseline: EvaluatedPlan) -> None:
    """Draw the time of each op: compute, what memory adds, the stall before it; after the last op the tail."""
    from matplotlib.patches import Patch

    report, ops = shown.evaluated.report, shown.task.program.num_ops
    axes = figure.add_axes(box)
    style_axes(axes)
    memory = report.op_time_ps - report.compute_ps
    waiting = report.stall_ps
    if shown.slots > ops:
        memory, waiting = np.append(memory, 0), np.append(waiting, report.tail_ps)
    compute = np.append(report.compute_ps, np.zeros(len(memory) - ops, dtype=np.int64))
    total = compute + memory + waiting
    scale = time_scale(float(max(total.max(), 1)) * PS)  # all are 0 where only the sum was measured
    edges, unit = np.arange(len(total) + 1), PS / scale.size
    base = np.zeros(len(total))
    for part, colour in zip((compute, memory, waiting), TIME_COLOURS.values(), strict=True):
        axes.stairs(base + part * unit, edges, baseline=base, fill=True, color=colour, linewidth=0)
        base = base + part * unit
    axes.set_xlim(0, shown.slots)
    axes.set_ylim(0, float(max(total.max(), 1)) * unit * 1.12)
    axes.locator_params(axis="y", nbins=5)
    label_axis(axes, f"op time ({scale.unit})")
    axes.set_xlabel(shown.op_axis, fontsize=AXIS_PT, color=INK)
    panel_title(figure, axes, "Time", _facts(shown))
    parts = zip(TIME_COLOURS.items(), (compute, memory, waiting), strict=True)
    handles = [Patch(color=colour, label=label) for (label, colour), part in parts if part.any()]
    if _draw_saved(axes, baseline, total[:ops] * unit, unit):
        handles.append(Patch(color=SAVED, label="saved, against native" if baseline.name == "native" else "saved"))
    legend_row(axes, handles, loc="lower right", bbox_to_anchor=(1.0, 1.04))


def _draw_saved(axes: Axes, baseline: EvaluatedPlan, time: NDArray[np.floating], unit: float) -> bool:
    """Draw the time that the baseline takes more above the plan's own; return whether there is any."""
    before = baseline.op_ps * unit
    axes.stairs(np.maximum(before, time), baseline=time, fill=True, color=SAVED, linewidth=0)
    axes.set_ylim(0, max(axes.get_ylim()[1], float(before.max()) * 1.12))
    return bool((before > time).any())


def _facts(shown: PlanMap) -> str:
    report, lost = shown.evaluated.report, shown.evaluated.lost_ps
    if report.is_total_only:
        return "the simulator reports no times of single ops"
    text = f"{percent(lost / report.latency_ps)} ({seconds(lost * PS)}) is lost to memory"
    worst = int(report.memory_loss_ps.argmax())
    if report.memory_loss_ps[worst] > 0:
        text += f", most of all in op {worst}, {shown.task.program.op_type[worst][:24]}"
    return text

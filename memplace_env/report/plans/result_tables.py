"""Tables of plans: latency, speed-up and bound, what they move, where they lose time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from memplace_env._lib.units import PS
from memplace_env.placement.simulator import Report
from memplace_env.placement.task import Task
from memplace_env.program.program import Program
from memplace_env.report.explanation.bottlenecks import repeated_bottlenecks
from memplace_env.report.explanation.differences import spread_of
from memplace_env.report.explanation.repeated_ops import REPEATED, TYPE_WIDTH, repeated_ops
from memplace_env.report.explanation.routes import bottleneck_reason, what_decides
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan, StageResult, native_baseline
from memplace_env.report.plans.headlines import headline
from memplace_env.report.quantities import cut, energy, percent, ratio, seconds, shortened, size
from memplace_env.report.tables import NONE, add_row, new_table, plain_text


class Bound(NamedTuple):
    """A latency that no plan beats: its name, the seconds, and a sentence that says for which plans it holds.

    The seconds are NaN where no bound is known.
    """

    name: str
    seconds: float
    meaning: str

    def text(self, form: Callable[[float], str], value: float) -> str:
        """Return a cell about the bound: a value in its form, or a dash where no bound is known."""
        return NONE if math.isnan(value) else form(value)


_PROVEN = {
    "one-shot": "no plan that keeps each {piece} in one level is faster",
    "game": "no plan of any kind is faster",
    "dynamic": "no plan of any kind is faster",
}
"""Meaning of a bound that agents prove, by the value of the formulation."""


def bound_of(
    report: Report, proven_s: float | None = None, formulation: str = "one-shot", program: Program | None = None
) -> Bound:
    """Return the bound that an agent proved, in seconds, for plans of a formulation; without one the traffic bound.

    Those plans keep to the order of ops of `program`, and to the results in place that it allows.
    """
    if report.traffic_bound_ps == 1 and proven_s is None:  # what a simulator reports that knows none
        return Bound("traffic bound", math.nan, "No bound: the simulator reports none.")
    traffic = f"Traffic bound: no plan of any kind can beat {seconds(report.traffic_bound_s)}."
    if proven_s is None:
        return Bound("traffic bound", report.traffic_bound_s, traffic)
    piece, scope = "tensor", ""
    if program is not None:
        piece = piece_of(program)
        scope = f" for this order of ops, {'with' if len(program.inplace) else 'without'} results in place"
    return Bound("bound", proven_s, f"Bound: {_PROVEN[formulation].format(piece=piece)}, proven{scope}. {traffic}")


def piece_of(program: Program) -> str:
    """Return the word for what has one level in a one-shot plan of a program: a tensor, or a slice of one."""
    return "tensor" if program.slices is None else "slice"


def stage_results_table(
    baseline: EvaluatedPlan, stage_results: Sequence[StageResult], bound: Bound, best: str, seed: int
) -> Table:
    """Return a table of all stages of a search between the baseline and the bound; the row of `best` is bold."""
    base_s = baseline.report.latency_s
    table = new_table(
        "Agents", "", "latency", "speed-up", f"above the {bound.name}", "plans", "seconds",
        caption=f"The plan is by {best}. Seed {seed}. Seconds without those that compile kernels.",
    )  # fmt: skip

    def row(name: str, latency_s: float, *spent: str, style: str = "") -> None:
        above = bound.text(percent, latency_s / bound.seconds - 1)
        add_row(table, name, seconds(latency_s), ratio(base_s / latency_s), above, *spent, style=style)

    row(baseline.name, base_s, NONE, NONE)
    for stage in stage_results:
        style = "bold" if stage.name == best else ""
        row(stage.name, stage.latency_s, str(stage.evaluations), f"{stage.seconds:.2f}", style=style)
    limit = bound.text(seconds, bound.seconds), bound.text(ratio, base_s / bound.seconds)
    add_row(table, bound.name, *limit, NONE, NONE, NONE)
    return table


def result_table(
    task: Task, evaluated: EvaluatedPlan, bound: Bound | None = None, baseline: EvaluatedPlan | None = None
) -> Table:
    """Return a table of a plan, a baseline, by default native, and a bound, by default the traffic bound."""
    base, bound = baseline or native_baseline(task), bound or bound_of(evaluated.report)
    shown, base_s, levels = (base, evaluated), base.report.latency_s, task.accelerator.levels
    table = new_table("Result", "", base.name, evaluated.name, bound.name, caption=bound.meaning)

    def row(name: str, value: Callable[[EvaluatedPlan], str], last: str = NONE, style: str = "") -> None:
        add_row(table, name, *map(value, shown), last, style=style)

    limit = bound.text(seconds, bound.seconds), bound.text(ratio, base_s / bound.seconds)
    row("latency", lambda item: seconds(item.report.latency_s), limit[0], "bold")
    row("speed-up", lambda item: ratio(base_s / item.report.latency_s), limit[1])
    row(f"above the {bound.name}", lambda item: bound.text(percent, item.report.latency_s / bound.seconds - 1))
    if all(item.report.is_total_only for item in shown):
        return table
    row("lost to memory", lambda item: seconds(item.lost_ps * PS))
    if any(item.waits_ps for item in shown):
        row("  of it waiting for copies", lambda item: seconds(item.waits_ps * PS))
    row("energy", lambda item: energy(item.report.energy_j))
    for level, memory in enumerate(levels):
        add_row(table, f"{memory.name} moved", *(size(int(item.report.bytes_moved[level])) for item in shown), NONE)
    for level, memory in enumerate(levels[:-1]):
        peaks = [int(item.report.peak_bytes[level]) for item in shown]
        texts = [f"{size(peak)} ({percent(peak / memory.capacity_bytes)})" for peak in peaks]
        add_row(table, f"{memory.name} peak", *texts, NONE)
    if len(task.program.handovers):
        row("results in place", lambda item: str(len(item.plan.handed_over(task.program))))
    return table


def bottlenecks_table(task: Task, evaluated: EvaluatedPlan) -> RenderableType:
    """Return a table of the ops that lose most time to memory, and why; a sentence if none loses any."""
    groups, report = repeated_bottlenecks(task, evaluated), evaluated.report
    if report.is_total_only:
        return Text("The simulator reports no times of single ops.\n")
    if not groups:
        return Text("No op loses time to memory.\n")
    lost = [report.memory_loss_ps[list(group.ops)].sum() for group, _ in groups]
    shown, total = (percent(loss / report.latency_ps) for loss in (sum(lost), evaluated.lost_ps))
    caption = f"These ops lose {shown} of the time to memory, all ops together {total}."
    if any(len(group.ops) > 1 for group, _ in groups):
        caption += f" {REPEATED}"
    table = new_table(
        "Bottlenecks", "op", "name", "type", "time", "lost", "share", "why", left=(1, 2, 6), caption=caption
    )
    for (group, bottleneck), loss in zip(groups, lost, strict=True):
        add_row(
            table,
            group.first,
            group.name,
            cut(bottleneck.op_type, TYPE_WIDTH),
            seconds(bottleneck.time_ps * len(group.ops) * PS),
            seconds(loss * PS),
            percent(loss / report.latency_ps),
            bottleneck_reason(bottleneck),
        )
    return table


def comparison_table(task: Task, plans: Sequence[EvaluatedPlan]) -> Table:
    """Return a table of plans of one task, one a row, native first."""
    native = native_baseline(task)
    bound = bound_of(native.report)
    moved = [f"{memory.name} moved" for memory in task.accelerator.levels]
    table = new_table(
        "Plans",
        "plan", "latency", "speed-up", f"above {bound.name}", "lost", "waits", "energy", *moved,
        caption=bound.meaning,
    )  # fmt: skip
    for evaluated in (native, *plans):
        report = evaluated.report
        add_row(
            table,
            shortened(evaluated.name, 40),
            seconds(report.latency_s),
            ratio(native.report.latency_ps / report.latency_ps),
            percent(report.latency_s / bound.seconds - 1),
            seconds(evaluated.lost_ps * PS),
            seconds(evaluated.waits_ps * PS),
            energy(report.energy_j),
            *(size(int(moved)) for moved in report.bytes_moved),
        )
    return table


def differences_table(task: Task, plans: Sequence[EvaluatedPlan], most: int = 10) -> RenderableType:
    """Return a table of the ops whose time differs most between the plans, and of two plans what decides."""
    spread, times = spread_of(plans), [evaluated.op_ps * PS for evaluated in plans]
    groups = repeated_ops(task.program, spread, most, lambda op: tuple(seconds(time[op]) for time in times))
    if not groups:
        return Text(_sameness(plans))
    captions = [what_decides(task, *plans)] if len(plans) == 2 else []
    captions += [REPEATED] if any(len(group.ops) > 1 for group in groups) else []
    names = [shortened(evaluated.name, 20) for evaluated in plans]
    table = new_table(
        "Where they differ most", "op", "name", "type", *names, "spread", left=(1, 2), caption=" ".join(captions)
    )
    for group in groups:
        ops = list(group.ops)
        cells = [seconds(values[ops].sum()) for values in (*times, spread * PS)]
        add_row(table, group.first, group.name, cut(task.program.op_type[group.first], TYPE_WIDTH), *cells)
    return table


def _sameness(plans: Sequence[EvaluatedPlan]) -> str:
    """Return what is equal in plans whose ops take the same times."""
    if any(evaluated.report.is_total_only for evaluated in plans):
        return "The simulator reports no times of single ops.\n"
    if len({evaluated.plan.key for evaluated in plans}) == 1:
        return "The plans are equal.\n"
    if len({evaluated.plan.use_level.tobytes() for evaluated in plans}) == 1:
        return "The plans are equal but for addresses and copies: all ops take the same time.\n"
    return "The plans differ, and yet all ops take the same time.\n"


def summary_text(task: Task, report: Report) -> str:
    """Return a plan in a few lines of plain text: latency, speed-up over native, and each memory."""
    table = new_table(None, "memory", "moved", "peak", "capacity")
    for level, memory in enumerate(task.accelerator.levels):
        peak = size(int(report.peak_bytes[level]))
        add_row(table, memory.name, size(int(report.bytes_moved[level])), peak, size(memory.capacity_bytes))
    return f"{headline(task, report)}\n{plain_text(table)}"

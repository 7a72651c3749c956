"""Tables of what plans are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from memplace_env.analysis.differences import biggest_differences
from memplace_env.analysis.hurts import Hurt
from memplace_env.analysis.judged import Judged, native_baseline
from memplace_env.registration import Formulation
from memplace_env.simulator import Report
from memplace_env.task import Task
from memplace_env.units import PS
from memplace_env.views.tables.base import NONE, add_row, new_table, plain_text
from memplace_env.views.text.headlines import headline
from memplace_env.views.text.quantities import energy, percent, ratio, seconds, shortened, size
from memplace_env.views.text.reasons import what_decides, why_it_hurts


class Bound(NamedTuple):
    """A proven latency, its name, and what exactly is proven, as a sentence."""

    name: str
    seconds: float
    meaning: str


_PROVEN = {
    Formulation.ONE_SHOT: "no plan that keeps each tensor in one level is faster",
    Formulation.GAME: "no plan of any kind is faster",
    Formulation.DYNAMIC: "no plan of any kind is faster",
}
"""What agents prove, by formulation."""


def bound_of(report: Report, proven_s: float | None = None, formulation: Formulation = Formulation.ONE_SHOT) -> Bound:
    """What an agent has proven, in seconds, of plans of that formulation; where nothing is proven the traffic bound."""
    traffic = f"Traffic bound: no plan of any kind can beat {seconds(report.traffic_bound_s)}."
    if proven_s is None:
        return Bound("traffic bound", report.traffic_bound_s, traffic)
    return Bound("bound", proven_s, f"Bound: {_PROVEN[formulation]}, proven. {traffic}")


class Finding(NamedTuple):
    """Who found a plan, its latency in seconds, how many plans that took, and how many seconds."""

    name: str
    latency_s: float
    evaluations: int
    seconds: float


def findings_table(baseline: Judged, findings: Sequence[Finding], bound: Bound, best: str, seed: int) -> Table:
    """Who found what, between the baseline and the bound; the finding called `best` is in bold."""
    base_s = baseline.report.latency_s
    table = new_table(
        "Who found what", "", "latency", "speed-up", f"above the {bound.name}", "plans", "seconds",
        caption=f"The best plan is that of {best}. Seed {seed}.",
    )  # fmt: skip

    def row(name: str, latency_s: float, *spent: str, style: str = "") -> None:
        above = percent(latency_s / bound.seconds - 1)
        add_row(table, name, seconds(latency_s), ratio(base_s / latency_s), above, *spent, style=style)

    row(baseline.name, base_s, NONE, NONE)
    for found in findings:
        style = "bold" if found.name == best else ""
        row(found.name, found.latency_s, str(found.evaluations), f"{found.seconds:.1f}", style=style)
    add_row(table, bound.name, seconds(bound.seconds), ratio(base_s / bound.seconds), NONE, NONE, NONE)
    return table


def result_table(task: Task, judged: Judged, bound: Bound | None = None, baseline: Judged | None = None) -> Table:
    """A plan beside a baseline, by default native's plan, and a proven bound, by default the traffic bound."""
    base, bound = baseline or native_baseline(task), bound or bound_of(judged.report)
    shown, base_s, levels = (base, judged), base.report.latency_s, task.accelerator.levels
    table = new_table("Result", "", base.name, judged.name, bound.name, caption=bound.meaning)

    def row(name: str, value: Callable[[Judged], str], last: str = NONE, style: str = "") -> None:
        add_row(table, name, *map(value, shown), last, style=style)

    row("latency", lambda item: seconds(item.report.latency_s), seconds(bound.seconds), "bold")
    row("speed-up", lambda item: ratio(base_s / item.report.latency_s), ratio(base_s / bound.seconds))
    row(f"above the {bound.name}", lambda item: percent(item.report.latency_s / bound.seconds - 1))
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
    return table


def hurts_table(hurts: Sequence[Hurt], judged: Judged) -> RenderableType:
    """The ops that lose most, and why; a sentence if none loses anything."""
    if not hurts:
        return Text("Nothing hurts: no op loses time to memory.\n")
    shown, all_ps = sum(hurt.lost_ps for hurt in hurts), judged.report.latency_ps
    shares = [percent(lost / all_ps) for lost in (shown, judged.lost_ps)]
    caption = f"These ops lose {shares[0]} of the time to memory, all ops together {shares[1]}."
    table = new_table(
        "What still hurts", "op", "name", "type", "time", "lost", "share", "why", left=(1, 2, 6), caption=caption
    )
    for hurt in hurts:
        add_row(
            table,
            hurt.op,
            shortened(hurt.name, 24),
            hurt.op_type,
            seconds(hurt.time_ps * PS),
            seconds(hurt.lost_ps * PS),
            percent(hurt.share),
            why_it_hurts(hurt),
        )
    return table


def comparison_table(task: Task, plans: Sequence[Judged]) -> Table:
    """Several plans of one task, one a row, native first."""
    native = native_baseline(task)
    bound = bound_of(native.report)
    moved = [f"{memory.name} moved" for memory in task.accelerator.levels]
    table = new_table(
        "Plans",
        "plan", "latency", "speed-up", f"above {bound.name}", "lost", "waits", "energy", *moved,
        caption=bound.meaning,
    )  # fmt: skip
    for judged in (native, *plans):
        report = judged.report
        add_row(
            table,
            shortened(judged.name, 40),
            seconds(report.latency_s),
            ratio(native.report.latency_ps / report.latency_ps),
            percent(report.latency_s / bound.seconds - 1),
            seconds(judged.lost_ps * PS),
            seconds(judged.waits_ps * PS),
            energy(report.energy_j),
            *(size(int(moved)) for moved in report.bytes_moved),
        )
    return table


def differences_table(task: Task, plans: Sequence[Judged], most: int = 10) -> RenderableType:
    """The ops whose time differs most between the plans, and of two plans what decides."""
    program, ops = task.program, biggest_differences(plans, most)
    if not ops:
        return Text("All ops take the same time in all plans.\n")
    names = [shortened(judged.name, 20) for judged in plans]
    caption = what_decides(task, *plans) if len(plans) == 2 else None
    table = new_table("Where they differ most", "op", "name", "type", *names, "spread", left=(1, 2), caption=caption)
    for op in ops:
        times = [float(judged.op_ps[op] * PS) for judged in plans]
        spread = seconds(max(times) - min(times))
        add_row(table, op, shortened(program.op_name[op], 32), program.op_type[op], *map(seconds, times), spread)
    return table


def summary_text(task: Task, report: Report) -> str:
    """A plan in a few lines of plain text: latency, speed-up over native, and each memory."""
    table = new_table(None, "memory", "moved", "peak", "capacity")
    for level, memory in enumerate(task.accelerator.levels):
        peak = size(int(report.peak_bytes[level]))
        add_row(table, memory.name, size(int(report.bytes_moved[level])), peak, size(memory.capacity_bytes))
    return f"{headline(task, report)}\n{plain_text(table)}"

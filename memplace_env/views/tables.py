"""Tables of results, for the terminal (rich) and, through `plain_text`, for everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from typing import NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from memplace_env.accelerator import Accelerator
from memplace_env.simulator import Report
from memplace_env.views.hurts import Hurt
from memplace_env.views.units import PS, energy, percent, ratio, seconds, shortened, size
from memplace_env.workload.program import Program

NONE = "–"


class Bound(NamedTuple):
    """A proven latency and what exactly is proven, as a sentence."""

    seconds: float
    meaning: str


def bound_of(report: Report, plan_bound_s: float | None = None) -> Bound:
    """The agent's proven bound if it has one, else the simulator's, which holds for all plans."""
    if plan_bound_s is None:
        return Bound(report.lower_bound_s, "Bound: no plan of any kind can be faster, proven.")
    meaning = "Bound: no plan that keeps each tensor in one level is faster, proven."
    return Bound(plan_bound_s, f"{meaning} No plan of any kind can beat {seconds(report.lower_bound_s)}.")


def new_table(title: str | None, *columns: str, left: Sequence[int] = (0,), caption: str | None = None) -> Table:
    """A table in the common style; columns are right-aligned but for those numbered in `left`.

    Texts are shown as they are: names of tensors and files may look like rich's markup.
    """
    table = Table(
        title=None if title is None else Text(title, style="bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        caption=None if caption is None else Text(caption, style="dim"),
        caption_justify="left",
        pad_edge=False,
    )
    for index, column in enumerate(columns):
        folds = index == len(columns) - 1 and index in left
        table.add_column(
            Text(column),
            justify="left" if index in left else "right",
            no_wrap=not folds,
            overflow="fold" if folds else "ellipsis",
        )
    return table


def add_row(table: Table, *cells: object, style: str = "") -> None:
    """Add a row of texts, shown as they are."""
    table.add_row(*(Text(str(cell)) for cell in cells), style=style)


def result_table(
    accelerator: Accelerator, report: Report, native_report: Report | None, bound: Bound, baseline: str = "native"
) -> Table:
    """This plan beside the baseline, which is native's unless it is called otherwise, and the proven bound."""
    table = new_table("Result", "", baseline, "this plan", "bound", caption=bound.meaning)
    reports = [native_report, report]
    base = native_report.latency_s if native_report else None

    def row(name: str, values: Sequence[str], last: str = NONE, style: str = "") -> None:
        add_row(table, name, *values, last, style=style)

    latencies = [item.latency_s if item else None for item in reports]
    row("latency", [_or_none(value, seconds) for value in latencies], seconds(bound.seconds), "bold")
    if base is not None:
        row(
            "speed-up", [_or_none(value, lambda s: ratio(base / s)) for value in latencies], ratio(base / bound.seconds)
        )
    row("above the bound", [_or_none(value, lambda s: percent(s / bound.seconds - 1)) for value in latencies])
    row("lost to memory", [seconds(_lost_ps(item) * PS) if item else NONE for item in reports])
    waits = [int(item.stall_ps.sum()) + item.tail_ps if item else 0 for item in reports]
    if any(waits):
        row("  of it waiting for copies", [seconds(wait * PS) for wait in waits])
    row("energy", [energy(item.energy_j) if item else NONE for item in reports])
    for level, memory in enumerate(accelerator.levels):
        row(f"{memory.name} moved", [size(int(item.bytes_moved[level])) if item else NONE for item in reports])
    for level, memory in enumerate(accelerator.levels[:-1]):
        row(f"{memory.name} peak", [_peak(item, level, memory.capacity_bytes) if item else NONE for item in reports])
    return table


def hurts_table(found: Sequence[Hurt], report: Report) -> RenderableType:
    """The ops that lose most, and why; a sentence if none loses anything."""
    if not found:
        return Text("Nothing hurts: no op loses time to memory.\n")
    shown, total = sum(hurt.lost_ps for hurt in found), _lost_ps(report)
    shares = [percent(lost / report.latency_ps) for lost in (shown, total)]
    caption = f"These ops lose {shares[0]} of the time to memory, all ops together {shares[1]}."
    table = new_table(
        "What still hurts", "op", "name", "type", "time", "lost", "share", "why", left=(1, 2, 6), caption=caption
    )
    for hurt in found:
        add_row(
            table,
            str(hurt.op),
            shortened(hurt.name, 24),
            hurt.op_type,
            seconds(hurt.time_ps * PS),
            seconds(hurt.lost_ps * PS),
            percent(hurt.share),
            hurt.why,
        )
    return table


def comparison_table(
    accelerator: Accelerator, native_report: Report, plans: Sequence[tuple[str, Report]], lower_bound_s: float
) -> Table:
    """Several plans of one program, one a row, native first."""
    moved = [f"{memory.name} moved" for memory in accelerator.levels]
    table = new_table(
        "Plans",
        "plan", "latency", "speed-up", "above bound", "lost", "waits", "energy", *moved,
        caption=f"Bound: no plan of any kind can beat {seconds(lower_bound_s)}.",
    )  # fmt: skip
    for name, report in (("native", native_report), *plans):
        add_row(
            table,
            shortened(name, 40),
            seconds(report.latency_s),
            ratio(native_report.latency_ps / report.latency_ps),
            percent(report.latency_s / lower_bound_s - 1),
            seconds(_lost_ps(report) * PS),
            seconds((int(report.stall_ps.sum()) + report.tail_ps) * PS),
            energy(report.energy_j),
            *(size(int(moved)) for moved in report.bytes_moved),
        )
    return table


def differences_table(program: Program, plans: Sequence[tuple[str, Report]], most: int = 10) -> RenderableType:
    """The ops whose time differs most between the plans."""
    ops = biggest_differences([report for _, report in plans], most)
    if not ops:
        return Text("All ops take the same time in all plans.\n")
    table = new_table(
        "Where they differ most", "op", "name", "type", *(shortened(name, 20) for name, _ in plans), "spread",
        left=(1, 2),
    )  # fmt: skip
    for op in ops:
        times = [float((report.op_time_ps[op] + report.stall_ps[op]) * PS) for _, report in plans]
        add_row(
            table,
            str(op),
            shortened(program.op_name[op], 32),
            program.op_type[op],
            *map(seconds, times),
            seconds(max(times) - min(times)),
        )
    return table


def biggest_differences(reports: Sequence[Report], most: int = 10) -> list[int]:
    """The ops whose time, with the stall before it, differs most between the reports, largest difference first."""
    times = np.stack([report.op_time_ps + report.stall_ps for report in reports])
    spread = times.max(axis=0) - times.min(axis=0)
    return [int(op) for op in np.argsort(-spread, kind="stable")[:most] if spread[op] > 0]


def summary_text(program: Program, accelerator: Accelerator, report: Report, native_report: Report) -> str:
    """A plan in a few lines of plain text."""
    table = new_table(None, "memory", "moved", "peak", "capacity")
    for level, memory in enumerate(accelerator.levels):
        peak = size(int(report.peak_bytes[level]))
        add_row(table, memory.name, size(int(report.bytes_moved[level])), peak, size(memory.capacity_bytes))
    speedup = ratio(native_report.latency_ps / report.latency_ps)
    head = f"{program.name} ({program.dtype}) on {accelerator.name}: {seconds(report.latency_s)}, {speedup} over native"
    return f"{head}\n{plain_text(table)}"


def plain_text(renderable: RenderableType, width: int = 100) -> str:
    """Any of the tables without colours or trailing blanks."""
    buffer = StringIO()
    Console(file=buffer, width=width, color_system=None, force_terminal=False, legacy_windows=False).print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().strip("\n").splitlines()) + "\n"


def _lost_ps(report: Report) -> int:
    return int(report.memory_loss_ps.sum()) + report.tail_ps


def _peak(report: Report, level: int, capacity: int) -> str:
    peak = int(report.peak_bytes[level])
    return f"{size(peak)} ({percent(peak / capacity)})"


def _or_none(value: float | None, text: Callable[[float], str]) -> str:
    return NONE if value is None else text(value)

"""`Explanation` as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from memplace_env.analysis.differences import Difference
from memplace_env.analysis.explanation import Explanation, Shift
from memplace_env.units import PS
from memplace_env.views.tables.base import NONE, add_row, new_table
from memplace_env.views.text.quantities import percent, ratio, seconds, shortened, size
from memplace_env.views.text.reasons import why_it_differs


def explanation_tables(explanation: Explanation, most: int = 8) -> list[RenderableType]:
    """Where the bytes went, which neighbours share a level, and where the time is won and lost."""
    shifts = (explanation.weights, explanation.activations)
    tables: list[RenderableType] = [_matrix(explanation, shift) for shift in shifts if shift.total_bytes]
    tables += [_contiguity(shifts), _by_type(explanation)]
    gains, losses = explanation.gains(most), explanation.losses(most)
    if not gains and not losses:
        tables.append(Text("All ops take the same time in both plans.\n"))
    tables += [_ops("Most time won", "won", gains, 1)] if gains else []
    tables += [_ops("Most time lost", "lost", losses, -1)] if losses else []
    return tables


def _matrix(explanation: Explanation, shift: Shift) -> Table:
    names, total = explanation.level_names, shift.total_bytes
    changed = f"{percent(shift.changed_share)} of the bytes are in another level than native's."
    table = new_table(
        f"{shift.name.capitalize()}: from native's level to the plan's",
        "native", *(f"plan: {name}" for name in names), "all",
        caption=changed,
    )  # fmt: skip

    def cell(moved: int) -> str:
        return f"{size(moved)} ({percent(moved / total)})" if moved else NONE

    for name, row in zip(names, shift.moved_bytes.tolist(), strict=True):
        add_row(table, name, *map(cell, row), cell(sum(row)))
    add_row(table, "all", *map(cell, shift.moved_bytes.sum(axis=0).tolist()), cell(total), style="bold")
    return table


def _contiguity(shifts: Sequence[Shift]) -> Table:
    table = new_table(
        "Contiguity", "", "ops", "native", "this plan",
        caption="Neighbouring ops in one level.",
    )  # fmt: skip
    for shift in shifts:
        shares = [NONE if share is None else percent(share) for share in shift.contiguities]
        add_row(table, shift.name, len(shift.ops), *shares)
    return table


def _by_type(explanation: Explanation) -> Table:
    native, report = explanation.native.report, explanation.judged.report
    table = new_table("Time by op type", "type", "ops", "native", "this plan", "saved")
    for times in explanation.by_type():
        values = (times.native_ps, times.plan_ps, times.saved_ps)
        add_row(table, times.op_type, times.ops, *(seconds(value * PS) for value in values))
    if native.tail_ps or report.tail_ps:
        tails = (native.tail_ps, report.tail_ps, explanation.tail_saved_ps)
        add_row(table, "copies after the last op", NONE, *(seconds(tail * PS) for tail in tails))
    latencies = (native.latency_s, report.latency_s, native.latency_s - report.latency_s)
    ops = explanation.task.program.num_ops
    add_row(table, f"all, {ratio(explanation.speedup)}", ops, *map(seconds, latencies), style="bold")
    return table


def _ops(title: str, word: str, differences: Sequence[Difference], sign: int) -> Table:
    table = new_table(title, "op", "name", "type", "native", "this plan", word, "why", left=(1, 2, 6))
    for item in differences:
        times = (item.native_ps, item.plan_ps, sign * item.saved_ps)
        why = why_it_differs(item)
        add_row(table, item.op, shortened(item.name, 24), item.op_type, *(seconds(time * PS) for time in times), why)
    return table

"""`Explanation` as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from memplace_env.views.analysis import Explanation, Shift
from memplace_env.views.differences import Difference
from memplace_env.views.tables import NONE, add_row, new_table
from memplace_env.views.units import PS, percent, ratio, seconds, shortened, size


def explain_tables(found: Explanation, most: int = 8) -> list[RenderableType]:
    """Where the bytes went, which neighbours share a level, and where the time is won and lost."""
    shifts = (found.weights, found.activations)
    tables: list[RenderableType] = [_matrix(found, shift) for shift in shifts if shift.total_bytes]
    tables += [_contiguity(shifts), _by_type(found)]
    gains, losses = found.gains(most), found.losses(most)
    if not gains and not losses:
        tables.append(Text("All ops take the same time in both plans.\n"))
    tables += [_ops("Most time won", "won", gains, 1)] if gains else []
    tables += [_ops("Most time lost", "lost", losses, -1)] if losses else []
    return tables


def _matrix(found: Explanation, shift: Shift) -> Table:
    names, total = found.level_names, shift.total_bytes
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


def _by_type(found: Explanation) -> Table:
    table = new_table("Time by op type", "type", "ops", "native", "this plan", "saved")
    for kind, ops, native, plan in found.by_type():
        add_row(table, kind, ops, *(seconds(time * PS) for time in (native, plan, native - plan)))
    native, plan = found.native_report.tail_ps, found.report.tail_ps
    if native or plan:
        times = [seconds(time * PS) for time in (native, plan, native - plan)]
        add_row(table, "copies after the last op", NONE, *times)
    native_s, plan_s = found.native_report.latency_s, found.report.latency_s
    times = [seconds(time) for time in (native_s, plan_s, native_s - plan_s)]
    add_row(table, f"all, {ratio(found.speedup)}", found.program.num_ops, *times, style="bold")
    return table


def _ops(title: str, word: str, differences: Sequence[Difference], sign: int) -> Table:
    table = new_table(title, "op", "name", "type", "native", "this plan", word, "why", left=(1, 2, 6))
    for item in differences:
        times = (item.native_ps, item.plan_ps, sign * item.saved_ps)
        add_row(
            table,
            item.op,
            shortened(item.name, 24),
            item.op_type,
            *(seconds(time * PS) for time in times),
            item.why,
        )
    return table

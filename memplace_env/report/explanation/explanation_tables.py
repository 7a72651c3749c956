"""Tables of an `Explanation`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from memplace_env._lib.units import PS
from memplace_env.report.explanation.explanation import Explanation, Shift
from memplace_env.report.explanation.repeated_ops import REPEATED, TYPE_WIDTH, repeated_ops
from memplace_env.report.explanation.routes import why_it_differs
from memplace_env.report.plans.whole_tensors import CutTensor
from memplace_env.report.quantities import cut, percent, ratio, seconds, shortened, size
from memplace_env.report.tables import NONE, add_row, new_table


def explanation_tables(explanation: Explanation, most: int = 8) -> list[RenderableType]:
    """Return tables of the bytes by level, of neighbours that share a level, and of the time won and lost."""
    shifts = (explanation.weights, explanation.activations)
    tables: list[RenderableType] = [_matrix(explanation, shift) for shift in shifts if shift.total_bytes]
    tables += [*_split(explanation, most), _contiguity(shifts), _by_type(explanation)]
    if not explanation.saved_ps.any():
        return [*tables, Text("All ops take the same time in both plans.\n")]
    won, lost = _ops(explanation, "won", most, 1), _ops(explanation, "lost", most, -1)
    return [*tables, *(table for table in (won, lost) if table.row_count)]


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


def _split(explanation: Explanation, most: int) -> list[Table]:
    """Return a table of the tensors whose slices are in several levels, if there are any; those alike are one row."""
    alike: dict[tuple[object, ...], list[CutTensor]] = {}
    for tensor in explanation.split_tensors:
        key = re.sub(r"\d+", "", tensor.name), tensor.slices, *tensor.level_bytes.tolist()
        alike.setdefault(key, []).append(tensor)
    if not alike:
        return []
    names, number = explanation.level_names, len(explanation.split_tensors)
    table = new_table(
        "Tensors in several levels", "name", "bytes", "slices", *names,
        caption=f"{number} tensors are in several levels; the shares are those of a tensor's bytes. Tensors with equal "
        "shares and names that differ in numbers are one row.",
    )  # fmt: skip
    ranked = sorted(alike.values(), key=lambda tensors: -len(tensors) * tensors[0].bytes)
    for tensors in ranked[:most]:
        first = tensors[0]
        name = shortened(first.name, 36) + (f" and {len(tensors) - 1} like it" if len(tensors) > 1 else "")
        shares = [percent(bytes_ / first.bytes) if bytes_ else NONE for bytes_ in first.level_bytes.tolist()]
        add_row(table, name, size(first.bytes), first.slices, *shares)
    return [table]


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
    native, report = explanation.native.report, explanation.evaluated.report
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


def _ops(explanation: Explanation, word: str, most: int, sign: int) -> Table:
    """Return the table of the ops that win time, with sign 1, or lose it, with -1."""
    program, saved_ps = explanation.task.program, sign * explanation.saved_ps
    times = (explanation.native.op_ps, explanation.evaluated.op_ps, saved_ps)
    groups = repeated_ops(program, saved_ps, most, lambda op: tuple(seconds(time[op] * PS) for time in times))
    table = new_table(
        f"Most time {word}", "op", "name", "type", "native", "this plan", word, "why",
        left=(1, 2, 6),
        caption=REPEATED if any(len(group.ops) > 1 for group in groups) else None,
    )  # fmt: skip
    for group in groups:
        sums = [seconds(int(time[list(group.ops)].sum()) * PS) for time in times]
        op_type, why = (
            cut(program.op_type[group.first], TYPE_WIDTH),
            why_it_differs(explanation.difference(group.first)),
        )
        add_row(table, group.first, group.name, op_type, *sums, why)
    return table

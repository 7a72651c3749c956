"""Tables of an `Inspection`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from memplace_env._lib.units import PS
from memplace_env.program.program import TensorKind
from memplace_env.report.explanation.repeated_ops import RepeatedOps, repeated_ops
from memplace_env.report.inspection.inspection import Extreme, Inspection
from memplace_env.report.plans.headlines import task_title
from memplace_env.report.quantities import count, cut, percent, ratio, seconds, size, three_digits
from memplace_env.report.tables import NONE, add_row, new_table


def inspection_tables(inspection: Inspection, most: int = 10, *, every_op: bool = False) -> list[Table]:
    """Return tables of totals, of op types, and of the ops with most to gain; with `every_op` of all ops too."""
    tables = [_totals(inspection), _by_type(inspection)]
    tables.append(_ops("Most to gain from fast memory", inspection, _top_groups(inspection, most)))
    if every_op:
        names = inspection.task.program.op_name
        tables.append(_ops("All ops", inspection, [RepeatedOps((op,), name) for op, name in enumerate(names)]))
    return [table for table in tables if table.row_count]


def _totals(inspection: Inspection) -> Table:
    program, levels = inspection.task.program, inspection.task.accelerator.levels
    table = new_table(task_title(inspection.task), "", "", left=(0, 1))
    table.show_header = False
    if inspection.dims is not None:
        add_row(table, "symbolic dims", ", ".join(inspection.dims) or "none, all are fixed")
    add_row(table, "ops, tensors", f"{program.num_ops}, {program.whole.num_tensors}")
    if program.slices is not None:
        add_row(table, "slices", "{} tensors are cut into {:,} slices".format(*inspection.cuts))
    add_row(table, "work", f"{count(program.macs.sum(), 'MAC')}, {count(program.vector_ops.sum())} vector ops")
    for name, kind in (("weights", TensorKind.WEIGHT), ("activations", TensorKind.ACTIVATION)):
        add_row(table, name, size(program.bytes_of(kind)))
    inputs, outputs = (size(program.bytes_of(kind)) for kind in (TensorKind.INPUT, TensorKind.OUTPUT))
    add_row(table, "inputs, outputs", f"{inputs}, {outputs}")
    add_row(table, "peak live activations", size(int(program.live_bytes.max())))
    add_row(table, "memories", ", ".join(f"{level.name} {size(level.capacity_bytes)}" for level in levels))
    fit = "fits" if inspection.task.fits else "does not fit"
    room = f"{size(program.footprint)} of {size(levels[-1].capacity_bytes)}"
    add_row(table, f"room in {levels[-1].name}", f"{fit}: {room}")
    ridges = ", ".join(f"{level.name} {three_digits(inspection.ridge(index))}" for index, level in enumerate(levels))
    add_row(table, "intensity", f"{three_digits(inspection.intensity)} ops/byte; enough for full speed: {ridges}")
    everything = np.ones(program.num_ops, dtype=bool)
    alone = seconds(float(inspection.compute_ps.sum() * PS))
    add_row(table, "compute alone", f"{alone}, utilisation {_utilisation(inspection, everything)}")
    for extreme in (inspection.backing, inspection.fastest):
        add_row(
            table,
            f"all in {extreme.level}",
            f"{_time(extreme, everything)}, memory-bound {_bound(extreme, everything)}",
        )
    return table


def _by_type(inspection: Inspection) -> Table:
    backing, fastest = inspection.backing, inspection.fastest
    table = new_table(
        "By op type",
        "type", "ops", "MACs", "moved", "compute", "of peak",
        f"all in {backing.level}", "memory-bound", f"all in {fastest.level}", "memory-bound", "re-reads",
        caption="of peak: utilisation. memory-bound: how many ops, and their share of the type's time. "
        f"re-reads: times that bytes are moved, all in {backing.level}, all in {fastest.level}; once if equal.",
    )  # fmt: skip
    for kind, mask in inspection.op_types():
        add_row(
            table,
            kind,
            int(mask.sum()),
            count(int(inspection.task.program.macs[mask].sum())),
            size(int(inspection.op_bytes[mask].sum())),
            seconds(float(inspection.compute_ps[mask].sum() * PS)),
            _utilisation(inspection, mask),
            _time(backing, mask),
            _bound(backing, mask),
            _time(fastest, mask),
            _bound(fastest, mask),
            _re_reads(inspection, mask),
        )
    return table


def _top_groups(inspection: Inspection, most: int) -> list[RepeatedOps]:
    """Return the groups of repeated ops that gain most from leaving the backing memory for the fastest."""
    backing, fastest, program = inspection.backing, inspection.fastest, inspection.task.program

    def alike(op: int) -> object:
        return seconds(backing.time_ps[op] * PS), seconds(fastest.time_ps[op] * PS), int(program.macs[op])

    return repeated_ops(program, backing.time_ps - fastest.time_ps, most, alike)


def _ops(title: str, inspection: Inspection, groups: Sequence[RepeatedOps]) -> Table:
    """Return a table with a row for each group of repeated ops."""
    program = inspection.task.program
    backing, fastest = inspection.backing, inspection.fastest
    table = new_table(
        title,
        "op", "name", "type", "MACs", "moved", "compute", "of peak",
        f"in {backing.level}", f"in {fastest.level}", "re-reads", "staged", "binds",
        left=(1, 2),
        caption=f"re-reads and what binds: all in {backing.level}, all in {fastest.level}; once if equal."
        + (" Repeated ops are one row, with their sums." if any(len(group.ops) > 1 for group in groups) else ""),
    )  # fmt: skip
    for group in groups:
        ops, first = list(group.ops), group.first
        mask = np.zeros(program.num_ops, dtype=bool)
        mask[ops] = True
        add_row(
            table,
            first,
            group.name,
            cut(program.op_type[first], 14),
            count(int(program.macs[ops].sum())),
            size(int(inspection.op_bytes[ops].sum())),
            seconds(float(inspection.compute_ps[ops].sum() * PS)),
            _utilisation(inspection, mask),
            _time(backing, mask),
            _time(fastest, mask),
            _re_reads(inspection, mask),
            size(int(inspection.staged_bytes[first])),
            ", ".join(dict.fromkeys((backing.binds(first), fastest.binds(first)))),
        )
    return table


def _utilisation(inspection: Inspection, mask: NDArray[np.bool_]) -> str:
    share = inspection.utilisation(mask)
    return NONE if share is None else percent(share)


def _re_reads(inspection: Inspection, mask: NDArray[np.bool_]) -> str:
    factors = (extreme.re_reads(mask) for extreme in (inspection.backing, inspection.fastest))
    return ", ".join(dict.fromkeys(NONE if times is None else ratio(times) for times in factors))


def _time(extreme: Extreme, mask: NDArray[np.bool_]) -> str:
    return seconds(float(extreme.time_ps[mask].sum() * PS))


def _bound(extreme: Extreme, mask: NDArray[np.bool_]) -> str:
    """Return the number of memory-bound ops, and the fraction of the ops' time that they take."""
    bound = extreme.memory_bound & mask
    share = extreme.time_ps[bound].sum() / max(extreme.time_ps[mask].sum(), 1)
    return f"{int(bound.sum())} ({percent(float(share))})"

"""Ops that lose time to memory, and ops that differ between plans."""

from __future__ import annotations

import json

from memplace_env.analysis import (
    Move,
    all_backing_baseline,
    biggest_differences,
    difference_of,
    find_hurts,
    native_baseline,
)
from tests.subjects import Subject


def test_hurts_name_the_level_the_tensors_and_the_late_copy(copies: Subject) -> None:
    report, found = copies.judged.report, find_hurts(*copies)
    assert [hurt.op for hurt in found] == [2, 0]
    assert found[0].waits_for == ("w2",)
    assert found[0].stall_ps == report.stall_ps[2]
    assert found[1].level == "DRAM"
    assert found[1].tensors == (("w0", 90_000), ("x", 60_000))
    assert sum(hurt.lost_ps for hurt in found) == report.memory_loss_ps.sum()
    assert copies.judged.lost_ps == report.memory_loss_ps.sum() + report.tail_ps
    json.dumps([hurt.to_json() for hurt in found], allow_nan=False)


def test_a_difference_names_moves_and_waits(copies: Subject) -> None:
    task, judged = copies
    late = difference_of(task, all_backing_baseline(task), judged, 2)
    assert late.moves == (Move("w2", 90_000, "DRAM", "SRAM"),)
    assert late.waits_ps == judged.report.stall_ps[2]
    assert late.saved_ps == late.native_ps - late.plan_ps
    json.dumps(late.to_json(), allow_nan=False)


def test_biggest_differences(copies: Subject) -> None:
    native = native_baseline(copies.task)
    assert biggest_differences([copies.judged, native])[0] == 2
    assert biggest_differences([native, native]) == []

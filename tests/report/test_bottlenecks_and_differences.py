"""Ops that lose time to memory, and ops that differ between plans."""

from __future__ import annotations

import json

from memplace_env.placement.resolve_task import resolve_task
from memplace_env.report.explanation.bottlenecks import find_bottlenecks
from memplace_env.report.explanation.differences import Move, biggest_differences, difference_of
from memplace_env.report.explanation.routes import bottleneck_reason
from memplace_env.report.plans.evaluated_plan import all_backing_baseline, native_baseline
from tests.subjects import Subject


def test_bottlenecks_name_the_level_the_tensors_and_the_late_copy(copies: Subject) -> None:
    report, found = copies.evaluated.report, find_bottlenecks(*copies)
    assert [bottleneck.op for bottleneck in found] == [2, 0]
    assert found[0].waits_for == ("w2",)
    assert found[0].stall_ps == report.stall_ps[2]
    assert found[1].level == "DRAM"
    assert found[1].tensors == (("w0", 90_000), ("x", 60_000))
    assert sum(bottleneck.lost_ps for bottleneck in found) == report.memory_loss_ps.sum()
    assert copies.evaluated.lost_ps == report.memory_loss_ps.sum() + report.tail_ps
    json.dumps([bottleneck.to_json() for bottleneck in found], allow_nan=False)


def test_a_difference_names_moves_and_waits(copies: Subject) -> None:
    task, evaluated = copies
    late = difference_of(task, all_backing_baseline(task), evaluated, 2)
    assert late.moves == (Move("w2", 90_000, "DRAM", "SRAM"),)
    assert late.waits_ps == evaluated.report.stall_ps[2]
    assert late.saved_ps == late.native_ps - late.plan_ps
    json.dumps(late.to_json(), allow_nan=False)


def test_biggest_differences(copies: Subject) -> None:
    native = native_baseline(copies.task)
    assert biggest_differences([copies.evaluated, native])[0] == 2
    assert biggest_differences([native, native]) == []


def test_a_unit_that_waits_for_its_loads_names_the_level() -> None:
    """On nnp-i compute begins when the loads end, so that an op loses what its slowest port takes."""
    task = resolve_task("AlexNet", "nnp-i")
    native = native_baseline(task)
    first = next(bottleneck for bottleneck in find_bottlenecks(task, native) if bottleneck.op == 0)
    assert native.report.bound_by[0] == -1
    assert first.level == "DRAM"
    assert first.lost_ps == native.report.port_ps[0].max()
    assert first.tensors
    assert bottleneck_reason(first).startswith("DRAM moves ")


def test_a_loss_that_no_port_explains_has_a_reason() -> None:
    """Under events an op loses time whose ports are less busy than its unit."""
    task = resolve_task("MobileNetV2", "intel-npu-4000", simulator="event")
    bottlenecks = find_bottlenecks(task, native_baseline(task), task.program.num_ops)
    reasons = {bottleneck_reason(bottleneck) for bottleneck in bottlenecks if bottleneck.level is None}
    assert all(bottleneck.lost_ps > 0 for bottleneck in bottlenecks)
    assert any(reason.startswith("waits for its first load or last store") for reason in reasons)

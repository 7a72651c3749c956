"""Tables, and the numbers behind them."""

from __future__ import annotations

import json

import pytest

from memplace_env.accelerator import load_accelerator
from memplace_env.simulator import Report
from memplace_env.views.hurts import hurts
from memplace_env.views.inspection import inspect_program
from memplace_env.views.inspection_tables import inspection_tables
from memplace_env.views.tables import (
    biggest_differences,
    bound_of,
    comparison_table,
    differences_table,
    hurts_table,
    plain_text,
    result_table,
    summary_text,
)
from memplace_env.workload.synthetic import planted, random_dag
from tests.views.conftest import Subject


def test_hurts_name_the_level_the_tensors_and_the_late_copy(copies: Subject) -> None:
    found = hurts(*copies)
    assert [hurt.op for hurt in found] == [2, 0]
    assert found[0].waits_for == ("w2",)
    assert found[0].stall_ps == copies.report.stall_ps[2]
    assert found[1].level == "DRAM"
    assert found[1].tensors == (("w0", 90_000), ("x", 60_000))
    assert sum(hurt.lost_ps for hurt in found) == copies.report.memory_loss_ps.sum()
    text = plain_text(hurts_table(found, copies.report), width=120)
    assert "for w2" in text
    assert "layer[0]" in text
    json.dumps([hurt.to_json() for hurt in found], allow_nan=False)


def test_nothing_hurts(copies: Subject) -> None:
    assert "Nothing hurts" in plain_text(hurts_table([], copies.report))


def test_result_table_has_each_memory_and_the_bound(copies: Subject, native_report: Report) -> None:
    bound = bound_of(copies.report, plan_bound_s=5e-4)
    text = plain_text(result_table(copies.accelerator, copies.report, native_report, bound))
    for part in ("latency", "500 µs", "SRAM moved", "DRAM moved", "SRAM peak", "waiting for copies", "0.950×"):
        assert part in text
    alone = plain_text(result_table(copies.accelerator, copies.report, None, bound_of(copies.report)))
    assert "speed-up" not in alone


def test_comparison(copies: Subject, native_report: Report) -> None:
    plans = [("a/[b].json", copies.report), ("native's", native_report)]
    text = plain_text(comparison_table(copies.accelerator, native_report, plans, 5e-4), width=160)
    assert "a/[b].json" in text
    assert biggest_differences([copies.report, native_report])[0] == 2
    assert "layer[2]" in plain_text(differences_table(copies.program, plans), width=120)
    assert "same time" in plain_text(differences_table(copies.program, plans[:1]))


def test_summary_text(copies: Subject, native_report: Report) -> None:
    text = summary_text(copies.program, copies.accelerator, copies.report, native_report)
    assert "0.950× over native" in text
    assert "384 KiB" in text
    assert "\x1b" not in text


def test_inspection_adds_up() -> None:
    program, chip = random_dag(5, ops=20), load_accelerator("nnp-i")
    values = inspect_program(program, chip, ("batch",)).to_json()
    assert values["ops"] == 20 == sum(kind["ops"] for kind in values["op_types"])
    assert values["moved_bytes"] == program.use_bytes.sum()
    backing, fastest = values["extremes"]["backing"], values["extremes"]["fastest"]
    assert (backing["level"], fastest["level"]) == ("DRAM", "SRAM")
    assert backing["latency_s"] >= fastest["latency_s"] >= values["compute_s"]
    assert sum(kind["backing"]["memory_bound_ops"] for kind in values["op_types"]) == backing["memory_bound_ops"]
    assert 0 <= backing["memory_bound_share"] <= 1
    json.dumps(values, allow_nan=False)


def test_inspection_of_a_planted_program() -> None:
    """Its compute time is what its traffic takes, so in the backing memory it is slower and memory-bound."""
    found = inspect_program(planted("chain", ops=12).program, load_accelerator("nnp-i"))
    assert found.backing.memory_bound.any()
    assert found.intensity == pytest.approx(float(found.program.vector_ops.sum() / found.op_bytes.sum()))
    text = "".join(plain_text(table, 140) for table in inspection_tables(found))
    assert "By op type" in text
    assert "symbolic dims" not in text

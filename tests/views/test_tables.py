"""Tables say what is in the reports."""

from __future__ import annotations

from memplace_env.accelerator import load_accelerator
from memplace_env.analysis import all_backing_baseline, find_hurts, inspect_task, native_baseline
from memplace_env.resolve import make_task
from memplace_env.views.tables.base import plain_text
from memplace_env.views.tables.inspection import inspection_tables
from memplace_env.views.tables.results import (
    bound_of,
    comparison_table,
    differences_table,
    hurts_table,
    result_table,
    summary_text,
)
from memplace_env.workload.synthetic import planted
from tests.subjects import Subject


def test_hurts(copies: Subject) -> None:
    text = plain_text(hurts_table(find_hurts(*copies), copies.judged), width=120)
    assert "for w2" in text
    assert "layer[0]" in text
    assert "Nothing hurts" in plain_text(hurts_table([], copies.judged))


def test_result_table_has_each_memory_and_the_bound(copies: Subject) -> None:
    bound = bound_of(copies.judged.report, proven_s=5e-4)
    text = plain_text(result_table(*copies, bound))
    for part in ("latency", "500 µs", "SRAM moved", "DRAM moved", "SRAM peak", "waiting for copies", "0.950×"):
        assert part in text
    other = plain_text(result_table(*copies, baseline=all_backing_baseline(copies.task)))
    assert "all in backing memory" in other
    assert "no plan of any kind can beat" in other


def test_comparison(copies: Subject) -> None:
    task, judged = copies
    plans = [judged._replace(name="a/[b].json"), native_baseline(task)._replace(name="native's")]
    assert "a/[b].json" in plain_text(comparison_table(task, plans), width=160)
    assert "layer[2]" in plain_text(differences_table(task, plans), width=120)
    assert "same time" in plain_text(differences_table(task, plans[:1]))


def test_summary_text(copies: Subject) -> None:
    text = summary_text(copies.task, copies.judged.report)
    assert "0.950× over native" in text
    assert "384 KiB" in text
    assert "\x1b" not in text


def test_inspection() -> None:
    inspection = inspect_task(make_task(planted("chain", ops=12).program, load_accelerator("nnp-i")))
    text = "".join(plain_text(table, 140) for table in inspection_tables(inspection))
    assert "By op type" in text
    assert "symbolic dims" not in text

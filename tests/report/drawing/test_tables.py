"""Tables say what is in the reports."""

from __future__ import annotations

import numpy as np
import pytest

from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.synthetic import planted
from memplace_env.report.explanation.repeated_ops import repeated_ops
from memplace_env.report.inspection import inspect_task, inspection_tables
from memplace_env.report.plans.evaluated_plan import all_backing_baseline, native_baseline
from memplace_env.report.plans.result_tables import (
    bottlenecks_table,
    bound_of,
    comparison_table,
    differences_table,
    result_table,
    summary_text,
)
from memplace_env.report.tables import add_row, new_table, plain_text
from tests.subjects import Subject


def test_bottlenecks(copies: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    text = plain_text(bottlenecks_table(*copies), width=120)
    assert "for w2" in text
    assert "layer[0]" in text
    monkeypatch.setattr("memplace_env.report.plans.result_tables.repeated_bottlenecks", lambda *_: [])
    assert "No op loses time" in plain_text(bottlenecks_table(*copies))


def test_narrow_tables_keep_words_and_numbers_whole() -> None:
    """Columns go below each other, after the left one, before a word of theirs is broken."""
    table = new_table("Title", "plan", "latency", "above the bound", "what it is", left=(0, 3), caption="Caption.")
    add_row(table, "MallocGame-ResNet101-v0", "1.20 ms", "12.5 %", "some words that may be folded")
    for width in (30, 40, 50, 60, 80, 120):
        text = plain_text(table, width)
        assert max(map(len, text.splitlines())) <= width
        words = text.split()
        for word in ("latency", "above", "bound", "MallocGame-ResNet101-v0", "folded", "Caption."):
            assert word in words
        assert "1.20 ms" in text
        assert text.count("Title") == text.count("Caption.") == 1
    assert plain_text(table, 60).count("MallocGame-ResNet101-v0") == 2
    assert plain_text(table, 120).count("MallocGame-ResNet101-v0") == 1


def test_layers_that_repeat_are_one_row() -> None:
    program = resolve_task("BERT", "nnp-i", fusion="conv").program
    adds = np.array([op_type == "Add" for op_type in program.op_type]).astype(np.int64)
    (group, *others) = repeated_ops(program, adds, 3, lambda op: int(program.use_bytes[program.use_ptr[op]]))
    assert group.name.startswith(f"{len(group.ops)} x Add in layers 0-11")
    assert group.first == min(group.ops)
    assert not {op for other in others for op in other.ops} & set(group.ops)
    assert [repeat.name for repeat in repeated_ops(program, adds, 2, lambda op: op)] == [
        program.op_name[op] for op in np.flatnonzero(adds)[:2]
    ]


def test_result_table_has_each_memory_and_the_bound(copies: Subject) -> None:
    bound = bound_of(copies.evaluated.report, proven_s=5e-4)
    text = plain_text(result_table(*copies, bound))
    for part in ("latency", "500 µs", "SRAM moved", "DRAM moved", "SRAM peak", "waiting for copies", "0.950×"):
        assert part in text
    other = plain_text(result_table(*copies, baseline=all_backing_baseline(copies.task)))
    assert "all in backing memory" in other
    assert "no plan of any kind can beat" in other


def test_comparison(copies: Subject) -> None:
    task, evaluated = copies
    plans = [evaluated._replace(name="a/[b].json"), native_baseline(task)._replace(name="native's")]
    assert "a/[b].json" in plain_text(comparison_table(task, plans), width=160)
    assert "layer[2]" in plain_text(differences_table(task, plans), width=120)
    assert "The plans are equal." in plain_text(differences_table(task, plans[:1]))


def test_summary_text(copies: Subject) -> None:
    text = summary_text(copies.task, copies.evaluated.report)
    assert "0.950× over native" in text
    assert "384 KiB" in text
    assert "\x1b" not in text


def test_inspection() -> None:
    inspection = inspect_task(make_task(planted("chain", ops=12).program, load_accelerator("nnp-i")))
    text = "".join(plain_text(table, 140) for table in inspection_tables(inspection))
    assert "By op type" in text
    assert "symbolic dims" not in text

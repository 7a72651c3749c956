"""The kernels of the one-shot environments and plain C compute the same, on small programs in little memory."""

import shutil
from ctypes import CDLL

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.plain_c import __main__ as plain_c
from benchmarks.plain_c.one_shot import compiled, evaluate_in_c
from memplace_env.placement.compiler.evaluate import evaluate_assignments
from memplace_env.placement.compiler.placing_order import ORDERS, schedule_of
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.testing.strategies import accelerators, programs_with_idle_ops, tasks, tensor_levels
from tests.thorough import examples

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> CDLL:
    return compiled(tmp_path_factory.mktemp("c"), "-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")


@needs_gcc
@examples(150)
@given(tasks(programs_with_idle_ops(), accelerators("resident")), st.sampled_from(ORDERS), st.data())
def test_c_equals_the_kernels(library, task, order, data):
    schedule, every = schedule_of(task, order), np.arange(task.program.num_tensors)
    assignments = np.array([data.draw(tensor_levels(task)) for _ in range(4)])
    kernels = evaluate_assignments(schedule, assignments, every, threads=1)
    plain_c.require_equal(kernels, evaluate_in_c(library, schedule, assignments, every), "drawn")


@needs_gcc
def test_c_equals_the_kernels_where_other_orders_are_tried(tmp_path):
    """BERT: more neighbours than are looked through again and again, blocks that are placed again, all attempts."""
    figures = plain_c.measure("MemPlace-BERT-v0", tmp_path, count=300, rounds=1)
    assert [figures[kind]["equal"] for kind in ("random", "near_native")] == [300, 300]
    assert all(ratio > 0 for kind in figures.values() for ratio in kind["ratio"].values())


@needs_gcc
def test_a_difference_has_a_name(library):
    task = resolve_task("synthetic:chain?ops=4", "nnp-i")
    schedule, every = schedule_of(task, "weights-before-results"), np.arange(task.program.num_tensors)
    levels = np.zeros((3, len(every)), dtype=np.int64)
    c = evaluate_in_c(library, schedule, levels, every)
    c.latency_ps[1] += 1
    with pytest.raises(AssertionError, match=r"here: latency_ps of 1 in 3 assignments differs"):
        plain_c.require_equal(evaluate_assignments(schedule, levels, every), c, "here")


@needs_gcc
def test_streamed_weights_are_refused(library):
    task = resolve_task("synthetic:chain?ops=4", "tpu-v4i")
    every = np.arange(task.program.num_tensors)
    with pytest.raises(ValueError, match="streamed weights"):
        evaluate_in_c(library, schedule_of(task, "weights-before-results"), every[None] * 0, every)


def test_without_gcc_a_sentence_says_so(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["plain_c"])
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit) as left:
        plain_c.main()
    assert left.value.code == 2
    assert "no gcc" in capsys.readouterr().err

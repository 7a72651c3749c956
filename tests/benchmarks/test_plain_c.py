"""The kernels of the one-shot environments and plain C compute the same, on small programs in little memory."""

import shutil
from ctypes import CDLL

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.plain_c import compiled, evaluate_in_c, require_equal
from benchmarks.speed import ratio_to_c
from memplace_env.placement.compiler.compile import evaluate_assignments
from memplace_env.placement.compiler.placing_order import ORDERS, schedule_of
from memplace_env.placement.resolve_task import resolve_task
from tests.strategies import accelerators, programs_with_idle_ops, tasks, tensor_levels
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
    require_equal(kernels, evaluate_in_c(library, schedule, assignments, every), "drawn")


@needs_gcc
def test_c_equals_the_kernels_where_other_orders_are_tried():
    """BERT: more neighbours than are looked through again and again, blocks that are placed again, all attempts."""
    ratios = ratio_to_c("MemPlace-BERT-v0", count=300, rounds=1)
    assert len(ratios) == 4
    assert all(ratio > 0 for ratio in ratios.values())


@needs_gcc
def test_a_difference_has_a_name(library):
    task = resolve_task("synthetic:chain?ops=4", "nnp-i")
    schedule, every = schedule_of(task, "weights-before-results"), np.arange(task.program.num_tensors)
    levels = np.zeros((3, len(every)), dtype=np.int64)
    c = evaluate_in_c(library, schedule, levels, every)
    c.latency_ps[1] += 1
    with pytest.raises(AssertionError, match=r"here: latency_ps of 1 in 3 assignments differs"):
        require_equal(evaluate_assignments(schedule, levels, every), c, "here")


@needs_gcc
def test_streamed_weights_are_refused(library):
    task = resolve_task("synthetic:chain?ops=4", "tpu-v4i")
    every = np.arange(task.program.num_tensors)
    with pytest.raises(ValueError, match="streamed weights"):
        evaluate_in_c(library, schedule_of(task, "weights-before-results"), every[None] * 0, every)

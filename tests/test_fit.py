"""A program must fit the backing memory; one that does not is refused with its sizes, and can be looked at."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplace_env
from memplace_env._lib.errors import AcceleratorError
from memplace_env.machine.costs import Roofline
from memplace_env.placement.compiler import all_backing, all_backing_report, native_plan, place_levels
from memplace_env.placement.resolve_task import _least_bytes, make_task, resolve_task
from memplace_env.placement.simulator.builtin import time_plan
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from memplace_env.report.inspection import inspect_task
from tests.by_hand import machine, three_ops
from tests.cli.conftest import Run, run  # noqa: F401  (a fixture)
from tests.strategies import programs, programs_with_pairs, tasks, tasks_of_roles
from tests.thorough import examples

PROGRAM = three_ops()
TAKES = 40 + 10 + (20 + 30)
"""Bytes: the weight, the input, and a and b at once."""
HUGE = {"workload": "GPT2", "batch": 4000, "dims": {"sequence": 1024}}
SENTENCE = (
    r"^'GPT2' has 0\.1 GiB of weights and up to 194\.7 GiB of other data at once, more than the 32\.0 GiB of DRAM, "
)


def backed_by(capacity: int):
    fast, slow = machine().levels
    return machine(levels=(replace(fast, capacity_bytes=10), replace(slow, capacity_bytes=capacity)))


def test_to_the_byte():
    assert PROGRAM.footprint == TAKES
    assert make_task(PROGRAM, backed_by(TAKES)).fits
    with pytest.raises(
        AcceleratorError, match=r"more than the 0\.1 KiB of slow, the backing memory of 'plain'; take a"
    ):
        make_task(PROGRAM, backed_by(TAKES - 1))


@examples(40)
@given(tasks(costs=st.just(Roofline())))
def test_it_is_what_the_simulator_counts(task):
    assert all_backing_report(task).peak_bytes[-1] == task.program.footprint


def test_where_the_last_memory_holds_weights_only():
    """Results must fit elsewhere at once: a and b, or the last two and the input."""
    fast, slow = machine().levels
    flash = replace(slow, capacity_bytes=40, holds=("weights",), writable=False)

    def task_with(capacity: int, **options) -> Task:
        levels = (replace(fast, capacity_bytes=capacity), replace(flash, **options))
        return resolve_task(PROGRAM, machine(levels=levels), io_level="any")

    task = task_with(20 + 30)
    assert (task.footprint, task.fits) == (40, True)
    assert violations(task, native_plan(task)) == []
    assert task_with(50, capacity_bytes=64, alignment_bytes=64).footprint == 64
    with pytest.raises(AcceleratorError, match=r"up to 50 bytes at once that may lie in fast only, where .* for 49;"):
        task_with(49)
    with pytest.raises(AcceleratorError, match=r"0\.0 KiB of weights and up to 0\.0 KiB of other data"):
        task_with(50, capacity_bytes=39)


@examples(100)
@given(tasks_of_roles(programs() | programs_with_pairs()))
def test_what_must_lie_in_fast_memory_needs_no_more_than_plans_have_there(task):
    plan = place_levels(task, np.zeros(task.program.num_tensors, dtype=np.int64)).plan
    if not violations(task, plan):
        assert _least_bytes(task, task.must_leave) <= time_plan(task, plan).peak_bytes[:-1].sum()


def test_refused_everywhere():
    unfit = resolve_task(**HUGE, must_fit=False)
    plan = all_backing(unfit)
    for refused in (
        lambda: resolve_task(**HUGE),
        lambda: resolve_task(unfit),
        lambda: gym.make("MemPlace-v0", **HUGE),
        lambda: gym.make("MemPlace-v0", workload=unfit),
        lambda: memplace_env.simulate(unfit.program, unfit.accelerator, plan),
    ):
        with pytest.raises(AcceleratorError, match=SENTENCE):
            refused()
    with pytest.raises(AcceleratorError, match=r"more than the 8\.0 GiB of HBM"):
        gym.make("MallocGame-v0", **HUGE)


def test_inspect_shows_it(run: Run):  # noqa: F811
    unfit = inspect_task(resolve_task(**HUGE, must_fit=False)).to_json()
    assert (unfit["fits"], round(unfit["footprint_bytes"] / 2**30)) == (False, 195)
    flags = ("GPT2", "--batch", 4000, "--dim", "sequence=1024")
    shown = run("inspect", *flags)
    assert shown.exit_code == 0
    assert "does not fit: 195 GiB of 32 GiB" in shown.stdout
    refused = run("solve", *flags)
    assert refused.exit_code == 2
    assert refused.stderr.count("\n") == 1

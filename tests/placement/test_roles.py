"""The memories that tensors may lie in: pins, largest blocks, flash, and errors that name what is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import AcceleratorError, WorkloadError
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.validation import violations
from tests.offenders import every
from tests.strategies import tasks_of_roles, tensor_levels
from tests.thorough import examples

NNP_I = load_accelerator("nnp-i")
NET = "MobileNetV2"


def task(**options):
    return resolve_task(NET, "nnp-i", **options)


@examples(100)
@given(st.data())
def test_a_plan_of_any_levels_breaks_no_rule_but_where_it_leaves_tensors_homeless(data):
    task = data.draw(tasks_of_roles())
    plan = place_levels(task, data.draw(tensor_levels(task))).plan
    left = {int(tensor) for tensor in task.homeless(plan)}
    broken = violations(task, plan)
    assert {violation.rule for violation in broken} <= {"role"}
    assert len(broken) == len(left)


def test_a_pinned_tensor_lies_where_it_is_pinned():
    free = task()
    name = free.program.tensor_name[int(np.flatnonzero(free.program.is_placeable & (free.program.producer >= 0))[0])]
    pinned = task(pins={name: "LLC"})
    tensor = pinned.program.tensor_name.index(name)
    for levels in (np.zeros(pinned.program.num_tensors, dtype=int), np.full(pinned.program.num_tensors, 2)):
        plan = place_levels(pinned, levels).plan
        assert set(plan.use_level[pinned.program.use_tensor == tensor]) == {1}
        assert violations(pinned, plan) == []
    assert resolve_task(**{**pinned.settings, "slices": None}).allowed.tolist() == pinned.allowed.tolist()


@every(
    ("pins", "message"),
    [
        ({"nothing": "LLC"}, "A pin names the tensor nothing, which 'MobileNetV2' does not have"),
        ({"pixel_values": "LLC"}, "inputs and outputs of the graph are in no block; pass io_level='any' or 'LLC' too."),
        ({"{}": "LLCC"}, "A pin names the memory LLCC, which the chip does not have; did you mean LLC?"),
    ],
)
def test_a_wrong_pin_is_named(pins, message):
    name = task().program.tensor_name[0]
    with pytest.raises(WorkloadError) as error:
        task(pins={key.format(name): level for key, level in pins.items()})
    assert message in str(error.value)


def test_no_block_is_larger_than_the_largest():
    fast = replace(NNP_I.levels[0], largest_block_bytes=2**16)
    bounded = resolve_task(NET, replace(NNP_I, levels=(fast, *NNP_I.levels[1:])))
    plan = place_levels(bounded, np.zeros(bounded.program.num_tensors, dtype=int)).plan
    in_fast = plan.allocations[plan.allocations[:, 1] == 0, 0]
    assert len(in_fast)
    assert bounded.program.tensor_bytes[in_fast].max() <= 2**16


def test_a_tensor_that_may_lie_nowhere_is_named():
    levels = *(replace(level, largest_block_bytes=100) for level in NNP_I.levels[:-1]), NNP_I.levels[-1]
    flash = replace(levels[-1], holds=("weights",), writable=False)
    with pytest.raises(AcceleratorError, match="may lie in no memory of the chip: look at holds, largest_block_bytes"):
        resolve_task(NET, replace(NNP_I, levels=(*levels[:-1], flash), io_level="any"))

"""Pins with an offset: every rule keeps them, kernels say what the simulator says, and what cannot be is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from memplace_agents.exact.smallest_arena import smallest_arena
from memplace_env._lib.errors import AcceleratorError, WorkloadError
from memplace_env.placement.compiler import HEURISTICS, place_levels
from memplace_env.placement.compiler.block_neighbours import no_lists
from memplace_env.placement.compiler.compile import evaluate_assignments, kernel_of, plan_of_levels
from memplace_env.placement.compiler.placing_order import ORDERS, schedule_of
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.validation import violations
from tests.offenders import every
from tests.strategies import accelerators, cost_models, programs, programs_with_pairs, tensor_levels
from tests.thorough import examples


@st.composite
def tasks_with_pins(draw):
    """Tasks of random programs in which up to five tensors have an offset."""
    chip, program = draw(accelerators()), draw(programs() | programs_with_pairs())
    program, pins = replace(program, tensor_name=tuple(f"t{k}" for k in range(program.num_tensors))), {}
    for tensor in draw(st.sets(st.sampled_from(np.flatnonzero(program.is_placeable).tolist() or [0]), max_size=5)):
        level = draw(st.sampled_from(chip.levels[:-1]))
        room = max(level.capacity_bytes - int(program.tensor_bytes[tensor]), 0)
        pins[f"t{tensor}"] = f"{level.name}@{draw(st.integers(0, room))}"
    try:
        return resolve_task(program, chip, costs=draw(cost_models()), pins=pins)
    except (AcceleratorError, WorkloadError):
        reject()


def breaks_nothing(task, plan):
    """The plan breaks no rule but where it leaves tensors homeless."""
    broken = violations(task, plan)
    assert {violation.rule for violation in broken} <= {"role"}
    assert len(broken) == len(task.homeless(plan))


@examples(300)
@given(tasks_with_pins(), st.sampled_from(ORDERS), st.data())
def test_plans_keep_pins_and_kernels_say_what_the_simulator_says(task, order, data):
    levels = np.array(data.draw(tensor_levels(task)))
    plan, moved = place_levels(task, levels, order)
    breaks_nothing(task, plan)
    got = evaluate_assignments(schedule_of(task, order), levels[None], np.arange(len(levels)))
    assert got.latency_ps[0] == evaluate_plan(task, plan, trusted=True).latency_ps
    assert got.reassigned_bytes[0] == moved
    if not task.streams_weights:  # a streamed weight may find no time to arrive, or what lies there before it
        assert not (task.pinned[task.homeless(plan)] >= 0).any()


@examples(100)
@given(tasks_with_pins(), st.sampled_from(ORDERS), st.data())
def test_crowds_keep_pins(task, order, data):
    levels = np.array(data.draw(tensor_levels(task)), dtype=np.int64)
    schedule = schedule_of(task, order)
    schedule = schedule._replace(crowded=True, near=no_lists(len(schedule.by_rank)))
    out, got = np.empty((3, 1), dtype=np.int64), np.empty((1, len(levels)), dtype=np.int8)
    placed = kernel_of(schedule)(schedule, levels[None], np.arange(len(levels)), out, got, 0, 1)
    breaks_nothing(task, plan_of_levels(task, got[0], *placed))


@examples(60)
@given(tasks_with_pins())
def test_rules_keep_pins(task):
    for heuristic in HEURISTICS.values():
        try:
            plan = heuristic(task)
        except AcceleratorError:  # native finds no place for all that may not lie in the backing memory
            reject()
        breaks_nothing(task, plan)


def pinned(*pins, chip="nnp-i", **options):
    program = resolve_task("MobileNetV2", "nnp-i").program
    names = [program.tensor_name[k] for k in np.flatnonzero(program.is_placeable & (program.producer >= 0))]
    return resolve_task("MobileNetV2", chip, pins=dict(zip(names, pins, strict=False)), **options)


def test_a_block_elsewhere_is_named_and_plans_carry_the_pin():
    task = pinned("LLC@640")
    plan = place_levels(task, np.zeros(task.program.num_tensors, dtype=int)).plan
    plan = MemoryPlan.from_json(plan.to_json())
    row = int(np.flatnonzero(task.pinned[plan.allocations[:, 0]] >= 0)[0])
    assert plan.allocations[row, 1:3].tolist() == [1, 640]
    assert resolve_task(**{**plan.settings, "slices": None}).pinned.tolist() == task.pinned.tolist()
    moved = plan.allocations.copy()
    moved[row, 2] = 2**23
    broken = violations(task, replace(plan, allocations=moved))
    assert [violation.rule for violation in broken if violation.rule == "pin"] == ["pin"]
    assert "begins at byte 8388608, but is pinned to byte 640" in str(broken)


@every(
    ("pins", "options", "message"),
    [
        (("LLC@x",), {}, "needs a whole number of bytes behind @"),
        (("LLC@-1",), {}, "needs a whole number of bytes behind @"),
        (("LLC@²",), {}, "needs a whole number of bytes behind @"),
        (("LLC@\u0663",), {}, "needs a whole number of bytes behind @"),
        (("LLC@" + "9" * 16,), {}, "the offset is too large"),
        (("@64",), {}, "names no memory; it is TENSOR=MEMORY[@OFFSET]"),
        (("LLC@8",), {"alignment": 16}, "needs a whole number of bytes, a multiple of 16, behind @"),
        (("DRAM@0",), {}, "plans choose no addresses in DRAM, the backing memory"),
        (("LLC@0",), {"slices": 0.05}, "is of several tensors, as slices are; leave out the offset, or slices"),
        (("SRAM@4194304",), {}, "of SRAM, where blocks may take 4,194,304; take a lower offset"),
        (("LLC@64", "LLC@64"), {}, "is pinned to bytes of LLC that another pinned tensor has at the same time"),
        (("SSRAM@64",), {}, "A pin names the memory SSRAM, which the chip does not have; did you mean SRAM?"),
    ],
)
def test_what_cannot_be_is_refused(pins, options, message):
    with pytest.raises((WorkloadError, AcceleratorError)) as error:
        pinned(*pins, **options)
    assert message in str(error.value)


def test_the_smallest_memory_knows_no_pins():
    with pytest.raises(WorkloadError, match="leave out the offsets of pins"):
        smallest_arena(pinned("SRAM@64"))

"""Chips whose memories have roles: nothing lies where it may not, and what cannot fit is refused with its sizes."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.experiments.packing import instance
from memplace_env._lib.errors import AcceleratorError, WorkloadError
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import native_plan, place_levels
from memplace_env.placement.compiler.placing_order import ORDERS
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.roles import asked_levels
from memplace_env.placement.synthetic import planted
from memplace_env.placement.validation import violations
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from memplace_env.report.inspection import inspect_task
from tests.thorough import examples

FLASH = "esp32-s3", "ethos-u55-256", "k210", "stm32h750", "stm32n6"


def test_neighbouring_banks_are_one_memory():
    levels = load_accelerator("stm32h750").levels
    assert [(level.name, level.capacity_bytes >> 10) for level in levels[:-1]] == [
        ("DTCM", 96),
        ("AXI SRAM", 512),
        ("SRAM1+SRAM2+SRAM3", 288),
    ]
    assert [level.capacity_bytes >> 10 for level in load_accelerator("stm32n6").levels[:4]] == [448] * 4


@pytest.mark.parametrize("chip", FLASH)
def test_native_leaves_no_result_in_flash(chip):
    task = resolve_task("ShuffleNetV2", chip)
    plan = native_plan(task)
    assert not violations(task, plan)
    behind = task.program.use_tensor[plan.use_level == task.backing]
    assert (task.program.tensor_kind[behind] == TensorKind.WEIGHT).all()
    assert not (plan.allocations[:, 1] == task.backing).any()


@examples(40)
@given(st.sampled_from(("esp32-s3", "stm32n6")), st.sampled_from(ORDERS), st.integers(0, 2**32 - 1))
def test_no_request_leaves_a_result_in_flash(chip, order, seed):
    """The slowest memory that may hold results has room for all of them."""
    task = resolve_task("SqueezeNet", chip)
    levels = np.random.default_rng(seed).integers(0, task.backing + 1, task.program.num_tensors)
    plan = place_levels(task, levels, order).plan
    assert not violations(task, plan)
    assert not len(task.homeless(plan))


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n).filter(any), min_size=1)
    )
)
def test_requests_begin_at_the_nearest_level_allowed(rows):
    allowed = np.array(rows, dtype=np.bool_).reshape(len(rows), -1)
    for tensor, row in enumerate(rows):
        may = np.flatnonzero(row).tolist()
        expected = [min([level for level in may if level >= asked], default=may[-1]) for asked in range(len(row))]
        assert asked_levels(allowed)[tensor].tolist() == expected


def test_native_finds_room_where_its_rules_do_not():
    """Blocks of MiniMalloc's instance A as results, in the smallest memory that holds them."""
    size, first, last = instance("A")
    builder = ProgramBuilder("A", "int8")
    blocks = [builder.tensor(str(block), num_bytes) for block, num_bytes in enumerate(size.tolist())]
    for time in np.unique([first, last]).tolist():
        operands = [blocks[block] for block in np.flatnonzero((first < time) & (last == time))]
        builder.op("Op", operands, [blocks[block] for block in np.flatnonzero(first == time)])
    chip = load_accelerator("k210")
    tight = replace(chip.levels[0], capacity_bytes=2**20)
    task = resolve_task(builder.build(), replace(chip, levels=(tight, *chip.levels[1:])), alignment=1)
    plan = native_plan(task)
    assert not violations(task, plan)
    assert not len(task.homeless(plan))


def test_what_cannot_fit_is_refused_with_its_sizes():
    sentence = (
        r"^'MobileNetV2' has up to 1,505,280 bytes at once that may lie in DTCM and AXI SRAM and SRAM1\+SRAM2\+SRAM3 "
        r"only, where there is room for 917,504; take a smaller batch"
    )
    with pytest.raises(AcceleratorError, match=sentence):
        gym.make("MemPlace-v0", workload="MobileNetV2", accelerator="stm32h750")
    with pytest.raises(
        AcceleratorError, match=r"KiB of weights and .* more than the 16384\.0 KiB of flash, the backing"
    ):
        resolve_task("BERT", "esp32-s3")


def test_inspections_look_at_memories_that_may_be_used():
    inspection = inspect_task(resolve_task("SqueezeNet", "k210"))
    assert (inspection.backing.level, inspection.fastest.level) == ("the slowest allowed", "the fastest allowed")
    assert inspection.fastest.time_ps.sum() <= inspection.backing.time_ps.sum() < 10**12


def test_inspections_say_what_does_not_fit_beside_flash():
    inspection = inspect_task(resolve_task("MobileNetV2", "stm32h750", must_fit=False))
    assert inspection.task.fits  # in flash, that is
    assert not inspection.to_json()["fits"]


def test_optima_are_planted_where_all_may_lie_everywhere():
    with pytest.raises(WorkloadError, match="memories hold weights and results, not 'k210'"):
        planted("chain", accelerator="k210")


def test_ends_are_whole():
    program = resolve_task("AlexNet", "nnp-i", slices=0.05).program
    with pytest.raises(
        WorkloadError, match="is cut into slices already, with inputs and outputs in the backing memory"
    ):
        resolve_task(program, "hexagon-v73", io_level="any")

"""Tasks with `slices=`: shares that make sense, programs from before, and random tasks that are sliced now and then."""

import math

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from memplace_env._lib.errors import WorkloadError
from memplace_env.placement.resolve_task import AUTO_SHARES, AUTO_TENSORS, resolve_task
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.program import Program
from tests.offenders import every
from tests.program.test_alias import update
from tests.program.test_slicing import of, sums
from tests.strategies import game_tasks, programs, programs_with_idle_ops, tasks


@every(
    "share",
    [0, -1, 2, 1.0001, "x", "0.1", True, math.nan, math.inf, [0.1], 10**400, np.complex64(0.1)],
)
def test_shares_that_make_no_sense_are_refused(share: object) -> None:
    with pytest.raises(WorkloadError) as caught:
        resolve_task(update(), "nnp-i", slices=share)  # type: ignore[arg-type]
    sentence = str(caught.value)
    assert sentence.startswith("slices is a share of the fastest memory above 0 and up to 1, or 'auto', not ")
    assert "\n" not in sentence


@pytest.mark.parametrize("share", [1e-7, 5e-324])
def test_shares_of_bombs_are_refused(share: float) -> None:
    """Tasks for plans and `gym.make` are resolved alike."""
    with pytest.raises(WorkloadError, match="and 400,000 are the most that are read; pass a larger share"):
        resolve_task("GPT2", "edge-tpu", slices=share)
    with pytest.raises(WorkloadError, match="pass a larger share"):
        gym.make("MemPlace-v0", workload="GPT2", accelerator="edge-tpu", slices=share)


def test_auto_takes_the_finest_share_that_makes_few_tensors() -> None:
    for name, chip in (("BERT", "ethos-u65"), ("MobileNetV2", "ethos-u65"), ("ResNet50", "nnp-i")):
        task = resolve_task(name, chip, slices="auto")
        share = task.settings["slices"]
        assert task.program.num_tensors <= AUTO_TENSORS
        assert resolve_task(name, chip, slices=share).program.sha256 == task.program.sha256
        for finer in AUTO_SHARES[: AUTO_SHARES.index(share)]:
            assert resolve_task(name, chip, slices=finer).program.num_tensors > AUTO_TENSORS


def test_random_tasks_are_sliced_now_and_then() -> None:
    """All properties that tests have tasks drawn for hold for slices too."""
    kinds = (tasks(), game_tasks(), tasks(programs_with_idle_ops()))
    quick = settings(phases=[Phase.generate])
    assert all(find(kind, lambda task: task.program.slices is not None, settings=quick) for kind in kinds)


@given(programs(), st.floats(0, 1, exclude_min=True))
def test_without_rows_no_share_cuts(program: Program, share: float) -> None:
    assert resolve_task(program, "nnp-i", slices=share).program is program


GOLDEN = {
    "ResNet50": "f6f3396ace01cbe43fd19f5100614d4060fe534b071505c35576f51239220151",
    "BERT": "1258769b661b864a63216b01bdcf16f040256159fe334dc8151c74a0ab210a56",
    "MobileNetV2": "a0119cb3fba3ea9c022a9f8eb4e444f860e919a69f4424f599644f0653a44b00",
}
"""Hashes from before tensors had rows."""


@pytest.mark.parametrize("name", GOLDEN)
def test_programs_are_those_from_before(name: str) -> None:
    program = resolve_workload(name)
    assert program.sha256 == GOLDEN[name]
    task, cut = resolve_task(name, "nnp-i"), resolve_task(name, "nnp-i", slices=0.1)
    assert task.program.slices is None
    assert "slices" not in task.settings
    assert cut.settings["slices"] == 0.1
    assert cut.program.num_tensors > task.program.num_tensors
    assert cut.program.whole.sha256 == task.program.sha256
    tensor, use = of(cut.program)
    assert (sums(cut.costs.use_pj, use, task.program.num_uses) >= task.costs.use_pj).all()
    assert (sums(cut.costs.copy_pj, tensor, task.program.num_tensors) == task.costs.copy_pj).all()


def test_costs_as_arrays_are_those_of_the_whole() -> None:
    named = resolve_task("ResNet50", "nnp-i", slices=0.1)
    given = resolve_task("ResNet50", "nnp-i", costs=resolve_task("ResNet50", "nnp-i").costs, slices=np.float64(0.1))
    assert given.program.sha256 == named.program.sha256
    assert all(map(np.array_equal, given.costs, named.costs))
    again = resolve_task(named.program, "nnp-i", slices=0.1)
    assert again.program.sha256 == named.program.sha256

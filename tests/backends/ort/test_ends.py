"""Inputs and outputs that are blocks: the first op fills them, the last one takes them, and a wrong address shows."""

import numpy as np
import pytest

from memplace_env._lib.units import round_up
from memplace_env.backends.ort import CopyMoment, Executor
from memplace_env.placement.compiler import native_plan, place_levels
from memplace_env.placement.validation import violations
from memplace_env.program.blocks import ARRIVAL, DEPARTURE, end_tensors
from tests.backends.ort.models import MODELS, task_of
from tests.backends.ort.test_executor import plans
from tests.backends.ort.test_in_place import crowded, model
from tests.fuzz.plan_mutants import KINDS, corrupted, executed_mutant

OPTIONS = [{}, {"slices": 0.1}, {"dtype": "int8"}, {"in_place": "rows", "fusion": "none", "weights": "resident"}]


@pytest.fixture(scope="module", params=range(len(OPTIONS)))
def executors(request, folder) -> list[Executor]:
    options = {"io_level": "any", "alignment": 16, **OPTIONS[request.param]}
    files = [*(make(folder / f"{name}.onnx") for name, make in MODELS.items()), model(folder / "in-place.onnx")]
    return [Executor(task_of(file, **options)) for file in files]


def test_every_plan_gives_the_bits_of_the_plain_run(executors):
    moved, inside = 0, set()
    for executor in executors:
        task = executor.task
        assert {ARRIVAL, DEPARTURE} <= set(task.program.op_type)
        for plan in (native_plan(task), place_levels(task, np.zeros(task.program.num_tensors, int)).plan, *plans(task)):
            moved += len(plan.transfers)
            inside |= set(end_tensors(task.program)) & set(plan.allocations[:, 0])
            assert not (plan.allocations[:, 2] % 16).any()
            for copies in CopyMoment:
                run = executor.run(plan, inferences=2, copies=copies)
                assert run.right, run
                assert run.ops == 2 * task.program.num_ops
    assert inside
    assert moved or not executors[0].task.streams_weights


def test_a_wrong_address_gives_a_wrong_run(executors):
    rng = np.random.default_rng(4)
    for executor in executors:
        mutants = [corrupted(executor, plan, kind, rng) for plan in plans(executor.task) for kind in KINDS]
        assert any(mutants)
        for mutant in filter(None, mutants):
            assert executed_mutant(executor, mutant)["results"], violations(executor.task, mutant)


def test_what_the_caller_takes_is_compared(folder):
    """Other bytes than the output's when the last op runs, and a block of an input that lies on another."""
    executor = Executor(task_of(model(folder / "own.onnx"), kibibytes=64, io_level="any", fusion="none"))
    task = executor.task
    plan = crowded(task)
    assert executor.run(plan, inferences=1).right
    for name, wrong in (("y", "y"), ("x", "a")):
        (row,) = np.flatnonzero(plan.allocations[:, 0] == task.program.tensor_name.index(name))
        other = next(at for at in range(len(plan.allocations)) if at != row and overlaps(plan.allocations, at, row))
        blocks = plan.allocations.copy()
        blocks[row, 2] = blocks[other, 2]
        mutant = task.make_plan(plan.use_level, blocks)
        assert {"overlap"} == {violation.rule for violation in violations(task, mutant)}
        run = executor.run(mutant, inferences=1, even_if_invalid=True)
        assert not run.right
        assert run.first_difference is not None, wrong


def overlaps(blocks: np.ndarray, one: int, other: int) -> bool:
    """Return whether two blocks exist at once."""
    return bool(max(blocks[[one, other], 3]) <= min(blocks[[one, other], 4]))


def test_the_backing_memory_is_shared_by_liveness(folder):
    """Places of results are others' later, and nothing is lost."""
    task = task_of(model(folder / "behind.onnx"), kibibytes=1)
    program = task.program
    plan = task.make_plan(np.full(program.num_uses, task.backing), np.empty((0, 5)))
    executor = Executor(task)
    behind = executor._layout.behind(plan)
    assert behind.max() < round_up(program.tensor_bytes, 64).sum() / 2
    assert executor.run(plan, inferences=2).right

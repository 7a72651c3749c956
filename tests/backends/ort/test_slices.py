"""Plans that place slices of tensors: ops find their operands whole, and every slice is compared."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from memplace_env._lib.errors import PlanError
from memplace_env.backends.ort import CopyMoment, Executor
from memplace_env.backends.ort.arena_layout import Places
from memplace_env.cli.app import app
from memplace_env.placement.compiler import native_plan, place_levels
from memplace_env.placement.compiler.density import density_greedy
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.validation import violations
from memplace_env.program.program import TensorKind
from tests.backends.ort.models import MODELS, convolutional, executors_of, task_of
from tests.backends.ort.test_executor import game_plan, one_shot_plan, plans
from tests.fuzz.plan_mutants import KINDS, corrupted
from tests.thorough import examples

SHARE = 0.1
"""Largest share of 4 KiB that a tensor takes whole: most tensors of the models are cut."""


@pytest.fixture(scope="module")
def executors(folder):
    return executors_of(folder, slices=SHARE)


def slices_of(task, value: str) -> list[int]:
    """The numbers of a tensor's slices, by the name of its value."""
    return [number for number, name in enumerate(task.program.tensor_value) if name == value]


def lives(task, tensor: int) -> tuple[int, int]:
    return int(task.program.live_start[tensor]), int(task.program.live_end[tensor])


def plan_of(task, *blocks) -> MemoryPlan:
    """A plan with these blocks of level 0, which serve all uses while they last."""
    program = task.program
    level = np.ones(program.num_uses, dtype=np.int8)
    for tensor, _, _, start, end in blocks:
        level[(program.use_tensor == tensor) & (start <= program.use_op) & (program.use_op <= end)] = 0
    return task.make_plan(level, np.array(blocks))


@pytest.mark.parametrize("weights", ["streamed", "resident"])
@pytest.mark.parametrize("name", MODELS)
def test_every_plan_gives_the_bits_of_the_plain_run(executors, name, weights):
    executor = executors[name, weights]
    task = executor.task
    for plan in (native_plan(task), density_greedy(task), *plans(task)):
        for copies in CopyMoment:
            run = executor.run(plan, inferences=2, copies=copies)
            assert run.right, run
            assert run.bit_equal == run.ops == 2 * task.program.num_ops, "cut operands lie at multiples of 64"


def test_weights_and_results_are_cut_in_and_between_blocks_windows_reach_over_cuts(executors):
    """Without these the tests here would say little."""
    task = executors["convolutional", "streamed"].task
    program, whole = task.program, task.program.whole
    cut = np.bincount(program.slices.slice_of) > 1
    kinds = set(whole.tensor_kind[cut].tolist())
    assert kinds == {TensorKind.WEIGHT, TensorKind.ACTIVATION}
    assert {bool(blocks > 1) for blocks in whole.tensor_rows[cut, 0]} == {True, False}
    assert (whole.use_halo[cut[whole.use_tensor]] > 0).any()
    mixed = [
        np.unique(plan.use_level[program.use_tensor == number]).tolist()
        for plan in plans(task)
        for number in slices_of(task, "w1")
    ]
    assert [0] in mixed
    assert [1] in mixed


@pytest.mark.parametrize("slices", [0.01, 0.03])
@pytest.mark.parametrize("name", MODELS)
def test_where_a_plan_has_smaller_types_each_of_its_bytes_stands_for_more(folder, name, slices):
    path = MODELS[name](folder / f"small-{name}.onnx")
    executor = Executor(task_of(path, dtype="int8", slices=slices))
    assert executor.task.program.slices is not None
    assert executor.scale == Executor(task_of(path, dtype="int8")).scale == 4
    for plan in plans(executor.task):
        run = executor.run(plan, inferences=2, copies="random")
        assert run.right, run


def test_each_slice_holds_its_rows(executors):
    """In its own place, one block behind the other, and not only in the tensor that is put together again.

    Places of inner results are others' later.
    """
    executor = executors["convolutional", "streamed"]
    task, slices = executor.task, executor.task.program.slices
    plan = task.make_plan(np.full(task.program.num_uses, task.backing), np.empty((0, 5)))
    assert executor.run(plan, inferences=1).right
    behind = Places(task, plan, executor._layout)
    kept = np.flatnonzero(task.program.tensor_kind != TensorKind.ACTIVATION)
    assert np.bincount(slices.slice_of[kept]).max() > 1
    for number, tensor in zip(kept.tolist(), slices.slice_of[kept].tolist(), strict=True):
        (first, last), (blocks, rows) = slices.rows[number], task.program.whole.tensor_rows[tensor]
        expected = executor._network.contents[tensor].reshape(blocks, rows, -1)[:, first:last]
        assert expected.nbytes == task.program.tensor_bytes[number]
        assert executor._memory.at(behind.backing(number)).tobytes() == expected.tobytes()


def test_poison_in_one_slice_is_found(executors):
    executor = executors["convolutional", "resident"]
    task = executor.task
    number = slices_of(task, "r0")[1]
    start, end = lives(task, number)
    plan = plan_of(task, (number, 0, 0, start, end))
    assert executor.run(plan).right
    plan.allocations[0, 4] = end - 1
    assert {violation.rule for violation in violations(task, plan)} == {"use"}
    with pytest.raises(PlanError):
        executor.run(plan)
    run = executor.run(plan, even_if_invalid=True)
    assert run.wrong_outputs == {"y": 0}
    why = "the op reads other bytes than the tensor's"
    assert run.first_difference == (0, end, task.program.tensor_name[number], why)


def test_slices_of_one_result_in_the_same_bytes_are_found(executors):
    executor = executors["convolutional", "resident"]
    task = executor.task
    one, other = slices_of(task, "r0")[:2]
    plan = plan_of(task, *((number, 0, 0, *lives(task, number)) for number in (one, other)))
    assert {violation.rule for violation in violations(task, plan)} == {"overlap"}
    run = executor.run(plan, even_if_invalid=True)
    assert run.first_difference == (0, lives(task, one)[0], "r0", "it differs from the plain run")


def test_a_slice_overwritten_after_its_use_is_found_in_the_next_inference(executors):
    executor = executors["convolutional", "resident"]
    task, last = executor.task, executor.task.program.num_ops - 1
    weight, late = slices_of(task, "w0")[0], slices_of(task, "r1")[0]
    assert lives(task, weight)[1] < lives(task, late)[0]
    plan = plan_of(task, (weight, 0, 0, 0, last), (late, 0, 0, *lives(task, late)))
    assert {violation.rule for violation in violations(task, plan)} == {"overlap"}
    run = executor.run(plan, inferences=3, even_if_invalid=True)
    assert run.wrong_outputs == {"y": 1}
    assert run.first_difference.value == task.program.tensor_name[weight]
    assert "resident weight was overwritten" in run.first_difference.why


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["convolutional", "attentive"])
def test_every_corrupted_plan_is_noticed(executors, name, kind):
    executor, rng, seen = executors[name, "streamed"], np.random.default_rng(3), 0
    for seed in range(40):
        plan = game_plan(executor.task, seed) if seed % 2 else one_shot_plan(executor.task, seed)
        mutant = corrupted(executor, plan, kind, rng)
        if mutant is None:
            continue
        seen += 1
        runs = (executor.run(mutant, inferences=2, copies=copies, even_if_invalid=True) for copies in CopyMoment)
        assert not all(run.right for run in runs)
    assert seen >= 10


@examples(25)
@given(
    seed=st.integers(0, 2**31 - 1),
    copies=st.sampled_from(CopyMoment),
    game=st.booleans(),
    share=st.sampled_from([0.01, 0.03, 0.1, 0.5]),
    name=st.sampled_from(sorted(MODELS)),
)
def test_no_valid_plan_gives_wrong_results(shares, seed, copies, game, share, name):
    executor = shares(name, share)
    plan = game_plan(executor.task, seed) if game else one_shot_plan(executor.task, seed)
    assert executor.run(plan, inferences=1, copies=copies, seed=seed % 7).right


@pytest.fixture(scope="module")
def shares(folder):
    made: dict[tuple[str, float], Executor] = {}

    def executor(name: str, share: float) -> Executor:
        if (name, share) not in made:
            made[name, share] = Executor(task_of(MODELS[name](folder / f"{name}-{share}.onnx"), slices=share))
        return made[name, share]

    return executor


def test_a_plan_for_other_slices_is_refused(executors, folder):
    executor = executors["convolutional", "streamed"]
    for other in (None, 0.3):
        task = task_of(folder / "convolutional.onnx", slices=other)
        with pytest.raises(PlanError, match="made for another program"):
            executor.run(native_plan(task), even_if_invalid=True)
        with pytest.raises(PlanError, match="made for another program"):
            Executor(task).run(native_plan(executor.task), even_if_invalid=True)


@pytest.mark.slow
@pytest.mark.parametrize(("network", "chip"), [("ResNet50", "nnp-i"), ("MobileNetV2", "ethos-u65")])
def test_a_network_of_the_zoo(network, chip):
    task = resolve_task(network, chip, slices=0.1)
    executor = Executor(task)
    levels = np.random.default_rng(0).integers(0, task.accelerator.num_levels, task.program.num_tensors)
    for plan in (native_plan(task), density_greedy(task), place_levels(task, levels).plan):
        for copies in CopyMoment:
            assert executor.run(plan, inferences=2, copies=copies).right


def test_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    convolutional(tmp_path / "m.onnx")

    def run(*arguments: str):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    run("solve", "m.onnx", "-a", "ethos-u65", "--slices", "0.01", "--agent", "density-greedy", "--out", "out")
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["settings"]["slices"] == 0.01
    document = json.loads(run("execute", "m.onnx", "out/plan.json", "--json"))
    assert document["right"]
    assert all(each["bit_equal"] == each["ops"] for each in document["runs"])

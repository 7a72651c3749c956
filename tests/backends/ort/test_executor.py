"""Plans that are right run right in their own memory; plans that are wrong do not."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from memplace_env._lib.errors import ExecutionError, PlanError
from memplace_env.backends.ort import CopyMoment, Executor
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.placement.compiler import native_plan, place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.validation import violations
from memplace_env.program.program import TensorKind
from tests.backends.ort.models import (
    FLOAT,
    MODELS,
    attentive,
    biased,
    chip,
    convolutional,
    executors_of,
    half,
    normal,
    task_of,
    written,
)
from tests.thorough import examples


@pytest.fixture(scope="module")
def executors(folder):
    return executors_of(folder)


def one_shot_plan(task, seed: int = 0) -> MemoryPlan:
    mapping = np.random.default_rng(seed).integers(0, 2, task.program.num_tensors)
    return place_levels(task, mapping).plan


def game_plan(task, seed: int = 0) -> MemoryPlan:
    problem = MallocGameProblem(task)
    states = problem.new_states(1)
    problem.finish_randomly(states, seed)
    return problem.plan(states[0])


def plans(task) -> list[MemoryPlan]:
    games = [game_plan(task, seed) for seed in range(3)] if task.streams_weights else []
    return [*(one_shot_plan(task, seed) for seed in range(3)), *games]


@pytest.mark.parametrize("weights", ["streamed", "resident"])
@pytest.mark.parametrize("name", MODELS)
def test_every_plan_gives_the_bits_of_the_plain_run(executors, name, weights):
    executor = executors[name, weights]
    moved = 0
    for plan in plans(executor.task):
        moved += len(plan.transfers)
        for copies in CopyMoment:
            run = executor.run(plan, inferences=2, copies=copies)
            assert run.right, run
            assert run.ops == 2 * executor.task.program.num_ops
            assert run.bit_equal + run.within_tolerance == run.ops
            assert len(run.seconds) == 2
    assert (moved > 0) == (weights == "streamed")


@pytest.mark.parametrize("name", MODELS)
def test_plain_run_is_that_of_the_file_itself(folder, name):
    path = MODELS[name](folder / f"own-{name}.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(5)
    (read,) = session.get_inputs()
    drawn = rng.integers(0, 20, read.shape) if "int64" in read.type else rng.standard_normal(read.shape)
    inputs = {read.name: drawn.astype(np.int64 if "int64" in read.type else np.float32)}
    executor = Executor(task_of(path), inputs=inputs)
    for output, expected in zip(session.get_outputs(), session.run(None, inputs), strict=True):
        np.testing.assert_allclose(executor._network.expected[output.name], expected, rtol=1e-5, atol=1e-6)
    assert executor.drawn == 0
    assert executor.run(one_shot_plan(executor.task)).right


def test_arenas_hold_what_the_chip_has(executors):
    executor = executors["convolutional", "streamed"]
    assert executor.scale == 1
    backing = sum(-(-size // 64) * 64 for size in executor.task.program.tensor_bytes.tolist())
    assert executor.arena_bytes == 4 * 1024 + backing


def test_where_a_plan_has_smaller_types_each_of_its_bytes_stands_for_more(folder):
    path = convolutional(folder / "small.onnx")
    executor = Executor(task_of(path, dtype="int8", kibibytes=1))
    assert executor.scale == 4
    assert executor.run(game_plan(executor.task), inferences=1).right


def test_weights_that_are_not_in_the_file_are_drawn(folder):
    (folder / "away").mkdir()
    path = convolutional(
        folder / "away" / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    stored = Executor(task_of(path))
    (path.parent / "weights.bin").unlink()
    drawn, same, other = Executor(task_of(path)), Executor(task_of(path)), Executor(task_of(path), seed=1)
    assert stored.drawn == 0
    assert drawn.drawn == 9
    assert drawn.run(one_shot_plan(drawn.task), inferences=1).right
    results = [each._network.expected["y"] for each in (drawn, same, other, stored)]
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])
    assert not np.array_equal(results[0], results[3])


def test_off_multiples_of_sixteen_bytes_a_tolerance_is_kept(folder):
    path = attentive(folder / "shifted.onnx")
    executor = Executor(resolve_task(path, chip(kibibytes=64)))
    program = executor.task.program
    plan = place_levels(executor.task, np.zeros(program.num_tensors, dtype=np.int64)).plan
    for shift in range(4, 16, 4):
        blocks = plan.allocations.copy()
        blocks[:, 2] += shift
        run = executor.run(replace(plan, allocations=blocks), inferences=1)
        assert run.right, run


def blocks_of(task, *rows) -> MemoryPlan:
    """A plan with these blocks, in which every use that a block of level 0 covers is served there."""
    program = task.program
    level = np.ones(program.num_uses, dtype=np.int8)
    for use, (op, tensor) in enumerate(zip(program.use_op, program.use_tensor, strict=True)):
        level[use] = not any(row[0] == tensor and row[3] <= op <= row[4] for row in rows)
    return task.make_plan(level, np.array(rows))


@pytest.mark.parametrize("casting", [False, True])
def test_float16_is_rounded_between_ops_as_the_plain_run_does_not(folder, casting):
    """Its kernels are of float32. int8 makes no op of casts, so that the last one is a view of an output."""
    path = half(folder / f"half-{casting}.onnx", casting)
    for seed in range(5):
        executor = Executor(task_of(path, dtype="int8" if seed % 2 else None), seed=seed)
        for plan in plans(executor.task):
            run = executor.run(plan, inferences=2)
            assert run.right, run
            assert run.within_tolerance > 0
            assert run.bit_equal + run.within_tolerance == run.ops


def test_poison_is_found_in_float16(folder):
    executor = Executor(task_of(half(folder / "freed.onnx", casting=False), weights="resident"))
    task = executor.task
    tensor = activations(task)[0]
    start, end = int(task.program.live_start[tensor]), int(task.program.live_end[tensor])
    plan = blocks_of(task, (tensor, 0, 0, start, end))
    assert executor.run(plan).right
    plan.allocations[0, 4] = end - 1
    run = executor.run(plan, even_if_invalid=True)
    assert (run.first_difference.op, run.wrong_outputs) == (end, {"y16": 0})
    assert not run.right


def returning(path):
    """A model that hands out its input, views of all its inputs, of which no op reads the second, and of its result.

    And nothing of what is between.
    """
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["h"], "product"),
        node("Slice", ["h", "zero", "zero"], ["e"], "part"),
        node("Relu", ["e"], ["none"], "idle"),
        node("Relu", ["h"], ["y"], "relu"),
        *(node("Reshape", [name, "flat"], [f"{name}_flat"], f"flatten_{name}") for name in ("x", "unread", "y")),
    ]
    constants = {"w": normal(np.random.default_rng(6), 16, 16), "flat": np.array([64]), "zero": np.array([0])}
    outputs = {"none": [0, 16], "x": [4, 16], "x_flat": [64], "unread_flat": [64], "y": [4, 16], "y_flat": [64]}
    inputs = {name: (FLOAT, [4, 16]) for name in ("x", "unread")}
    return written(path, nodes, inputs, {name: (FLOAT, shape) for name, shape in outputs.items()}, constants)


def test_outputs_that_are_views_of_inputs(folder):
    executor = Executor(task_of(returning(folder / "returning.onnx")))
    assert [port.name for port in executor._network.tail.results] == ["x_flat"]
    for plan in plans(executor.task):
        run = executor.run(plan, inferences=2)
        assert run.right, run
    wrong = executor._network.expected["x_flat"] + 1
    executor._network = replace(executor._network, expected={**executor._network.expected, "x_flat": wrong})
    assert executor.run(plan).wrong_outputs == {"x_flat": 0}


def test_inputs_without_any_element_are_read(folder):
    """A decoder's first call reads an empty cache, here also by a cast and a result that is none."""
    node = helper.make_node
    nodes = [
        node("Cast", ["past"], ["cast"], "cast", to=FLOAT),
        node("Concat", ["cast", "x"], ["joined"], "join", axis=0),
        node("MatMul", ["joined", "w"], ["h"], "product"),
        node("Relu", ["past"], ["none"], "idle"),
        node("Relu", ["h"], ["y"], "relu"),
    ]
    constants = {"w": normal(np.random.default_rng(7), 16, 16)}
    outputs = {"none": (FLOAT, [0, 16]), "y": (FLOAT, [4, 16])}
    path = written(folder / "cache.onnx", nodes, {"past": (FLOAT, [0, 16]), "x": (FLOAT, [4, 16])}, outputs, constants)
    given_too = {"past": np.zeros((0, 16), np.float32), "x": np.ones((4, 16), np.float32)}
    for executor in (Executor(task_of(path)), Executor(task_of(path), inputs=given_too)):
        for plan in plans(executor.task):
            run = executor.run(plan, inferences=2)
            assert run.right, run
    with pytest.raises(ExecutionError, match=r"input 'past' is float32 \[1, 16\]; the model takes float32 \[0, 16\]"):
        Executor(task_of(path), inputs={**given_too, "past": np.ones((1, 16), np.float32)})


def activations(task) -> list[int]:
    return np.flatnonzero(task.program.tensor_kind == TensorKind.ACTIVATION).tolist()


def test_poison_finds_a_use_after_free(executors):
    """Nothing else lies in the bytes: without poison the data would still be there."""
    executor = executors["convolutional", "resident"]
    task = executor.task
    tensor = activations(task)[0]
    start, end = int(task.program.live_start[tensor]), int(task.program.live_end[tensor])
    assert executor.run(blocks_of(task, (tensor, 0, 0, start, end))).right
    plan = blocks_of(task, (tensor, 0, 0, start, end))
    plan.allocations[0, 4] = end - 1
    assert {violation.rule for violation in violations(task, plan)} == {"use"}
    with pytest.raises(PlanError):
        executor.run(plan)
    run = executor.run(plan, even_if_invalid=True)
    assert run.wrong_outputs == {"y": 0}
    assert run.first_difference.op == end
    assert not run.right


def test_a_weight_overwritten_after_its_use_is_found_in_the_next_inference(executors):
    executor = executors["convolutional", "resident"]
    task = executor.task
    program = task.program
    weight, late = program.tensor_value.index("w0"), activations(task)[-1]
    last, start, end = program.num_ops - 1, int(program.live_start[late]), int(program.live_end[late])
    assert program.live_end[weight] < start
    plan = blocks_of(task, (weight, 0, 0, 0, last), (late, 0, 0, start, end))
    assert {violation.rule for violation in violations(task, plan)} == {"overlap"}
    run = executor.run(plan, inferences=3, even_if_invalid=True)
    assert run.wrong_outputs == {"y": 1}
    assert run.first_difference == (0, program.num_ops, "w0", "the resident weight was overwritten")
    assert not executor.run(plan, inferences=1, even_if_invalid=True).right, "though its own outputs are right"


def test_what_is_overwritten_where_no_result_shows_it_is_found(folder):
    """A weight lies on rows of a table that these ids do not select."""
    executor = Executor(task_of(attentive(folder / "unread.onnx"), weights="resident"), inputs={"ids": [[0] * 6]})
    program, last = executor.task.program, executor.task.program.num_ops - 1
    table, weight = (program.tensor_value.index(name) for name in ("table", "wq"))
    row = program.tensor_bytes[table] // 20
    plan = blocks_of(executor.task, (table, 0, 0, 0, last), (weight, 0, row, 0, last))
    assert {violation.rule for violation in violations(executor.task, plan)} == {"overlap"}
    run = executor.run(plan, even_if_invalid=True)
    assert not run.wrong_outputs
    assert run.bit_equal + run.within_tolerance == run.ops
    assert run.first_difference == (0, 0, "table", "the op reads other bytes than the tensor's")


def test_an_op_may_not_write_over_what_it_reads(executors):
    """A kernel might be done with each number when it writes there; a chip's need not be."""
    executor = executors["attentive", "resident"]
    task, program = executor.task, executor.task.program
    read, made = (program.tensor_value.index(name) for name in ("s", "p"))
    lives = [(int(program.live_start[tensor]), int(program.live_end[tensor])) for tensor in (read, made)]
    plan = blocks_of(task, (read, 0, 0, *lives[0]), (made, 0, 0, *lives[1]))
    assert {violation.rule for violation in violations(task, plan)} == {"overlap"}
    run = executor.run(plan, even_if_invalid=True)
    assert run.first_difference == (0, lives[0][1], "s", "the op reads other bytes than the tensor's")


def test_tolerances_hide_no_overwritten_operand(folder):
    """In float16, one bias lies on another that is nearly the same."""
    executor = Executor(task_of(biased(folder / "biased.onnx"), weights="resident"))
    program, last = executor.task.program, executor.task.program.num_ops - 1
    one, other = (program.tensor_value.index(name) for name in ("b0", "b1"))
    plan = blocks_of(executor.task, (one, 0, 0, 0, last), (other, 0, 0, 0, last))
    run = executor.run(plan, even_if_invalid=True)
    assert run.bit_equal + run.within_tolerance == run.ops
    assert not run.wrong_outputs
    assert "reads other bytes" in run.first_difference.why


def test_an_executor_may_be_shared_by_threads(executors):
    executor = executors["convolutional", "streamed"]
    many = [game_plan(executor.task, seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert all(run.right for run in pool.map(lambda plan: executor.run(plan, inferences=20), many))


def test_a_copy_whose_window_begins_too_early_is_found_by_the_earliest_moment(executors):
    executor = executors["convolutional", "streamed"]
    task = executor.task
    program = task.program
    weight = program.tensor_value.index("w2")
    made = activations(task)[0]
    first, start, end = int(program.first_use[weight]), int(program.live_start[made]), int(program.live_end[made])
    use = int(program.use_op[first])
    assert end < use - 1
    plan = blocks_of(task, (made, 0, 0, start, end), (weight, 0, 0, end + 1, use))
    good = replace(plan, transfers=np.array([[weight, 1, 0, end + 1, use - 1]]))
    bad = replace(plan, transfers=np.array([[weight, 1, 0, start, use - 1]]))
    assert {violation.rule for violation in violations(task, bad)} >= {"prefetch"}
    assert all(executor.run(good, copies=copies).right for copies in CopyMoment)
    assert executor.run(bad, copies="latest", even_if_invalid=True).right
    assert executor.run(bad, copies="earliest", even_if_invalid=True).wrong_outputs == {"y": 0}


def test_an_op_that_trips_over_wrong_data_counts_as_wrong(executors):
    executor = executors["attentive", "streamed"]
    task = executor.task
    program = task.program
    ids = program.tensor_value.index("ids")
    use = int(program.first_use[ids])
    plan = blocks_of(task, (ids, 0, 0, 0, 1))
    # The table lies where the ids should be: its numbers select no rows.
    table = program.tensor_value.index("table")
    plan = replace(
        plan, allocations=np.array([[ids, 0, 0, 0, 0], [table, 0, 0, 0, 0]]), transfers=np.array([[table, 1, 0, 0, 0]])
    )
    plan.use_level[use] = 0
    run = executor.run(plan, copies="earliest", even_if_invalid=True)
    assert run.wrong_outputs == {"y": 0, "z": 0}
    assert (run.first_difference.value, run.ops, run.seconds) == ("ids", 0, ())


@examples(25)
@given(seed=st.integers(0, 2**32), copies=st.sampled_from(CopyMoment), game=st.booleans())
def test_no_valid_plan_gives_wrong_results(executors, seed, copies, game):
    executor = executors["attentive", "streamed"]
    plan = game_plan(executor.task, seed % 2**31) if game else one_shot_plan(executor.task, seed)
    assert executor.run(plan, inferences=1, copies=copies, seed=seed % 7).right


@pytest.mark.slow
def test_a_network_of_the_zoo():
    executor = Executor(resolve_task("ResNet18", "ethos-u65"))
    assert all(executor.run(plan, copies=copies).right for plan in plans(executor.task) for copies in CopyMoment)


def test_branches_that_are_settled_at_load(tmp_path):
    """One inside the other, with constants of their own and names that both branches use."""

    def branch(*nodes):
        result = [helper.make_tensor_value_info("r", FLOAT, [2, 8])]
        weights = [numpy_helper.from_array(np.full((8, 8), 0.25, np.float32), "w")]
        return helper.make_graph(nodes, "branch", [], result, weights)

    node = helper.make_node
    inner = branch(node("MatMul", ["x", "w"], ["a"], "product"), node("Relu", ["a"], ["r"], "relu"))
    other = branch(node("Sqrt", ["x"], ["r"], "root"))
    outer = branch(node("If", ["yes"], ["r"], "inner", then_branch=inner, else_branch=other))
    nodes = [
        node("If", ["yes"], ["c"], "outer", then_branch=outer, else_branch=other),
        node("Add", ["c", "x"], ["y"], "sum"),
    ]
    inputs, outputs = {"x": (FLOAT, [2, 8])}, {"y": (FLOAT, [2, 8])}
    executor = Executor(task_of(written(tmp_path / "m.onnx", nodes, inputs, outputs, {"yes": np.array(True)})))
    assert set(executor.task.program.op_nodes) == {("product",), ("relu",), ("sum",)}
    assert executor.run(native_plan(executor.task)).right


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("op_type", ["Add", "Sub"])
@pytest.mark.parametrize("behind", [0, 1])
def test_biases_that_fusion_makes_of_single_numbers(tmp_path, op_type, behind, rank):
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv"),
        node("Mul", ["c", "two"], ["m"], "scale"),
        node(op_type, ["m", "two"] if behind else ["two", "m"], ["s"], "shift"),
        node("Relu", ["s"], ["y"], "relu"),
    ]
    constants = {"w": np.ones((3, 2, *[1] * rank), np.float32), "two": np.float32(2)}
    shape = [1, 2, *[4] * rank]
    path = written(tmp_path / "m.onnx", nodes, {"x": (FLOAT, shape)}, {"y": (FLOAT, [1, 3, *[4] * rank])}, constants)
    task = task_of(path)
    assert task.program.op_nodes == (("conv", "scale", "shift", "relu"),)
    executor = Executor(task)
    assert any(np.array_equal(array.reshape(-1), [2, 2, 2]) for array in executor._network.weights.values())
    assert executor.run(native_plan(task)).right

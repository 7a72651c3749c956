"""A network on a fake device: what it computes, what it takes, and what is said where it goes wrong."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from memplace_env._lib.errors import ExecutionError, PlanError
from memplace_env.backends.cuda import bench as bench_module
from memplace_env.backends.cuda import device_ops
from memplace_env.backends.cuda.bench import Bench
from memplace_env.backends.cuda.device_protocol import Wait, commands_of, copy_order
from memplace_env.backends.ort.plan_steps import CopyTensor, RunOp
from tests.backends.cuda.fake_device import FakeDevice
from tests.backends.ort.models import MODELS, convolutional, half, task_of, written
from tests.backends.ort.test_executor import game_plan, one_shot_plan, plans
from tests.thorough import examples


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def benches(folder):
    """Benches by model and by policy of weights, each on a device of its own."""
    return {
        (name, weights): Bench(task_of(make(folder / f"{name}.onnx"), weights=weights), FakeDevice(lambda step: 1.0))
        for name, make in MODELS.items()
        for weights in ("streamed", "resident")
    }


def test_slices_are_refused(folder):
    task = task_of(convolutional(folder / "sliced.onnx"), slices=0.1)
    assert task.program.slices is not None
    with pytest.raises(ExecutionError, match="'sliced' is cut into slices, and the kernels of a device read whole"):
        Bench(task, FakeDevice(lambda step: 1.0))


def test_inputs_and_outputs_in_blocks_are_refused(folder):
    task = task_of(convolutional(folder / "ends.onnx"), io_level="any")
    with pytest.raises(ExecutionError, match="'ends' has its inputs and outputs in blocks, and a device reads"):
        Bench(task, FakeDevice(lambda step: 1.0))


def drawn(seed: int):
    """Times of steps, some of them 0, as far as anybody asks."""
    rng = np.random.default_rng(seed)
    device_ops, copies = rng.exponential(1, (2, 1000)) * (rng.random((2, 1000)) < 0.8)
    return lambda step: float(device_ops[step.op] if isinstance(step, RunOp) else copies[step.row])


@pytest.mark.parametrize("weights", ["streamed", "resident"])
@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_the_plain_run(benches, name, weights):
    """`measure` compares them, and forgets before each plan what the last one left."""
    bench = benches[name, weights]
    for number, plan in enumerate(plans(bench.task)):
        bench.device.seconds_of = drawn(number)
        assert len(bench.measure(plan, runs=2).inference_s) == 2


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), game=st.booleans())
def test_no_valid_plan_gives_wrong_outputs_however_long_its_steps_take(benches, seed, game):
    bench = benches["convolutional", "streamed"]
    bench.device.seconds_of, bench.device.rng = drawn(seed), np.random.default_rng(seed)
    plan = game_plan(bench.task, seed) if game else one_shot_plan(bench.task, seed)
    bench.measure(plan, runs=1)


def test_a_missing_wait_is_seen(benches, monkeypatch):
    """Faults are seen: the tests above can fail."""
    bench = benches["convolutional", "streamed"]
    monkeypatch.setattr(
        bench_module, "commands_of", lambda *of: (step for step in commands_of(*of) if not isinstance(step, Wait))
    )
    seen = 0
    for seed in range(20):
        bench.device.seconds_of, bench.device.rng = drawn(seed), np.random.default_rng(seed)
        try:
            bench.measure(game_plan(bench.task, seed), runs=1)
        except ExecutionError as error:
            seen += "computes another 'y' with this plan" in str(error)
    assert seen > 5


def test_times_are_those_of_the_device(benches):
    bench = benches["convolutional", "streamed"]
    device_ops = bench.task.program.num_ops
    for seed in range(5):
        plan = game_plan(bench.task, seed)
        seconds = bench.device.seconds_of = drawn(seed)
        timing = bench.measure(plan, runs=3)
        assert np.allclose(timing.op_s, [seconds(RunOp(op)) for op in range(device_ops)])
        assert np.allclose(timing.inference_s, timing.op_s.sum() + timing.wait_s.sum() + timing.tail_s)
        if len(plan.transfers):
            last = CopyTensor(copy_order(bench.task, plan)[-1])
            assert timing.inference_s[0] >= seconds(last)
        else:
            assert timing.tail_s == timing.wait_s.sum() == 0


def test_an_op_alone_takes_its_own_time(benches):
    bench = benches["attentive", "streamed"]
    seconds = bench.device.seconds_of = drawn(5)
    assert np.allclose(bench.op_seconds([3, 0]), [seconds(RunOp(3)), seconds(RunOp(0))])


def test_one_plan_is_recorded_once(benches):
    """The first run has clocks between its ops; after it it is played as often as wanted."""
    bench = benches["convolutional", "streamed"]
    bench.device.recordings = 0
    bench.measure(game_plan(bench.task), runs=7)
    assert bench.device.recordings == 2


class Slow(FakeDevice):
    """Its host takes too long at the times that are `late`, of those that it was `asked`."""

    late, asked = frozenset(), 0

    def held(self, first):
        self.asked += 1
        return self.asked - 1 not in self.late


def test_runs_that_come_too_late_are_made_again(folder):
    bench = Bench(task_of(convolutional(folder / "late.onnx")), Slow(lambda step: 1.0))
    plan, device, warm = game_plan(bench.task), bench.device, bench_module.WARM_RUNS
    timing, asked = bench.measure(plan, runs=4), device.asked
    device.asked, device.late = 0, {0, warm + 1, warm + 2, warm + 4}
    again = bench.measure(plan, runs=4)
    assert device.asked == asked + 4
    assert np.allclose(again.inference_s, timing.inference_s)


def test_a_device_that_does_nothing_is_seen(folder):
    """Wherever it begins to: results do not start from what they should be."""
    task = task_of(convolutional(folder / "idle.onnx"))

    class Idle(FakeDevice):
        works = 10**9

        def issue(self, stream, work, step=None):
            self.works -= 1
            super().issue(stream, work if self.works >= 0 else lambda: None, step)

    idle = Idle(lambda step: 1.0)
    bench, plan = Bench(task, idle), game_plan(task)
    made = 10**9 - idle.works
    bench.measure(plan, runs=3)
    measured = 10**9 - idle.works - made
    for works in range(0, made, 3):
        idle.works = works
        with pytest.raises(ExecutionError, match="computes another"):
            Bench(task, idle)
    for works in range(0, measured, 7):
        idle.works = works
        with pytest.raises(ExecutionError, match="computes another"):
            bench.measure(plan, runs=3)
    for works in (0, 3, 10):
        idle.works = works
        with pytest.raises(ExecutionError, match="computes another"):
            bench.op_seconds([0], repeats=10)


def test_one_op_that_cannot_be_captured_is_enough(folder):
    class Once(FakeDevice):
        def replay(self, issue, *, capture=True):
            replay = super().replay(issue, capture=capture)
            self.captures = False
            self.asked = [*getattr(self, "asked", []), capture]
            return replay

    device = Once(lambda step: 1.0)
    bench = Bench(task_of(convolutional(folder / "once.onnx")), device)
    assert len(bench.op_seconds([0, 1, 2], runs=1, repeats=2)) == 3
    assert device.asked == [True, True, False, False, False], "all are timed alike in the end"
    assert not bench.measure(game_plan(bench.task), runs=1).captured


def test_all_plans_of_a_network_are_captured_or_none(folder):
    task, plans_ = task_of(convolutional(folder / "captured.onnx")), range(3)
    captured = Bench(task, FakeDevice(lambda step: 1.0))
    assert [captured.measure(game_plan(task, seed), runs=1).captured for seed in plans_] == [True] * 3
    captured.device.captures = False
    with pytest.raises(ExecutionError, match="could not capture an inference of 'captured' as a graph, as it could"):
        captured.measure(game_plan(task), runs=1)
    issued = Bench(task, FakeDevice(lambda step: 1.0, captures=False))
    assert not issued.measure(game_plan(task), runs=1).captured
    issued.device.captures = True
    assert not issued.measure(game_plan(task), runs=1).captured, "its times must compare with the first one's"


def layers(path, count=12):
    """Quantised convolutions, one behind the other, and the largest number of the last as an integer output."""
    rng = np.random.default_rng(0)
    nodes, constants, name = [], {"s": np.float32(0.05), "zero": np.int8(0)}, "x"
    for layer in range(count):
        constants[f"w{layer}"] = rng.integers(-60, 60, (8, 8, 3, 3)).astype(np.int8)
        nodes += [
            helper.make_node("QuantizeLinear", [name, "s", "zero"], [f"q{layer}"], f"code{layer}"),
            helper.make_node("DequantizeLinear", [f"q{layer}", "s", "zero"], [f"d{layer}"], f"decode{layer}"),
            helper.make_node("DequantizeLinear", [f"w{layer}", "s", "zero"], [f"v{layer}"], f"weight{layer}"),
            helper.make_node("Conv", [f"d{layer}", f"v{layer}"], [f"c{layer}"], f"conv{layer}", pads=[1, 1, 1, 1]),
            helper.make_node("Tanh", [f"c{layer}"], [f"t{layer}"], f"tanh{layer}"),
        ]
        name = f"t{layer}"
    nodes.append(helper.make_node("ArgMax", [name], ["most"], "argmax", axis=1))
    nodes.append(helper.make_node("Relu", [name], ["y"], "relu"))
    shape = [1, 8, 14, 14]
    outputs = {"y": (TensorProto.FLOAT, shape), "most": (TensorProto.INT64, [1, 1, 14, 14])}
    return written(path, nodes, {"x": (TensorProto.FLOAT, shape)}, outputs, constants)


def test_rounding_that_differs_from_the_cpu_is_no_fault(folder):
    """Ops are compared with ONNX Runtime one by one, and plans with the device's own ops, not with the CPU's chain."""
    bench = Bench(task_of(layers(folder / "quantised_layers.onnx")), FakeDevice(lambda step: 1.0))
    for seed in range(3):
        bench.measure(game_plan(bench.task, seed), runs=1)


@pytest.mark.parametrize("casting", [False, True])
def test_half_precision_is_rounded_otherwise_on_the_cpu(folder, casting):
    bench = Bench(task_of(half(folder / f"half{casting}.onnx", casting)), FakeDevice(lambda step: 1.0))
    for seed in range(3):
        bench.measure(game_plan(bench.task, seed), runs=1)


def test_integer_outputs_are_compared(folder):
    bench = Bench(task_of(layers(folder / "integers.onnx", count=1)), FakeDevice(lambda step: 1.0))
    op = next(op for op, name in enumerate(bench.task.program.op_type) if name == "ArgMax")
    bench._ops._kernels[op] = lambda operands: (torch.full((1, 1, 14, 14), 3),)
    with pytest.raises(ExecutionError, match="computes another 'most' with this plan than without"):
        bench.measure(game_plan(bench.task), runs=1)


def test_an_op_that_the_device_computes_otherwise_is_named(folder, monkeypatch):
    real = device_ops.lower

    def wrong(part, torch_device):
        kernel = real(part, torch_device)
        return lambda operands: tuple(1.01 * each for each in kernel(operands))

    monkeypatch.setattr(device_ops, "lower", wrong)
    with pytest.raises(ExecutionError, match=r"a fake device computes another '\w+' in op 0 \(.*\) than ONNX Runtime"):
        Bench(task_of(convolutional(folder / "wrong.onnx")), FakeDevice(lambda step: 1.0))


def test_other_bytes_than_planned_are_not_timed(folder):
    with pytest.raises(ExecutionError, match="is deployed in smaller types than its file has"):
        Bench(task_of(convolutional(folder / "small.onnx"), dtype="int8"), FakeDevice(lambda step: 1.0))


def test_arenas_are_as_large_as_the_chip_says(folder):
    device = FakeDevice(lambda step: 1.0)
    asked = []
    device.arena = lambda size, *, fast: asked.append((size, fast)) or torch.empty(size, dtype=torch.uint8)
    Bench(task_of(convolutional(folder / "sizes.onnx"), kibibytes=8), device)
    assert asked[0] == (8 * 1024, True)
    assert not asked[1][1]
    assert all(fast for _, fast in asked[2:]), "what ops are tried on lies in the device"


def test_plans_must_be_valid(benches):
    with pytest.raises(PlanError):
        benches["convolutional", "streamed"].measure(game_plan(benches["attentive", "streamed"].task))


def test_three_memories_are_refused():
    from memplace_env.placement.resolve_task import resolve_task

    with pytest.raises(ExecutionError, match="'nnp-i' has 3 memories; a device has two"):
        Bench(resolve_task("SqueezeNet", "nnp-i"), FakeDevice(lambda step: 1.0))


def test_an_op_that_fails_is_named(folder):
    bench = Bench(task_of(convolutional(folder / "fails.onnx")), FakeDevice(lambda step: 1.0))

    def fails(operands):
        raise RuntimeError("CUDA error:\n  out of something")

    bench._ops._kernels[1] = fails
    with pytest.raises(ExecutionError, match=r"Op 1 \(.*\) fails on a fake device.*: CUDA error: out of something"):
        bench.measure(game_plan(bench.task), runs=1)


def test_numbers_that_are_none_are_wrong(folder):
    bench = Bench(task_of(convolutional(folder / "nan.onnx")), FakeDevice(lambda step: 1.0))
    kernel = bench._ops._kernels[-1]
    bench._ops._kernels[-1] = lambda operands: tuple(each * float("nan") for each in kernel(operands))
    with pytest.raises(ExecutionError, match="its time is meaningless"):
        bench.measure(game_plan(bench.task), runs=1)

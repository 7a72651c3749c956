"""A device as a simulator: reports, environments, agents, and machines without a GPU."""

import gc
import pickle
import weakref

import gymnasium as gym
import numpy as np
import pytest
import torch

from memplace_agents.registry import agent_specs
from memplace_env._lib.errors import ExecutionError, SimulatorError
from memplace_env._lib.plugins import SIMULATORS, installed
from memplace_env.backends.cuda import simulator as simulator_module
from memplace_env.backends.cuda.cuda import open_cuda
from memplace_env.backends.cuda.simulator import DeviceSimulator
from memplace_env.backends.ort.plan_steps import RunOp
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.testing import check_simulator
from tests.backends.cuda.fake_device import FakeDevice
from tests.backends.ort.models import convolutional, task_of
from tests.backends.ort.test_executor import game_plan


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return task_of(convolutional(tmp_path_factory.mktemp("models") / "small.onnx"))


def recorded(step) -> float:
    """Each step takes a time of its own."""
    return 1e-6 * (step.op + 1 if isinstance(step, RunOp) else 0.3 + step.row)


def fake() -> FakeDevice:
    return FakeDevice(recorded)


def test_it_keeps_the_contract(task):
    check_simulator(DeviceSimulator(fake, task=task, runs=2), task.program, task.accelerator)


def test_reports_add_up(task):
    simulator = DeviceSimulator(fake, task=task, runs=3)
    for seed in range(5):
        plan = game_plan(task, seed)
        report = simulator.run(task.program, task.accelerator, plan)
        assert report.latency_ps == report.op_time_ps.sum() + report.stall_ps.sum() + report.tail_ps
        timing = simulator.bench(task.program, task.accelerator, plan).measure(plan, runs=3)
        assert np.isclose(report.latency_s, np.median(timing.inference_s))
        assert np.allclose(report.op_time_s, timing.op_s, atol=2e-12)


def test_the_plan_says_what_it_is_for(task):
    """An environment's plans do; without a word of it, the task must be passed."""
    plan = native_plan(task)
    report = DeviceSimulator(fake, runs=2).run(task.program, task.accelerator, plan)
    assert report.latency_s > 0
    nameless = type(plan)(**{**plan.__dict__, "settings": {}})
    with pytest.raises(ExecutionError, match="does not name its model; pass DeviceSimulator the task"):
        DeviceSimulator(fake, runs=2).run(task.program, task.accelerator, nameless)


def test_slices_are_refused(task):
    """Plans carry the setting, so that the simulator finds the task."""
    sliced = resolve_task(task.settings["workload"], task.accelerator, slices=0.1)
    with pytest.raises(ExecutionError, match="is cut into slices"):
        DeviceSimulator(fake, runs=2).run(sliced.program, sliced.accelerator, native_plan(sliced))


def test_other_programs_are_refused(task, tmp_path):
    other = task_of(convolutional(tmp_path / "other.onnx"), kibibytes=8)
    with pytest.raises(ExecutionError, match="is not the program of this simulator"):
        DeviceSimulator(fake, task=task, runs=2).run(other.program, other.accelerator, native_plan(other))


def test_agents_search_on_it(task):
    device = fake()
    simulator = DeviceSimulator(lambda: device, task=task, runs=2)
    env = gym.make("memplace_env:MallocGame-v0", workload=task.with_simulator(simulator)).unwrapped
    best = agent_specs()["game-local-search"].make().solve(env, budget=30, seed=0).plan
    measured = evaluate_plan(task.with_simulator(simulator), best).latency_ps
    assert measured <= evaluate_plan(task.with_simulator(simulator), native_plan(task)).latency_ps
    assert device.recordings >= 10


def test_a_copy_opens_the_device_anew(task):
    simulator = DeviceSimulator(fake, task=task, runs=2)
    plan = native_plan(task)
    first = simulator.run(task.program, task.accelerator, plan)
    again = pickle.loads(pickle.dumps(simulator)).run(task.program, task.accelerator, plan)
    assert first.latency_ps == again.latency_ps


def test_it_is_installed_by_name():
    assert installed(SIMULATORS)["cuda"].load() is DeviceSimulator


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_at_once(task):
    said = r"^No CUDA device can be reached.*; run this on a machine with an NVIDIA GPU.* for it\.$"
    for asks in (open_cuda, DeviceSimulator):
        with pytest.raises(ExecutionError, match=said):
            asks()
    with pytest.raises(SimulatorError, match=said):
        resolve_task(task.program, task.accelerator, "cuda")
    with pytest.raises(SimulatorError, match=said):
        gym.make("memplace_env:MemPlace-ResNet50-v0", simulator="cuda")


def test_where_there_is_one_it_is_opened_with_the_first_plan(task, monkeypatch):
    """A worker refuses in the same words, in its own process."""
    monkeypatch.setattr(simulator_module, "require_cuda", lambda: None)
    simulator = pickle.loads(pickle.dumps(DeviceSimulator(task=task, runs=2)))
    assert simulator._open is open_cuda
    monkeypatch.setattr(simulator, "_open", fake)
    assert simulator.run(task.program, task.accelerator, native_plan(task)).latency_s > 0


def test_there_is_memory_for_one_network_at_a_time(task, tmp_path, monkeypatch):
    """The bench of the last one is gone before the next, even if it is in a cycle."""
    monkeypatch.setattr(simulator_module, "_task_of", lambda accelerator, plan: tasks[accelerator.name, plan.program])
    other = task_of(convolutional(tmp_path / "other.onnx"), kibibytes=8)
    tasks = {(each.accelerator.name, each.program.name): each for each in (task, other)}
    alive = []

    class Watched(simulator_module.Bench):
        def __init__(self, *asked, **options):
            assert not any(bench() for bench in alive)
            alive.append(weakref.ref(self))
            self.cycle = self
            super().__init__(*asked, **options)

    monkeypatch.setattr(simulator_module, "Bench", Watched)
    device = fake()
    simulator = DeviceSimulator(lambda: device, runs=2)
    gc.disable()  # it could come by chance
    try:
        for each in (task, other, task):
            simulator.run(each.program, each.accelerator, native_plan(each))
    finally:
        gc.enable()
    assert len(alive) == 3


def test_it_needs_runs():
    with pytest.raises(ExecutionError, match="runs must be at least 1, not 0"):
        DeviceSimulator(fake, runs=0)

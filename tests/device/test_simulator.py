"""A device as a simulator: reports, environments, agents, and machines without a GPU."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch

from agents.registry import agent_specs
from memplace_env.compiler import native_plan
from memplace_env.device.cuda import open_cuda
from memplace_env.device.simulator import DeviceSimulator
from memplace_env.errors import ExecutionError, SimulatorError
from memplace_env.execution.schedule import Run
from memplace_env.plugins import SIMULATORS, installed
from memplace_env.resolve import resolve_task
from memplace_env.simulator import judge_plan, resolve_simulator
from memplace_env.testing import check_simulator
from tests.device.fake_device import FakeDevice
from tests.execution.models import convolutional, task_of
from tests.execution.test_executor import game_plan


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return task_of(convolutional(tmp_path_factory.mktemp("models") / "small.onnx"))


def recorded(step) -> float:
    """Each step takes a time of its own."""
    return 1e-6 * (step.op + 1 if isinstance(step, Run) else 0.3 + step.row)


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
    with pytest.raises(ExecutionError, match="does not say which model it is for; pass DeviceSimulator the task"):
        DeviceSimulator(fake, runs=2).run(task.program, task.accelerator, nameless)


def test_other_programs_are_refused(task, tmp_path):
    other = task_of(convolutional(tmp_path / "other.onnx"), kibibytes=8)
    with pytest.raises(ExecutionError, match="is not what the device is to run"):
        DeviceSimulator(fake, task=task, runs=2).run(other.program, other.accelerator, native_plan(other))


def test_agents_search_on_it(task):
    device = fake()
    simulator = DeviceSimulator(lambda: device, task=task, runs=2)
    env = gym.make("memplace_env:MallocGame-v0", workload=task.judged_by(simulator)).unwrapped
    best = agent_specs()["game-local-search"].make().solve(env, budget=30, seed=0).plan
    measured = judge_plan(task.judged_by(simulator), best).latency_ps
    assert measured <= judge_plan(task.judged_by(simulator), native_plan(task)).latency_ps
    assert device.recordings >= 10


def test_a_copy_opens_the_device_anew(task):
    simulator = DeviceSimulator(fake, task=task, runs=2)
    plan = native_plan(task)
    first = simulator.run(task.program, task.accelerator, plan)
    again = pickle.loads(pickle.dumps(simulator)).run(task.program, task.accelerator, plan)
    assert first.latency_ps == again.latency_ps


def test_it_is_installed_by_name():
    assert "cuda" in installed(SIMULATORS)
    assert isinstance(resolve_simulator("cuda"), DeviceSimulator)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(task):
    with pytest.raises(ExecutionError, match="No CUDA device can be reached"):
        open_cuda()
    with pytest.raises(SimulatorError, match=r"No CUDA device can be reached.*run this on a machine with"):
        judge_plan(resolve_task(task.program, task.accelerator, "cuda"), native_plan(task))


def test_it_needs_runs():
    with pytest.raises(ExecutionError, match="runs is 0; at least 1"):
        DeviceSimulator(runs=0)

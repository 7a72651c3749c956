"""Evaluation by the cost arrays, by a black box by name or itself; objects that are neither."""

from dataclasses import replace

import gymnasium as gym
import pytest

import memplace_env
from memplace_env._lib.errors import CostError, ExecutionError, SimulatorError
from memplace_env.machine.costs import KnownCosts
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import BuiltinSimulator, Simulator, evaluate_plan, resolve_simulator
from memplace_env.testing import RandomCosts
from tests.by_hand import machine, three_op_task, three_ops
from tests.entry_points import install

WORKLOAD = "synthetic:chain?ops=8&seed=4"


class Slow(BuiltinSimulator):
    """Everything takes twice as long."""

    def run(self, program, accelerator, plan):
        report = super().run(program, accelerator, plan)
        return replace(report, latency_ps=2 * report.latency_ps)


def test_the_cost_arrays_judge_unless_a_black_box_does():
    assert resolve_simulator(None) is None
    assert resolve_simulator("builtin") is None
    assert resolve_simulator(BuiltinSimulator()) is None
    assert isinstance(resolve_simulator(Slow()), Slow)
    task = three_op_task()
    plan = native_plan(task)
    slow = make_task(task.program, task.accelerator, simulator=Slow())
    assert (task.is_black_box, slow.is_black_box) == (False, True)
    assert evaluate_plan(slow, plan).latency_ps == 2 * evaluate_plan(task, plan).latency_ps


def test_what_is_no_simulator_is_refused():
    with pytest.raises(SimulatorError, match="there are builtin"):
        resolve_simulator("nothing")
    with pytest.raises(SimulatorError, match="did you mean 'builtin'"):
        resolve_simulator("buildin")
    with pytest.raises(SimulatorError, match="needs run"):
        resolve_simulator(3)


def test_installed_simulators_are_found_by_name(monkeypatch):
    asking = ExecutionError("Plug in a chip.")
    broken = ImportError("no chip")
    install(monkeypatch, "memplace.simulators", slow=Slow, ready=Slow(), broken=broken, wrong=int, asking=asking)
    assert isinstance(resolve_simulator("slow"), Slow)
    assert isinstance(resolve_simulator("ready"), Simulator)
    plain = gym.make("MemPlace-v0", workload=WORKLOAD).unwrapped
    env = gym.make("MemPlace-v0", workload=WORKLOAD, simulator="slow").unwrapped
    assert env.report().latency_ps == 2 * plain.report().latency_ps
    with pytest.raises(SimulatorError, match="there are builtin, event, asking, broken, ready, slow, wrong"):
        resolve_simulator("nothing")
    with pytest.raises(SimulatorError, match=r"'broken' cannot be loaded \(no chip\); install"):
        resolve_simulator("broken")
    with pytest.raises(SimulatorError, match=r"^Plug in a chip\.$"):
        resolve_simulator("asking")
    with pytest.raises(SimulatorError, match="needs run"):
        resolve_simulator("wrong")


def test_the_simulator_of_an_environment_says_what_the_environment_says():
    """Whatever costs it was made with, and whatever program the simulator timed before."""
    for costs in (None, RandomCosts(3)):
        env = gym.make("MemPlace-v0", workload=WORKLOAD, costs=costs).unwrapped
        report = env.simulator.run(env.program, env.accelerator, env.plan())
        assert report.latency_ps == env.report().latency_ps
    slow = gym.make("MemPlace-v0", workload=WORKLOAD, simulator=Slow()).unwrapped
    assert isinstance(slow.simulator, Slow)


def test_builtin_simulator_takes_costs():
    program, chip = three_ops(), machine()
    task = make_task(program, chip, costs=RandomCosts(5))
    plan = native_plan(task)
    expected = evaluate_plan(task, plan).latency_ps
    assert BuiltinSimulator(RandomCosts(5)).run(program, chip, plan).latency_ps == expected
    simulator = BuiltinSimulator(KnownCosts(task.costs, program, chip))
    assert simulator.run(program, chip, plan).latency_ps == expected
    with pytest.raises(CostError, match="not of"):
        simulator.run(three_ops(work=90), chip, plan)
    assert memplace_env.simulate(program, chip, plan, BuiltinSimulator(RandomCosts(5))).latency_ps == expected
    simulator = BuiltinSimulator()
    other = three_ops(work=90)
    for asked in (program, other, program):
        own = make_task(asked, chip)
        assert (
            simulator.run(asked, chip, native_plan(own)).latency_ps == evaluate_plan(own, native_plan(own)).latency_ps
        )

"""Simulators that fail or return impossible reports: one sentence with their class, wherever they run."""

import math
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import memplace_env
from memplace_agents import LocalSearch
from memplace_agents.search.game_local_search import GameLocalSearch
from memplace_env._lib.errors import CostError, SimulatorError
from memplace_env.machine.costs import Roofline
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import (
    BatchSimulator,
    BuiltinSimulator,
    evaluate_plan,
    evaluate_plans,
    resolve_simulator,
)
from tests.by_hand import machine, three_op_task, three_ops
from tests.cli.conftest import Run, run  # noqa: F401  (a fixture)
from tests.entry_points import install
from tests.offenders import every

ONE_SHOT = "synthetic:chain?ops=8&seed=4"
GAME = "synthetic:diamond?ops=6&seed=1&accelerator=tpu-v4i"


class Odd(BuiltinSimulator):
    """The built-in one, whose report a function turns into something else."""

    def __init__(self, turned):
        super().__init__()
        self.turned = turned

    def run(self, program, accelerator, plan):
        return self.turned(super().run(program, accelerator, plan))


def fails(report):
    raise KeyError("no such\nboard")


def latency(value):
    return lambda report: replace(report, latency_ps=value)


FAULTS = [
    (lambda report: None, r"returned NoneType; it must return memplace_env\.Report, see its docstring\.$"),
    (lambda report: {"latency_ps": 5}, r"returned dict; it must"),
    (latency(math.nan), "latency_ps is nan; it must be a number of picoseconds above 0"),
    (latency(math.inf), "latency_ps is inf"),
    (latency(np.float64("nan")), r"latency_ps is (np\.float64\()?nan"),
    (latency(0), "latency_ps is 0;"),
    (latency(-7), "latency_ps is -7;"),
    (latency(None), "latency_ps is None;"),
    (latency("3"), "latency_ps is '3';"),
    (latency(10**400), "latency_ps is 1000"),
    (latency(10**5000), "latency_ps is an object of int that cannot be shown"),
    (latency(np.array([3])), r"latency_ps is an array of shape \(1,\)"),
    (lambda report: replace(report, energy_j=math.nan), "energy_j is nan; report joules, or 0.0"),
    (fails, r"raised KeyError on a valid plan: 'no such\\nboard'$"),
    (lambda report: latency(1), "returned function"),
]
faulty = every(("turned", "sentence"), FAULTS)


@faulty
def test_judges(turned, sentence):
    program, chip = three_ops(), machine()
    task = make_task(program, chip, simulator=Odd(turned))
    plan = native_plan(three_op_task())
    for call in (
        lambda: evaluate_plan(task, plan),
        lambda: evaluate_plans(task, [plan, plan]),
        lambda: memplace_env.simulate(program, chip, plan, Odd(turned)),
        lambda: memplace_env.native(program, chip, Odd(turned)),
    ):
        with pytest.raises(SimulatorError, match=f"^Simulator Odd:? {sentence}") as caught:
            call()
        assert "\n" not in str(caught.value)


@faulty
def test_environments_and_searches(turned, sentence):
    env = gym.make("MemPlace-v0", workload=ONE_SHOT, simulator=Odd(turned))
    game = gym.make("MallocGame-v0", workload=GAME, simulator=Odd(turned))
    vector = gym.make_vec("MallocGame-v0", num_envs=2, workload=GAME, simulator=Odd(turned))
    game.reset()
    vector.reset()

    def play(step, action):
        for _ in range(game.unwrapped.problem.num_decisions):
            step(action)

    for asked in (
        env.reset,
        lambda: env.unwrapped.step(env.action_space.sample()),
        env.unwrapped.report,
        lambda: play(game.step, 2),
        lambda: play(vector.step, np.full(2, 2)),
        lambda: LocalSearch().solve(env, budget=5),
        lambda: GameLocalSearch().solve(game, budget=5),
    ):
        with pytest.raises(SimulatorError, match=f"^Simulator Odd:? {sentence}"):
            asked()


@pytest.mark.parametrize(("turned", "sentence"), [FAULTS[0], FAULTS[2], FAULTS[-2]])
def test_command_line(run: Run, monkeypatch, turned, sentence):  # noqa: F811
    install(monkeypatch, "memplace.simulators", odd=Odd(turned))
    for formulation, workload in (("one-shot", ONE_SHOT), ("game", GAME)):
        result = run("solve", workload, "--simulator", "odd", "--formulation", formulation, "--budget", 5)
        assert result.exit_code == 2
        assert "Simulator Odd" in result.stderr
        assert "Traceback" not in result.stderr


def test_what_is_raised_stays_as_the_cause():
    with pytest.raises(SimulatorError) as caught:
        evaluate_plan(make_task(three_ops(), machine(), simulator=Odd(fails)), native_plan(three_op_task()))
    assert isinstance(caught.value.__cause__, KeyError)


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError


def test_what_cannot_be_shown():
    def fails_in_silence(report):
        raise UnspeakableError

    task = make_task(three_ops(), machine(), simulator=Odd(fails_in_silence))
    with pytest.raises(SimulatorError, match="raised UnspeakableError on a valid plan: it cannot be shown"):
        evaluate_plan(task, native_plan(three_op_task()))


@every(
    ("changed", "sentence"),
    [
        (lambda costs: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda costs: None, "returned NoneType; it must return memplace_env.Costs"),
        (lambda costs: costs._replace(compute_ps=[[1], [2, 3]]), "compute_ps must be .*; this list is not an array"),
        (lambda costs: costs._replace(compute_ps=costs.compute_ps * math.nan), "compute_ps must be .* not float64"),
        (
            lambda costs: costs._replace(compute_ps=costs.compute_ps.astype("m8[s]")),
            "compute_ps must be .* not timedelta64",
        ),
        (lambda costs: costs._replace(use_ps=-costs.use_ps), "use_ps must be at least 1"),
        (lambda costs: costs._replace(serial=costs.use_ps), r"serial must be True or False, not an array of shape"),
    ],
)
def test_faulty_cost_models(changed, sentence):
    class Model:
        def costs(self, program, accelerator):
            return changed(Roofline().costs(program, accelerator))

    for env_id, workload in (("MemPlace-v0", ONE_SHOT), ("MallocGame-v0", GAME)):
        for make in (gym.make, gym.make_vec):
            with pytest.raises(CostError, match=f"^Cost model Model:? {sentence}"):
                make(env_id, workload=workload, costs=Model())


def test_interrupts_pass_through():
    def interrupted(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_plan(make_task(three_ops(), machine(), simulator=Odd(interrupted)), native_plan(three_op_task()))


def test_classes_are_told_from_objects():
    with pytest.raises(SimulatorError, match=r"Odd is a class; pass an object of it, Odd\(\.\.\.\)\."):
        resolve_simulator(Odd)


def test_a_simulator_that_knows_no_energy():
    env = gym.make("MemPlace-v0", workload=ONE_SHOT, simulator=Odd(lambda report: replace(report, energy_j=0.0)))
    env.reset(seed=0)
    _, reward, _, _, info = env.step(env.action_space.sample())
    assert info["energy_j"] == 0
    assert math.isfinite(reward)


class Batched(Odd):
    """Takes many plans at once, and counts how it was asked."""

    def __init__(self, turned=lambda reports: reports):
        super().__init__(lambda report: report)
        self.turned_all, self.batches = turned, []

    def run_batch(self, program, accelerator, plans):
        self.batches.append(len(plans))
        return self.turned_all([self.run(program, accelerator, plan) for plan in plans])


def test_a_batch_goes_to_the_simulator_at_once():
    """Native's three plans, assignments, the ends of games; a single plan is for `run`, as that of `report()` is."""
    simulator = Batched()
    assert isinstance(simulator, BatchSimulator)
    assert not isinstance(BuiltinSimulator(), BatchSimulator)
    env = gym.make("MemPlace-v0", workload=ONE_SHOT, simulator=simulator).unwrapped
    maps = np.random.default_rng(0).integers(0, 3, (5, 16))
    env.reset()
    _, scores = env.score(maps)
    assert simulator.batches == [3, 5]
    plain = gym.make("MemPlace-v0", workload=ONE_SHOT).unwrapped.score(maps)[1]
    np.testing.assert_array_equal(scores.latency_s, plain.latency_s)
    for one_map, expected in zip(maps, plain.latency_s, strict=True):
        assert env.step(one_map)[4]["latency_s"] == env.report().latency_s == expected
    assert simulator.batches == [3, 5]
    vector = gym.make_vec("MallocGame-v0", num_envs=3, workload=GAME, simulator=simulator)
    vector.reset()
    for _ in range(vector.unwrapped.problem.num_decisions):
        vector.step(np.full(3, 2))
    assert simulator.batches == [3, 5, 3]


@pytest.mark.parametrize(
    ("turned", "sentence"),
    [
        (lambda reports: reports[:-1], "returned 1 reports for 2 plans; run_batch must return one each"),
        (lambda reports: None, "raised TypeError"),
        (lambda reports: [None, reports[1]], "returned NoneType"),
        (lambda reports: [reports[0], replace(reports[1], latency_ps=-1)], "latency_ps is -1"),
    ],
)
def test_faulty_batches(turned, sentence):
    plan = native_plan(three_op_task())
    with pytest.raises(SimulatorError, match=f"Simulator Batched:? {sentence}"):
        evaluate_plans(make_task(three_ops(), machine(), simulator=Batched(turned)), [plan, plan])

"""MachineModel: what one program's measurements say of another's, its file, and the agent that begins with it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from memplace_agents import Exact
from memplace_agents.calibrated import Calibrated
from memplace_agents.calibrated.cost_factors import FACTOR_SIGMA, LATENCY, SCALE_SIGMA, CostFactors
from memplace_agents.calibrated.machine_model import LATENCY_SIGMA, PROGRAM_SIGMA, MachineModel, MeasuredProgram
from memplace_env._lib.errors import AgentError
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import random_dag
from memplace_env.testing.strategies import tasks
from memplace_leaderboard.black_box import BlackBox
from tests.thorough import examples


def task_of(seed, chip="nnp-i", simulator=None):
    return resolve_task(random_dag(seed, ops=14, dtype="int8", largest=20_000_000), chip, simulator=simulator)


def random_plans(task, count, seed=0):
    rng = np.random.default_rng(seed)
    size = task.accelerator.num_levels, task.program.num_tensors
    return [place_levels(task, rng.integers(size[0], size=size[1])).plan for _ in range(count)]


def measured(task, box, count=25):
    plans = random_plans(task, count)
    return MeasuredProgram(task, plans, [box.run(task.program, task.accelerator, plan).latency_s for plan in plans])


def learned(box, seeds=range(1, 6)):
    machine = MachineModel.of(task_of(1))
    for seed in seeds:
        machine = machine.learned(measured(task_of(seed), box), 0.0)
    return machine


def errors(task, box, prior):
    """Return the spread of the model's errors in the latencies of random plans of a program, in logarithms."""
    factors, (_, plans, seconds) = CostFactors(task, prior), measured(task, box, 20)
    modelled = factors.latency_ps([factors.terms(plan) for plan in plans], factors.prior.mean)
    return np.std(np.log(modelled) - np.log(seconds))


@pytest.mark.parametrize("seed", range(3))
def test_a_machine_carries_over_to_programs_that_were_never_measured(seed):
    box = BlackBox(seed)
    machine = learned(box)
    before = [errors(task_of(other), box, None) for other in (11, 12, 13)]
    after = [errors(task_of(other), box, machine.prior) for other in (11, 12, 13)]
    assert np.mean(after) < 0.6 * np.mean(before)
    assert machine.programs == tuple((task_of(seed).program.name, 25) for seed in range(1, 6))


@examples(15)
@given(tasks())
def test_measurements_never_make_a_factor_less_certain(task):
    before = MachineModel.of(task)
    factors = CostFactors(task, before.prior)
    plans = random_plans(task, 5)
    terms = [factors.terms(plan) for plan in plans]
    seconds = factors.latency_ps(terms, np.zeros(len(factors.names))) * 1e-12
    after = before.learned(MeasuredProgram(task, plans, seconds), 0.02)
    deviation = np.sqrt(np.diag(after.covariance))
    nominal = np.array([SCALE_SIGMA if name == LATENCY else FACTOR_SIGMA for name in after.names])
    assert (deviation <= nominal * (1 + 1e-6)).all()
    assert after.mean == pytest.approx(np.zeros(len(after.mean)), abs=1e-3)


def test_factors_of_unknown_kinds_are_nominal():
    prior = learned(BlackBox(0), range(1, 2)).prior(("use Unheard 0", LATENCY))
    assert prior.mean[0] == 0
    assert prior.covariance[0, 0] == pytest.approx(FACTOR_SIGMA**2 + PROGRAM_SIGMA**2)
    assert prior.covariance[0, 1] == 0
    assert LATENCY_SIGMA**2 < prior.covariance[1, 1] < SCALE_SIGMA**2


def test_what_is_saved_is_what_is_loaded(tmp_path):
    machine = learned(BlackBox(0), range(1, 3))
    again = MachineModel.load(machine.save(tmp_path / "m.json"))
    assert (again.chip, again.chip_sha256, again.costs) == (machine.chip, machine.chip_sha256, machine.costs)
    assert (again.names, again.programs) == (machine.names, machine.programs)
    assert again.mean == pytest.approx(machine.mean, abs=1e-8)
    assert again.covariance == pytest.approx(machine.covariance, abs=1e-8)


DAMAGE = {
    "format": "another",
    "names": ["once", "once"],
    "mean": [0.0],
    "programs": [["AlexNet", -1]],
    "covariance": [[float(5)], [1.0, -9.0]],
    "chip": "two\nlines",
    "costs": None,
}


@pytest.mark.parametrize("field", DAMAGE)
def test_damaged_files_are_one_sentence(tmp_path, field):
    machine = MachineModel("nnp-i", "0" * 64, "tiled", ("latency", "prefetch"), np.zeros(2), np.eye(2))
    path = machine.save(tmp_path / "m.json")
    assert MachineModel.load(path).names == machine.names
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: DAMAGE[field]}))
    with pytest.raises(AgentError, match=r"Cannot read the machine model .*m\.json: .*calibrate --from"):
        Calibrated(path)
    path.write_text("{")
    with pytest.raises(AgentError, match="Cannot read"):
        Calibrated(path)
    with pytest.raises(AgentError, match="No such file"):
        Calibrated(tmp_path / "no.json")


def test_a_machine_of_another_chip_or_other_costs_is_refused():
    machine = MachineModel.of(task_of(1, "edge-tpu"))
    with pytest.raises(AgentError, match="for the chip edge-tpu, whose numbers are not those of"):
        Calibrated(machine).solve(OneShotEnv(task_of(1)), budget=2)
    other = replace(MachineModel.of(task_of(1)), costs="measured")
    with pytest.raises(AgentError, match="for the cost model measured, not "):
        Calibrated(other).solve(OneShotEnv(task_of(1)), budget=2)


def test_one_measurement_is_the_nominal_plans_without_evidence():
    task = task_of(11)
    nominal = Exact(mip_gap=1e-3).solve(OneShotEnv(task)).report.latency_ps
    env = OneShotEnv(task_of(11, simulator=BlackBox(2, noise=0.05)))
    plan = Calibrated(MachineModel.of(task)).solve(env, budget=1).plan
    assert evaluate_plan(task, plan).latency_ps == nominal


@pytest.mark.parametrize("seed", [0, 1])
def test_one_measurement_with_a_machine_is_as_good_as_the_nominal_plan(seed):
    """The machine was learned on two other networks; of ResNet50 one plan is measured, with noise.

    HiGHS 1.16 finds the same plan with and without the machine; 1.15.1 found a nominal one that was 1 % slower.
    """

    def network(name, simulator=None):
        return resolve_task(name, "edge-tpu", simulator=simulator)

    box, machine = BlackBox(seed), MachineModel.of(network("AlexNet"))
    for name in ("MobileNetV2", "InceptionV3"):
        machine = machine.learned(measured(network(name), box), 0.0)
    env = OneShotEnv(network("ResNet50", BlackBox(seed, noise=0.02)))
    solutions = [Calibrated(chosen).solve(env, budget=1) for chosen in (None, machine, machine)]
    nominal, with_machine, again = (box.run(env.program, env.accelerator, found.plan).latency_s for found in solutions)
    assert [found.evaluations for found in solutions] == [1, 1, 1]
    assert with_machine <= nominal
    assert again == with_machine

"""The black box: a machine drawn from its seed, not additive, noisy as asked, and playable by every agent."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from memplace_env._lib.errors import SimulatorError
from memplace_env.machine.costs import Roofline
from memplace_env.placement.compiler import all_backing, native_plan, place_levels
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan, evaluate_plans, time_plan, traffic_bound_ps
from memplace_env.testing import check_simulator
from memplace_env.testing.instances import plans_of
from memplace_leaderboard.black_box import BlackBox
from tests.strategies import tasks
from tests.thorough import examples

RESNET = {"workload": "ResNet50", "batch": 2, "dtype": "float16"}


@pytest.fixture(scope="module")
def resnet():
    return resolve_task(**RESNET)


def in_box(task, box):
    return replace(task, simulator=box)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_it_keeps_to_the_contract_of_simulators(noise):
    check_simulator(BlackBox(3, noise))


@given(tasks(costs=st.just(Roofline())), st.integers(0, 2**64))
@examples(30)
def test_the_additive_part_is_a_lower_bound(task, seed):
    box = BlackBox(seed)
    additive = box.additive_task(task)
    for plan in plans_of(task, count=2):
        report = evaluate_plan(in_box(task, box), plan)
        assert traffic_bound_ps(additive) <= time_plan(additive, plan).latency_ps <= report.latency_ps
        assert report.latency_ps == report.op_time_ps.sum() + report.stall_ps.sum() + report.tail_ps


def test_seeds_are_machines(resnet):
    plan = native_plan(resnet)
    said = [evaluate_plan(in_box(resnet, BlackBox(seed)), plan).latency_ps for seed in (0, 0, 1)]
    assert said[0] == said[1] != said[2]
    assert said[0] != time_plan(resnet, plan).latency_ps


def test_factors_belong_to_types_and_levels_and_to_no_program(resnet):
    box, other = BlackBox(5), resolve_task("ResNet101", dtype="float16")
    factors = []
    for task in (resnet, other):
        nominal, real = task.costs.use_ps, box.additive_task(task).costs.use_ps
        large = nominal.min(axis=1) > 10**6
        conv = np.array([task.program.op_type[op] == "Conv" for op in task.program.use_op]) & large
        factors.append((real[conv] / nominal[conv]).mean(axis=0))
        assert (real[conv] / nominal[conv]).std(axis=0).max() < 1e-6
    assert factors[0] == pytest.approx(factors[1], rel=1e-6)
    assert len(set(factors[0].round(4))) == len(factors[0])


def test_another_process_measures_the_same(resnet):
    code = f"""
from dataclasses import replace
from memplace_env.placement.compiler import native_plan
from memplace_leaderboard.black_box import BlackBox
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
task = resolve_task(**{RESNET!r})
for noise in (0.0, 0.05):
    print(evaluate_plan(replace(task, simulator=BlackBox(7, noise, 3)), native_plan(task)).latency_ps)
"""
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    here = [
        evaluate_plan(in_box(resnet, BlackBox(7, noise, 3)), native_plan(resnet)).latency_ps for noise in (0.0, 0.05)
    ]
    assert list(map(int, told.split())) == here


def test_neighbours_get_in_each_others_way(resnet):
    """Waits interact: what two tensors save is not the sum of what each of them saves: no cost arrays say this."""
    task, box = resnet, in_box(resnet, BlackBox())
    additive, program = box.simulator.additive_task(task), resnet.program

    def waits(*fast):
        mapping = np.full(program.num_tensors, task.backing)
        mapping[list(fast)] = 0
        plan = place_levels(task, mapping).plan
        return evaluate_plan(box, plan).latency_ps - time_plan(additive, plan).latency_ps

    moved = [tensor for tensor in range(program.num_tensors) if program.is_placeable[tensor]][:12]
    pairs = [(a, b) for a in moved for b in moved if a < b]
    assert any(waits(a, b) - waits(a) - waits(b) + waits() != 0 for a, b in pairs)


def test_noise_is_as_large_as_asked(resnet):
    box = BlackBox(noise=0.05, noise_seed=1)
    plans = [native_plan(resnet)] * 2000
    true = evaluate_plan(in_box(resnet, box.exact()), plans[0]).latency_ps
    share = np.array([report.latency_ps for report in evaluate_plans(in_box(resnet, box), plans)]) / true
    assert share.mean() == pytest.approx(1, abs=0.005)
    assert share.std() == pytest.approx(0.05, rel=0.1)
    assert box.measured == 2000


def test_noise_is_drawn_in_the_order_of_measurements(resnet):
    plans = [native_plan(resnet), all_backing(resnet)] * 3
    one, many = BlackBox(noise=0.02), BlackBox(noise=0.02)
    alone = [evaluate_plan(in_box(resnet, one), plan).latency_ps for plan in plans]
    assert alone == [report.latency_ps for report in evaluate_plans(in_box(resnet, many), plans)]
    copy = pickle.loads(pickle.dumps(one))
    assert (
        evaluate_plan(in_box(resnet, copy), plans[0]).latency_ps
        == evaluate_plan(in_box(resnet, one), plans[0]).latency_ps
    )
    assert len(pickle.dumps(one)) < 2000


def test_a_noisy_report_tells_no_more_than_latency_and_energy(resnet):
    report = evaluate_plan(in_box(resnet, BlackBox(noise=0.02)), native_plan(resnet))
    told = [report.op_time_ps, report.compute_ps, report.port_ps, report.stall_ps]
    assert not any(array.any() for array in told)
    assert (report.tail_ps, report.traffic_bound_ps) == (0, 1)


def test_nominal_costs_are_a_hint_and_no_more(resnet):
    rng, task = np.random.default_rng(0), resnet
    maps = rng.integers(0, task.accelerator.num_levels, size=(100, task.program.num_tensors))
    plans = [place_levels(task, mapping).plan for mapping in maps]
    nominal = [report.latency_ps for report in evaluate_plans(task, plans)]
    real = [report.latency_ps for report in evaluate_plans(in_box(task, BlackBox()), plans)]
    assert 0 < spearmanr(nominal, real).statistic < 0.999


def test_what_makes_no_sense_is_refused():
    with pytest.raises(SimulatorError, match=r"from 0 to 1, not -0.1\.$"):
        BlackBox(noise=-0.1)
    with pytest.raises(SimulatorError, match=r"at least 0 and finite, not -1\.$"):
        BlackBox(delay_s=-1)

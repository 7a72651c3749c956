"""The checks of third parties' cost models and simulators: what keeps its contract passes, each fault is named."""

import random
import threading
from dataclasses import replace

import numpy as np
import pytest

from memplace_env._lib.errors import CostError, SimulatorError, WorkloadError
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.costs import Roofline
from memplace_env.placement.simulator import BuiltinSimulator
from memplace_env.placement.synthetic import random_dag
from memplace_env.testing import RandomCosts, check_cost_model, check_simulator
from tests.by_hand import machine, three_ops
from tests.entry_points import install
from tests.offenders import every

INT8 = load_accelerator("nnp-i")


class Model:
    """The roofline, changed by a function."""

    def __init__(self, change):
        self.change, self.asked = change, 0

    def costs(self, program, accelerator):
        self.asked += 1
        return self.change(self, Roofline().costs(program, accelerator))


def derated(model, costs):
    return costs._replace(use_ps=costs.use_ps * 5 // 4)


@pytest.mark.parametrize("model", [Roofline(), RandomCosts(1), RandomCosts(2), "roofline", Model(derated)])
def test_good_models_pass(model):
    check_cost_model(model)
    check_cost_model(model, program=three_ops())
    check_cost_model(model, accelerator=machine())
    check_cost_model(model, three_ops(), machine())


@every(
    ("change", "sentence"),
    [
        (lambda model, costs: costs._asdict(), "returned dict"),
        (lambda model, costs: costs._replace(use_ps=costs.use_ps.T), "use_ps must be int64"),
        (lambda model, costs: costs._replace(compute_ps=costs.compute_ps / 2), "compute_ps must be int64"),
        (lambda model, costs: costs._replace(copy_pj=-costs.copy_pj - 1), "copy_pj must be at least 0"),
        (lambda model, costs: costs._replace(use_ps=costs.use_ps * 0), "use_ps must be at least 1"),
        (
            lambda model, costs: costs._replace(reserved_bytes=costs.reserved_bytes + 1),
            "op 0 reserves 1 bytes of DRAM; at most 0",
        ),
        (
            lambda model, costs: costs._replace(latency_ps=costs.latency_ps + model.asked),
            r"other costs for .* the second time \(latency_ps\); the same program and chip must always",
        ),
        (
            lambda model, costs: costs._replace(overhead_ps=costs.overhead_ps + random.randrange(10**9)),
            "other costs for .* the second time",
        ),
    ],
)
def test_faulty_models_are_told_apart(change, sentence):
    with pytest.raises(CostError, match=f"Model.*{sentence}"):
        check_cost_model(Model(change))


def test_models_must_survive_pickling():
    class Locked(Model):
        def __init__(self):
            super().__init__(derated)
            self.lock = threading.Lock()

    with pytest.raises(CostError, match=r"Cost model Locked cannot be pickled .*; leave open files, locks"):
        check_cost_model(Locked())

    class Forgetful(Model):
        def __getstate__(self):
            return {"asked": 0, "change": lambda model, costs: costs}

    with pytest.raises(CostError, match=r"A pickled copy of cost model Forgetful gives other costs .*\(use_ps\)"):
        check_cost_model(Forgetful(derated))


def test_what_a_model_raises_stays_as_the_cause():
    def fail(model, costs):
        raise ZeroDivisionError("own mistake")

    with pytest.raises(CostError, match=r"^Cost model Model raised ZeroDivisionError: own mistake$") as caught:
        check_cost_model(Model(fail))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_parts_are_found_by_name(monkeypatch):
    install(monkeypatch, "memplace.cost_models", bad=Model(lambda model, costs: None))
    with pytest.raises(CostError, match="returned NoneType"):
        check_cost_model("bad")
    with pytest.raises(CostError, match="did you mean 'roofline'"):
        check_cost_model("roof-line")
    with pytest.raises(SimulatorError, match="there are builtin"):
        check_simulator("nothing")


def test_programs_for_which_no_chip_here_has_a_unit_need_one_of_theirs():
    program = random_dag(1, dtype="float32")
    with pytest.raises(WorkloadError, match="No chip here has a float32 unit; pass an accelerator"):
        check_simulator("builtin", program)
    rate, energy = {"float32": 10**9}, {"float32": 1.0}
    chip = machine(matrix_macs_per_s=rate, vector_ops_per_s=rate, mac_pj=energy, vector_pj=energy)
    check_simulator("builtin", program, chip)


class Simulator(BuiltinSimulator):
    """The built-in one, whose report a function changes."""

    def __init__(self, **changes):
        super().__init__()
        self.changes, self.runs = changes, 0

    def run(self, program, accelerator, plan):
        self.runs += 1
        report = super().run(program, accelerator, plan)
        return replace(report, **{field: change(getattr(report, field)) for field, change in self.changes.items()})


@pytest.mark.parametrize(
    "simulator",
    ["builtin", BuiltinSimulator(), BuiltinSimulator(RandomCosts(3)), Simulator(latency_ps=lambda value: 2 * value)],
)
def test_good_simulators_pass(simulator):
    check_simulator(simulator)
    check_simulator(simulator, three_ops(), machine())
    check_simulator(simulator, accelerator=machine(weights="resident"))


@every(
    ("field", "change", "sentence"),
    [
        ("latency_ps", float, "latency_ps must be an integer, not float; round it"),
        ("latency_ps", bool, "latency_ps must be an integer, not bool"),
        ("tail_ps", lambda value: value + 0.5, "tail_ps must be an integer"),
        ("latency_ps", lambda value: 0, "latency_ps is 0; it must be"),
        (
            "traffic_bound_ps",
            lambda value: 0,
            "traffic_bound_ps 0 must lie in 1..latency_ps.*1 if the bound is unknown",
        ),
        ("tail_ps", lambda value: -1, "tail_ps is -1"),
        (
            "op_time_ps",
            lambda value: value[:-1],
            r"op_time_ps must be integers of shape \(6,\), not int64 of shape \(5,\)",
        ),
        ("stall_ps", lambda value: value / 2, "stall_ps must be integers of shape .*, not float64"),
        ("port_ps", lambda value: value.T, "port_ps must be integers of shape"),
        ("peak_bytes", lambda value: -value, "peak_bytes holds -.*the least that it can hold is 0"),
        ("bound_by", lambda value: value * 0 + 7, "bound_by holds 7; levels are 0..2"),
        ("bytes_moved", lambda value: None, "bytes_moved must be integers"),
        ("energy_j", lambda value: float("nan"), "energy_j is nan"),
        ("energy_j", lambda value: -1.0, "energy_j is -1.0"),
        ("level_names", lambda value: value[::-1], "level_names is .*; they are"),
    ],
)
def test_faulty_reports_are_told_apart(field, change, sentence):
    with pytest.raises(SimulatorError, match=f"Simulator Simulator: {sentence}"):
        check_simulator(Simulator(**{field: change}))


def test_faulty_simulators_are_told_apart():
    class Silent:
        def run(self, program, accelerator, plan):
            return {"latency_s": 1.0}

    class Noisy(Simulator):
        def run(self, program, accelerator, plan):
            report = super().run(program, accelerator, plan)
            return replace(report, latency_ps=report.latency_ps + self.runs)

    class Greedy(Simulator):
        def run(self, program, accelerator, plan):
            report = super().run(program, accelerator, plan)
            plan.use_level[:] = 0
            return report

    class Forgetful(Noisy):
        def run(self, program, accelerator, plan):
            self.runs = getattr(self, "offset", 0) - 1
            return super().run(program, accelerator, plan)

        def __getstate__(self):
            return {"changes": {}, "model": None, "_last": None, "offset": 5}

    for simulator, sentence in (
        (Silent(), "Silent returned dict; it must return memplace_env.Report"),
        (Noisy(), r"Noisy gives a plan another report the second time \(latency_ps\); .* or pass noisy=True"),
        (Greedy(), "Greedy changes the plan that it runs; work on a copy"),
        (Forgetful(), r"A pickled copy of .*Forgetful gives another report \(latency_ps\)"),
        (Simulator(energy_j=(value for value in ())), "Simulator cannot be pickled"),
    ):
        with pytest.raises(SimulatorError, match=sentence):
            check_simulator(simulator)
    check_simulator(Noisy(), noisy=True)
    with pytest.raises(SimulatorError, match="needs run"):
        check_simulator(3)


def test_random_costs_are_arbitrary_and_repeatable():
    program, chip = random_dag(2, ops=30), INT8
    models = [RandomCosts(seed).costs(program, chip) for seed in range(60)]
    assert all(np.array_equal(a, b) for a, b in zip(models[7], RandomCosts(7).costs(program, chip), strict=True))
    assert {costs.serial for costs in models} == {True, False}
    reserved = [costs.reserved_bytes.max(axis=0) for costs in models]
    assert any((most[:-1] > 0).any() for most in reserved)
    assert any((most == 0).all() for most in reserved)
    assert (
        any(most[0] == chip.levels[0].capacity_bytes for most in reserved) or max(most[0] for most in reserved) > 10**6
    )
    assert any((np.diff(costs.use_ps, axis=1) < 0).any() for costs in models), "a slower level may be the faster one"
    assert repr(RandomCosts(5)) == "RandomCosts(5)"

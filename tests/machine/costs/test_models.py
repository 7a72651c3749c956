"""Cost models of third parties: anywhere a model may be named or passed, and one clear error for each mistake."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplace_env
from memplace_env._lib.errors import CostError, WorkloadError
from memplace_env.machine.costs import Costs, KnownCosts, Roofline, cost_model_names, costs_of, resolve_cost_model
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.testing import RandomCosts
from tests.by_hand import machine, three_ops
from tests.entry_points import install
from tests.offenders import every
from tests.strategies import programs
from tests.thorough import examples

PROGRAM, CHIP = three_ops(), machine()
GOOD = Roofline().costs(PROGRAM, CHIP)
TENSORS = 5


class Changed:
    """The roofline with some arrays replaced."""

    def __init__(self, **changes):
        self.changes = changes

    def costs(self, program, accelerator):
        return GOOD._replace(**self.changes)


class Silent:
    def costs(self, program, accelerator):
        return None


def with_entry(field, index, value):
    array = getattr(GOOD, field).copy()
    array[index] = value
    return {field: array}


@every(
    ("changes", "sentence"),
    [
        ({"compute_ps": np.zeros(2, int)}, r"compute_ps must be int64\[3\], not int64\[2\]"),
        ({"overhead_ps": 0}, r"overhead_ps must be int64\[3\], not int64\[\]"),
        ({"use_ps": np.ones((2, 7), int)}, r"use_ps must be int64\[7, 2\], not int64\[2, 7\]"),
        ({"latency_ps": np.zeros((1, 2), int)}, r"latency_ps must be int64\[2\]"),
        ({"prefetch_ps": np.zeros(5)}, r"prefetch_ps must be int64\[5\], not float64\[5\]"),
        ({"writeback_ps": np.zeros(5, bool)}, r"writeback_ps must be int64\[5\], not bool\[5\]"),
        ({"compute_pj": None}, r"compute_pj must be int64\[3\], not object\[\]"),
        ({"use_pj": np.zeros((7, 3), int)}, r"use_pj must be int64\[7, 2\], not int64\[7, 3\]"),
        ({"copy_pj": [["a", "b"]] * 5}, r"copy_pj must be int64\[5, 2\], not <U1\[5, 2\]"),
        ({"reserved_bytes": np.zeros((2, 3), int)}, r"reserved_bytes must be int64\[3, 2\], not int64\[2, 3\]"),
        (with_entry("use_ps", (4, 1), 0), "use_ps must be at least 1 everywhere; it holds 0"),
        (with_entry("compute_ps", 1, -1), "compute_ps must be at least 0 everywhere; it holds -1"),
        (with_entry("copy_pj", (2, 0), -9), "copy_pj must be at least 0 everywhere; it holds -9"),
        (with_entry("reserved_bytes", (1, 0), -1), "reserved_bytes must be at least 0"),
        (with_entry("reserved_bytes", (1, 0), 101), "op 1 reserves 101 bytes of fast; at most 100 can be"),
        (with_entry("reserved_bytes", (2, 1), 1), "op 2 reserves 1 bytes of slow; at most 0 can be"),
        (with_entry("use_pj", (0, 0), 2**60 + 1), r"use_pj must be at most 2\*\*60"),
        ({"compute_ps": np.full(3, 2**63 + 5, np.uint64)}, r"compute_ps must be at most 2\*\*60"),
    ],
)
def test_each_bad_array_is_named(changes, sentence):
    with pytest.raises(CostError, match=f"^Cost model Changed: {sentence}.*[.]$"):
        costs_of(Changed(**changes), PROGRAM, CHIP)
    with pytest.raises(CostError, match=sentence):
        gym.make("MallocGame-v0", workload=PROGRAM, accelerator=CHIP, costs=Changed(**changes))


def test_energies_are_counted_as_far_as_they_fit():
    dear = np.full((7, 2), 2**57)
    with pytest.raises(WorkloadError, match=r"takes over 1e\+06 J"):
        costs_of(Changed(use_pj=dear), PROGRAM, CHIP)
    level = replace(CHIP.levels[0], pj_per_byte=1e18)
    with pytest.raises(WorkloadError, match="more energy than the simulator counts"):
        make_task(PROGRAM, replace(CHIP, levels=(level, *CHIP.levels[1:])))


def test_every_array_is_checked():
    for field in Costs._fields:
        if field != "serial":
            with pytest.raises(CostError, match=field):
                costs_of(Changed(**{field: np.zeros((4, 4), int)}), PROGRAM, CHIP)


def test_what_is_no_cost_model_is_refused():
    with pytest.raises(CostError, match=r"Silent returned NoneType; it must return memplace_env\.Costs"):
        costs_of(Silent(), PROGRAM, CHIP)
    with pytest.raises(CostError, match=r"3 is not a cost model: it needs costs\(program, accelerator\)"):
        resolve_cost_model(3)
    with pytest.raises(CostError, match="did you mean 'roofline'"):
        gym.make("MemPlace-v0", workload="synthetic:chain", costs="rofline")


def test_endless_programs_are_refused():
    """No sum of times may leave int64, even if every single one is small enough."""
    costs_of(Changed(compute_ps=np.full(3, 2**58)), PROGRAM, CHIP)
    with pytest.raises(WorkloadError, match="takes over 320 hours"):
        costs_of(Changed(compute_ps=np.full(3, 2**59)), PROGRAM, CHIP)


def test_the_task_owns_its_arrays():
    """Whatever layout, dtype and flags the model's arrays have: kernels are compiled for one kind only."""
    frozen = np.asfortranarray(GOOD.use_ps)
    frozen.flags.writeable = False
    model = Changed(use_ps=frozen, compute_ps=GOOD.compute_ps.astype(np.uint8), latency_ps=[7, 9])
    costs = costs_of(model, PROGRAM, CHIP)
    for array in costs:
        if isinstance(array, np.ndarray):
            assert array.dtype == np.int64
            assert array.flags.c_contiguous
            assert array.flags.writeable
            assert array.flags.owndata
    assert costs.latency_ps.tolist() == [7, 9]


def test_known_costs_are_those_of_one_program():
    model = KnownCosts(GOOD, PROGRAM, CHIP)
    assert all(np.array_equal(a, b) for a, b in zip(costs_of(model, PROGRAM, CHIP), GOOD, strict=True))
    with pytest.raises(CostError, match="those of 'three' on 'plain', not of"):
        costs_of(model, three_ops(work=7), CHIP)


@pytest.mark.parametrize("family", ["MemPlace", "MallocGame"])
@examples(20)
@given(program=programs(6), seed=st.integers(0, 2**32))
def test_environments_run_on_any_costs(family, program, seed):
    """The environment takes `costs=`, with the latency of the task's own arrays."""
    env = gym.make(f"{family}-v0", workload=program, accelerator=CHIP, costs=RandomCosts(seed)).unwrapped
    env.reset(seed=0)
    env.action_space.seed(0)
    over = False
    while not over:
        *_, over, _, info = env.step(env.action_space.sample())
    assert info["latency_s"] == env.report().latency_s
    expected = make_task(program, CHIP, costs=RandomCosts(seed))
    assert evaluate_plan(expected, env.plan()).latency_ps == env.report().latency_ps


def test_installed_models_are_found_by_name(monkeypatch):
    install(monkeypatch, "memplace.cost_models", mine=Roofline, seeded=RandomCosts(4), broken=OSError("no table"))
    assert cost_model_names() == ("roofline", "tiled", "measured", "broken", "mine", "seeded")
    assert isinstance(resolve_cost_model("mine"), Roofline)
    env = gym.make("MemPlace-v0", workload=PROGRAM, accelerator=CHIP, costs="seeded").unwrapped
    plain = gym.make("MemPlace-v0", workload=PROGRAM, accelerator=CHIP, costs="roofline").unwrapped
    assert (env.task.settings["costs"], plain.task.settings["costs"]) == ("seeded", "roofline")
    assert env.report().latency_ps != plain.report().latency_ps
    with pytest.raises(CostError, match="there are roofline, tiled, measured, broken, mine, seeded"):
        resolve_cost_model("nothing")
    with pytest.raises(CostError, match=r"'broken' cannot be loaded \(no table\)"):
        resolve_cost_model("broken")


def test_the_chip_may_name_its_model(monkeypatch):
    install(monkeypatch, "memplace.cost_models", seeded=RandomCosts(4))
    own = make_task(PROGRAM, machine(cost_model="seeded"))
    assert np.array_equal(own.costs.use_ps, RandomCosts(4).costs(PROGRAM, CHIP).use_ps)
    assert np.array_equal(make_task(PROGRAM, machine(cost_model="seeded"), costs="roofline").costs.use_ps, GOOD.use_ps)


def test_public_functions_take_costs():
    costs = RandomCosts(11)
    task = make_task(PROGRAM, CHIP, costs=costs)
    plan = memplace_env.native(PROGRAM, CHIP, costs=costs)
    assert plan == native_plan(task)
    assert memplace_env.validate(PROGRAM, CHIP, plan, costs=costs) == []
    assert memplace_env.simulate(PROGRAM, CHIP, plan, costs=costs).latency_ps == evaluate_plan(task, plan).latency_ps
    compiled, _ = memplace_env.compile_levels(PROGRAM, CHIP, [0] * TENSORS, costs=costs)
    assert memplace_env.validate(PROGRAM, CHIP, compiled, costs=costs) == []

"""The comparison of simulated and measured plans, on a fake device whose times follow the cost model."""

from functools import partial

import pytest

from benchmarks.experiments import device as script
from benchmarks.ledger import Ledger
from memplace_agents.learning.training import one_thread
from memplace_env.backends.cuda.bench import Bench
from memplace_env.backends.ort.plan_steps import RunOp
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.validation import violations
from tests.backends.cuda.fake_device import FakeDevice
from tests.backends.ort.models import convolutional, task_of


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return task_of(convolutional(tmp_path_factory.mktemp("models") / "small.onnx"))


def test_plans_are_many_different_and_valid(task):
    plans = list(script.sample(task, 40))
    assert [plan.to_json() for plan in plans] == [plan.to_json() for plan in script.sample(task, 40)]
    assert all(violations(task, plan) == [] for plan in plans)
    assert len({plan.to_json() for plan in plans}) > 20
    assert {len(plan.transfers) > 0 for plan in plans} == {False, True}


def recorded(step) -> float:
    """Each step takes a time of its own; nothing like the cost model."""
    return 1e-6 * (step.op + 1 if isinstance(step, RunOp) else 0.3 + step.row)


@pytest.fixture(scope="module")
def measured(task, tmp_path_factory):
    """Records of twelve plans and both searches, and the device that they were made on."""
    results = tmp_path_factory.mktemp("results")
    ledger = Ledger(results / "plans.jsonl", script.KEY)
    device = FakeDevice(recorded)
    quick = partial(script.searched, seconds=60, measurements=20, runs=2)
    timed = script.timed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "RESULTS", results)
        patch.setattr(script, "resolve_task", lambda network, chip: task)
        patch.setattr(script, "searched", quick)
        patch.setattr(script, "timed", lambda bench, plan, runs=2: timed(bench, plan, 2))
        script.measure("small", "chip", device, ledger, plans=12)
        recordings = device.recordings
        again = script.measure("small", "chip", device, ledger, plans=12)
    assert device.recordings == recordings, "what is known is not measured again"
    assert again == ledger.records
    return again


def test_records_are_what_model_and_clock_say(task, measured):
    assert [record["plan"] for record in measured] == [*range(12), script.RULE, script.MODEL, script.CLOCK]
    bench = Bench(task, FakeDevice(recorded))
    for plan, record in zip(script.sample(task, 12), measured, strict=False):
        assert record["simulated_s"] == evaluate_plan(task, plan).latency_s
        assert record["measured_s"] == pytest.approx(bench.measure(plan, runs=1).inference_s[0], abs=1e-12)
        assert record["spread"] == pytest.approx(0, abs=1e-9)
    best = {record["plan"]: record for record in measured}
    assert best[script.MODEL]["simulated_s"] <= min(record["simulated_s"] for record in measured)
    assert best[script.CLOCK]["measured_s"] <= best[0]["measured_s"], "it starts from native's plan"

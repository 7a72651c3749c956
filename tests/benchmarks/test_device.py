"""The comparison of simulated and measured plans, on a fake device whose times follow the cost model."""

import pytest

from benchmarks.experiments import device as script
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


def recorded(step) -> float:
    """Each step takes a time of its own; nothing like the cost model."""
    return 1e-6 * (step.op + 1 if isinstance(step, RunOp) else 0.3 + step.row)


@pytest.fixture(scope="module")
def measured(task):
    """Records of twelve plans and all searches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "resolve_task", lambda network, chip, **settings: task)
        patch.setattr(script, "device", lambda: FakeDevice(recorded))
        patch.setattr(script, "MEASUREMENTS", 20)
        patch.setattr(script, "SECONDS", 5.0)
        yield [script.measure({"network": "small", "plan": plan}) for plan in (*range(12), *script.SEARCHES)]
        script.bench_of.cache_clear()


def test_plans_are_many_different_and_valid(task):
    plans = [script.plan_of(task, None, number) for number in range(40)]
    assert [plan.to_json() for plan in plans[:9]] == [script.plan_of(task, None, n).to_json() for n in range(9)]
    assert all(violations(task, plan) == [] for plan in plans)
    assert len({plan.to_json() for plan in plans}) > 20
    assert {len(plan.transfers) > 0 for plan in plans} == {False, True}


def test_records_are_what_model_and_clock_say(task, measured):
    bench = Bench(task, FakeDevice(recorded))
    for number, record in enumerate(measured[:12]):
        plan = script.plan_of(task, None, number)
        assert record["simulated_s"] == evaluate_plan(task, plan).latency_s
        assert record["measured_s"] == pytest.approx(bench.measure(plan, runs=1).inference_s[0], abs=1e-12)
        assert record["spread"] == pytest.approx(0, abs=1e-9)
    best = {record["plan"]: record for record in measured}
    assert best[script.MODEL]["simulated_s"] <= min(record["simulated_s"] for record in measured)
    assert best[script.CLOCK]["measured_s"] <= best[0]["measured_s"], "it starts from native's plan"

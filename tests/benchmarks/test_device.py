"""The comparison of simulated and measured plans, on a fake device whose times follow the cost model."""

import gc
import json
import weakref
from functools import partial

import pytest

from benchmarks.experiments import device as script
from benchmarks.ledger import Ledger
from memplace_agents.learning.training import one_thread
from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.cuda import simulator
from memplace_env.backends.cuda.bench import Bench
from memplace_env.backends.ort.plan_steps import RunOp
from memplace_env.placement.compiler import native_plan
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


def test_the_device_has_one_network_at_a_time(task, tmp_path, monkeypatch):
    """The bench of the last one is gone before the next, even if it is in a cycle, as those of environments are."""
    alive = []

    class Watched(Bench):
        def __init__(self, *asked, **options):
            assert not any(bench() for bench in alive)
            alive.append(weakref.ref(self))
            self.cycle = self
            super().__init__(*asked, **options)

    monkeypatch.setattr(simulator, "Bench", Watched)
    monkeypatch.setattr(script, "resolve_task", lambda network, chip: task)
    monkeypatch.setattr(script, "searched", lambda *of: iter(()))
    ledger = Ledger(tmp_path / "plans.jsonl", script.KEY)
    gc.disable()  # it could come by chance
    try:
        for network in ("one", "other"):
            script.measure(network, "chip", FakeDevice(recorded), ledger, plans=1)
    finally:
        gc.enable()
    assert len(alive) == 2


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


def test_the_table_has_a_row_for_each_network(measured):
    other = [{**record, "network": "other", "measured_s": 2 * record["simulated_s"]} for record in measured]
    rows = script.table([*measured, *other]).splitlines()
    assert len(rows) == 4
    name, plans, captured, correlation, ratio = [cell.strip() for cell in rows[3].split("|")[1:6]]
    assert (name, plans, captured, ratio) == ("other", "12", "12", "0.50")
    assert correlation == "1.000 / 1.000 / 1.000"


def test_the_picture_is_one(measured):
    assert script.picture(measured).startswith(b"\x89PNG")


@pytest.fixture
def results(tmp_path, monkeypatch):
    """An empty folder of results, on a machine without a GPU."""

    def none():
        raise ExecutionError("there is no GPU")

    monkeypatch.setattr("memplace_env.backends.cuda.cuda.open_cuda", none)
    monkeypatch.setattr(script, "RESULTS", tmp_path)
    return tmp_path


def test_without_a_gpu_nothing_is_claimed(results):
    assert script.measured(script.NETWORKS) == ([], script.NOT_MEASURED)


def test_without_a_gpu_the_model_s_plans_are_searched_for_and_old_records_shown(task, measured, results, monkeypatch):
    solved = []
    monkeypatch.setattr(script, "resolve_task", lambda network, chip: task)
    monkeypatch.setattr(script, "solved", lambda task, *of: solved.append(of) or native_plan(task))
    (results / "cuda.toml").touch()
    (results / "plans.jsonl").write_text("".join(json.dumps(record) + "\n" for record in measured[:12]))
    assert script.measured(["small"]) == ([], script.NOT_MEASURED), "too few for a row"
    (results / "plans.jsonl").write_text("".join(json.dumps(record) + "\n" for record in measured[12:-1]))
    records, text = script.measured(["small", "another"])
    assert records == measured[:-1]
    assert text.splitlines()[-1].startswith("| small | 12 |")
    assert text.splitlines()[-1].endswith("| – |"), "the search by the clock is missing"
    assert len(solved) == 1, "a plan is kept"
    assert script.best_by_model(task) == native_plan(task)

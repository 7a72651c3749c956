"""The Task: made once from whatever a user passes, derived from once, not kept alive by its caches."""

import gc
import json
import pickle
import weakref
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import memplace_env
from memplace_env._lib.errors import AcceleratorError, MemPlaceError, WorkloadError
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.costs import Costs
from memplace_env.placement.compiler import all_backing, all_backing_report, native_plan, native_report
from memplace_env.placement.compiler.placing_order import schedule_of
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.simulator import BuiltinSimulator, evaluate_plan, traffic_bound_ps
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.task import Task, derived
from memplace_env.program.model_file import read_bytes
from memplace_env.program.program import Program
from memplace_env.program.zoo import zoo_path
from memplace_env.testing import RandomCosts
from tests.by_hand import machine, three_op_task, three_ops
from tests.program.test_alias import X, update

GAME = "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"
ONE_SHOT = "synthetic:chain?ops=8&seed=4"


def test_derived_is_computed_once_for_each_task_and_arguments():
    calls = []

    @derived
    def price(task: Task, unit: int = 1, *, tax: int = 0) -> int:
        """Costs of the task."""
        calls.append((task, unit, tax))
        return unit * task.program.num_ops + tax

    one, other = three_op_task(), three_op_task()
    assert price.__doc__ == "Costs of the task."
    for _ in range(3):
        assert (price(one), price(one, 2), price(one, 2, tax=1), price(other, 2)) == (3, 6, 7, 6)
    assert calls == [(one, 1, 0), (one, 2, 0), (one, 2, 1), (other, 2, 0)]


def test_derived_functions_of_one_name_do_not_meet():
    def derived_with(value):
        def number(task):
            return value

        number.__module__ = f"module_{value}"
        return derived(number)

    task = three_op_task()
    assert (derived_with(1)(task), derived_with(2)(task)) == (1, 2)


def test_derived_values_may_be_none_and_errors_are_not_kept():
    calls = []

    @derived
    def nothing(task: Task) -> None:
        calls.append(task)

    @derived
    def fails(task: Task) -> None:
        calls.append(task)
        raise ValueError("no")

    task = three_op_task()
    assert (nothing(task), nothing(task), len(calls)) == (None, None, 1)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            fails(task)
    assert len(calls) == 3


@pytest.mark.parametrize(
    "make",
    [native_plan, native_report, all_backing, all_backing_report, lambda task: schedule_of(task, "all-weights-first")],
)
def test_what_the_package_derives_is_the_same_object(make):
    task = three_op_task()
    assert make(task) is make(task)
    assert make(task) is not make(three_op_task())


def test_replace_starts_afresh():
    task = three_op_task()
    dear = replace(task, costs=task.costs._replace(compute_ps=task.costs.compute_ps * 2))
    assert (traffic_bound_ps(task), traffic_bound_ps(dear)) == (150_000, 300_000)
    assert native_report(dear).latency_ps > native_report(task).latency_ps
    assert traffic_bound_ps(task) == 150_000


def test_tasks_are_frozen_and_compare_by_identity():
    task = three_op_task()
    with pytest.raises(FrozenInstanceError):
        task.costs = None
    assert task != three_op_task()
    assert len({task, three_op_task(), task}) == 2


@pytest.mark.parametrize("simulator", [None, BuiltinSimulator("roofline")])
def test_a_pickled_task_is_the_same_task_with_nothing_derived(simulator):
    task = make_task(random_dag(3), machine(), costs=RandomCosts(1), simulator=simulator)
    expected = native_report(task)
    data = pickle.dumps(task)
    copy = pickle.loads(data)
    assert copy._derived == {}
    assert len(data) == len(pickle.dumps(replace(task))), "nothing derived is pickled"
    assert (copy.program.sha256, copy.accelerator, copy.settings) == (
        task.program.sha256,
        task.accelerator,
        task.settings,
    )
    assert all(np.array_equal(getattr(copy.costs, field), getattr(task.costs, field)) for field in Costs._fields)
    assert copy.is_black_box == task.is_black_box
    assert native_plan(copy) == native_plan(task)
    assert native_report(copy).latency_ps == expected.latency_ps
    assert all(not getattr(copy.program, name).flags.writeable for name in ("use_ptr", "use_op", "tensor_bytes"))


def test_a_task_says_what_it_is():
    task = make_task(three_ops(), load_accelerator("nnp-i"))
    assert (task.backing, task.streams_weights, task.is_black_box) == (2, False, False)
    assert make_task(three_ops(), machine()).streams_weights


def test_plans_of_environments_carry_settings():
    env = gym.make("MemPlace-v0", workload="AlexNet", batch=2, dtype="int8", costs="roofline").unwrapped
    settings = {"batch": 2, "dims": None, "dtype": "int8", "fusion": "epilogue", "patterns": "on"}
    settings |= {"workload": "AlexNet", "accelerator": "nnp-i", "costs": "roofline"}
    assert env.plan().settings == settings == json.loads(env.plan().to_json())["settings"]
    env.step(env.action_space.sample())
    assert env.plan().settings == settings
    game = gym.make("MallocGame-v0", workload=GAME).unwrapped
    game.reset()
    game.step(2)
    assert game.plan().settings == {"workload": GAME, "accelerator": "tpu-v4i", "costs": "roofline"}
    passed = {key: value for key, value in settings.items() if value is not None}
    again = gym.make("MemPlace-v0", **passed).unwrapped
    assert evaluate_plan(again.task, env.plan()).latency_ps == env.report().latency_ps


def test_paths_and_numpy_numbers_are_settings_too(tmp_path):
    model = tmp_path / "mine.onnx"
    model.write_bytes(read_bytes(zoo_path("AlexNet"), ".onnx"))
    chip = Path(memplace_env.__file__).parent / "machine" / "accelerator" / "presets" / "tpu-v4i.toml"
    task = resolve_task(model, chip, batch=np.int64(2))
    assert task.settings["workload"] == str(model)
    assert task.settings["accelerator"] == str(chip)
    assert json.loads(native_plan(task).to_json())["settings"]["batch"] == 2
    dims = {"sequence": np.int64(32)}
    bert = resolve_task("BERT", dims=dims, batch=1)
    assert json.loads(native_plan(bert).to_json())["settings"]["dims"] == {"sequence": 32}


def test_a_task_passes_through_and_takes_no_settings():
    task = three_op_task()
    assert resolve_task(task) is task
    assert gym.make("MallocGame-v0", workload=task).unwrapped.task is task
    with pytest.raises(WorkloadError, match="costs and batch cannot apply"):
        resolve_task(task, costs="roofline", batch=3)


@pytest.mark.parametrize("workload", [3, None, ["BERT"]])
def test_what_is_no_workload_is_refused_in_one_sentence(workload):
    with pytest.raises(MemPlaceError, match="A workload is a name, a path or a Program"):
        resolve_task(workload)


@pytest.mark.parametrize(("env_id", "workload"), [("MemPlace-v0", ONE_SHOT), ("MallocGame-v0", GAME)])
@pytest.mark.parametrize("vector", [False, True])
def test_nothing_keeps_a_program_alive(env_id, workload, vector):
    """No table of the module's own remembers what an environment was made of, once the environment is gone."""
    env = gym.make_vec(env_id, num_envs=2, workload=workload) if vector else gym.make(env_id, workload=workload)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    bare = env.unwrapped.env if vector else env.unwrapped
    bare.plan(), bare.report(), bare.simulator.run(bare.program, bare.accelerator, bare.plan())
    memplace_env.simulate(bare.program, bare.accelerator, bare.plan())
    kept = [weakref.ref(part) for part in (bare.program, bare.task, bare.problem)]
    assert all(isinstance(part(), kind) for part, kind in zip(kept, (Program, Task, object), strict=True))
    env.close()
    del env, bare
    gc.collect()
    assert [part() for part in kept] == [None] * 3


def test_weights_kept_in_place_are_not_updated():
    """The new ones would go to the backing memory, and the next run read the old ones."""
    fixed = machine(weights="resident")
    message = f"'update' updates its weights, which '{fixed.name}' keeps in place .* use '{fixed.name}-streamed' or"
    for resolved in (update(), replace(make_task(update(), machine()), accelerator=fixed)):
        with pytest.raises(AcceleratorError, match=message):
            resolve_task(resolved, fixed if isinstance(resolved, Program) else "nnp-i")
    assert resolve_task(update(), fixed.streamed()).streams_weights
    assert not make_task(update(alias_of=-1), fixed).streams_weights
    assert not make_task(update(alias_of=X, size=10), fixed).streams_weights, "an input's place may be taken"


def test_updates_on_a_shipped_chip_name_its_streamed_copy():
    with pytest.raises(AcceleratorError, match="use 'edge-tpu-streamed'"):
        resolve_task(update(), "edge-tpu")
    report = native_report(resolve_task(update(), "edge-tpu-streamed"))
    assert report.latency_s > 0

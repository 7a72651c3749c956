"""The checks of the campaigns beside hostile input notice what they are for: load, long use, plans and games."""

import copy
import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.synthetic import random_dag
from tests.envs import both_sides
from tests.fuzz import game_proofs, load, memory, plan_mutants, tables


@pytest.fixture(scope="module")
def task():
    return make_task(random_dag(1, ops=5, dtype="int8", largest=400), "nnp-i")


# Threads, forks and other processes.


@pytest.fixture
def vectors(monkeypatch):
    """No environments are made: `play` is a stand-in."""
    monkeypatch.setattr(load, "make_many", lambda *_: None)


def test_other_answers_in_threads(vectors, monkeypatch):
    monkeypatch.setattr(load, "play", lambda *_: threading.current_thread().name)
    assert not load.run("8 threads", "MemPlace-v0", 0)["equal"]


@pytest.mark.parametrize("in_a_fork", ["another", "hang"])
def test_other_answers_in_forks(in_a_fork, vectors, monkeypatch):
    parent = os.getpid()

    def play(*_):
        if os.getpid() != parent and in_a_fork == "hang":
            time.sleep(60)
        return "same" if in_a_fork == "hang" else os.getpid()

    monkeypatch.setattr(load, "play", play)
    monkeypatch.setattr(load, "WAIT_S", 0.1 if in_a_fork == "hang" else 60.0)
    assert not load.run("forks beside threads", "MemPlace-v0", 0)["equal"]


def test_other_answers_of_copies(monkeypatch):
    def moved(core):
        twin = copy.deepcopy(core)
        twin.step(twin.action_space.sample() * 0)
        return twin

    monkeypatch.setattr(load, "copy", SimpleNamespace(deepcopy=moved))
    assert not load.run("copies", "MallocGame-v0", 0)["equal"]


def test_other_answers_of_subprocesses(monkeypatch):
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")

    class Apart(vec_env.DummyVecEnv):
        def step_wait(self):
            seen, rewards, *rest = super().step_wait()
            return seen, rewards + 0.001, *rest

    monkeypatch.setattr(load, "STEPS", 1)
    monkeypatch.setattr(vec_env, "SubprocVecEnv", vec_env.DummyVecEnv)
    assert load.run("SubprocVecEnv", "MemPlace-v0", 0)["equal"]
    monkeypatch.setattr(vec_env, "SubprocVecEnv", Apart)
    assert not load.run("SubprocVecEnv", "MemPlace-v0", 0)["equal"]


def test_a_kill_that_goes_unseen(monkeypatch):
    class Unmoved:
        def __init__(self, *_, **__):
            self.processes = [SimpleNamespace(pid=0, join=lambda: None)] * 3
            self.action_space = SimpleNamespace(sample=lambda: 0)

        def __getattr__(self, name):
            return lambda *_, **__: None

    monkeypatch.setattr(load, "AsyncVectorEnv", Unmoved)
    monkeypatch.setattr(load, "os", SimpleNamespace(kill=lambda *_: None))
    assert not load.run("a worker killed", "MemPlace-v0", 0)["equal"]


@pytest.mark.parametrize(
    "other",
    [
        ({"a": np.zeros(2), "b": [1]}, 0.5, True),
        ({"a": np.zeros(2, np.float32), "b": [1]}, 0.5, False),
        ({"a": np.array([0, 1e-300]), "b": [1]}, 0.5, False),
        ({"a": np.zeros((2, 1)), "b": [1]}, 0.5, False),
        ({"c": np.zeros(2), "b": [1]}, 0.5, False),
        ({"a": np.zeros(2), "b": [2]}, 0.5, False),
        ({"a": np.zeros(2), "b": [1]}, np.nextafter(0.5, 1), False),
    ],
)
def test_any_other_bit_is_another_answer(other):
    digests = []
    for value in (({"a": np.zeros(2), "b": [1]}, 0.5, False), other):
        digests.append(load.hashlib.sha256())
        load._add(digests[-1], value)
    assert digests[0].digest() != digests[1].digest()


# Long use, corrupted plans, proofs of games, and the tables.


def test_a_use_that_fails_ends_the_campaign_of_memory(tmp_path, monkeypatch, capsys):
    failed = SimpleNamespace(returncode=1, stderr="KeyError", stdout="")
    monkeypatch.setattr(memory, "subprocess", SimpleNamespace(run=lambda *_, **__: failed))
    monkeypatch.setattr("sys.argv", ["memory", "--log", str(tmp_path / "log")])
    assert memory.main() == 1
    assert "KeyError" in capsys.readouterr().err


@pytest.mark.parametrize(("outputs", "right"), [({}, True), ({}, False), ({"y": 0}, False), ({"y": 1}, False)])
def test_wrong_results_of_plans_are_counted(outputs, right):
    run = SimpleNamespace(wrong_outputs=outputs, right=right)
    executor = SimpleNamespace(run=lambda *_, **__: run)
    plan = SimpleNamespace(transfers=[1])
    valid = plan_mutants.executed_valid(executor, plan, 0)
    mutant = plan_mutants.executed_mutant(executor, plan)
    assert valid["results"] == mutant["results"] == (not right)
    assert valid["outputs"] == mutant["outputs"] == bool(outputs)
    assert (mutant["first"], mutant["second"]) == (outputs == {"y": 0}, bool(outputs))
    assert plan_mutants.is_finding({"kind": "valid", "plans": 1, "results": int(valid["results"])}) == (not right)
    assert plan_mutants.is_finding({"kind": "moved", "plans": 1, "results": int(mutant["results"])}) == right


def test_corrupted_plans_are_such_as_the_validator_refuses(task, monkeypatch):
    executor, rng = SimpleNamespace(task=task), np.random.default_rng(0)
    plan = native_plan(task)
    assert any(plan_mutants.corrupted(executor, plan, kind, rng) for kind in plan_mutants.KINDS)
    monkeypatch.setattr(plan_mutants, "violations", lambda *_: [])
    assert not any(plan_mutants.corrupted(executor, plan, kind, rng) for kind in plan_mutants.KINDS)


@pytest.mark.parametrize("broken", ["play", "preview"])
def test_rules_of_the_game_that_differ_are_seen(broken, monkeypatch):
    monkeypatch.setattr(game_proofs, "UNIT", 1)
    setting = {"part": "random games", "number": 1}
    assert "failure" not in game_proofs.unit(setting)
    rule = getattr(both_sides.rules, broken)
    other = (lambda *state: rule(*state) + 1) if broken == "play" else (lambda *state: (7, *rule(*state)[1:]))
    monkeypatch.setattr(both_sides, "rules", SimpleNamespace(**vars(both_sides.rules) | {broken: other}))
    assert "AssertionError" in game_proofs.unit(setting)["failure"]


def test_a_game_below_the_proven_optimum_is_seen(monkeypatch):
    monkeypatch.setattr(game_proofs, "TINY_UNIT", 1)
    assert game_proofs.tiny_programs(0, lambda task: 1)["optimum known"] == 1
    with pytest.raises(AssertionError, match="the proven optimum"):
        game_proofs.tiny_programs(0, lambda task: 10**15)


def test_tables_show_what_went_wrong():
    ended = {"agent": "egrl", "happened": [{"way": "no room"}], "codes": [2], "rounds": [1]}
    assert "| egrl | no room | 2 | 2 | 2 | 1 |" in tables.kills([ended | {"same": True}, ended | {"same": False}])
    cut = {"command": "leaderboard", "interrupts": [["SIGINT", 0.1, 130], ["SIGTERM", 0.1, -15]], "wrong": "-15"}
    searched = {"command": "solve", "agent": "exact", "signal": "SIGINT", "code": 130, "wrong": "hangs"}
    assert "| leaderboard | SIGTERM | 1 | 1 | 1 |" in tables.interrupts([cut])
    assert "| solve | SIGINT | 1 | 1 | 1 |" in tables.interrupts([searched])
    grown = {"kind": "game", "steps": 10, "warm_mib": 1.0, "end_mib": 50.0, "flat": False}
    assert "| game | 10 | 1.0 | 50.0 | NO |" in tables.memory([grown])
    assert "| copies | 2 | 1 |" in tables.load([{"kind": "copies", "equal": equal} for equal in (True, False)])

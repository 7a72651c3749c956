"""The clock of the exact agent: work that no other program slows down, or the seconds of a time limit."""

import threading

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents import Exact
from memplace_agents.exact import clock as clocks
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic import dynamic_search
from memplace_agents.exact.dynamic.dynamic_search import Search
from memplace_agents.exact.highs import MipResult
from memplace_agents.exact.proving_search import Claim
from memplace_agents.exact.static import static_search
from memplace_agents.exact.static.static_search import StaticSearch
from memplace_agents.exact.static.static_solve import Best
from memplace_agents.search.evaluator import GameEvaluator, OneShotEvaluator
from memplace_env._lib.errors import AgentError
from memplace_env.envs.malloc_game import MallocGameEnv

GAME = MallocGameEnv("synthetic:chain?ops=4&seed=1", "edge-tpu")
AMOUNTS = st.floats(0.01, 100)


def hard():
    return MallocGameEnv("synthetic:random?ops=60&seed=3", "edge-tpu")


def test_work_ends_a_search_at_the_same_plan_on_a_busy_machine(monkeypatch):
    monkeypatch.setattr(clocks, "GUARD", 1e6)
    ended = threading.Event()

    def spin():
        while not ended.is_set():
            pass

    quiet = Exact(work=0.5).solve(hard())
    thread = threading.Thread(target=spin)
    thread.start()
    try:
        busy = Exact(work=0.5).solve(hard())
    finally:
        ended.set()
        thread.join()
    assert quiet.outcome == "feasible", "nothing is shown by a search that ends by itself"
    assert (busy.plan.to_json(), busy.bound_s) == (quiet.plan.to_json(), quiet.bound_s)
    assert busy.seconds > quiet.seconds


def test_a_slow_machine_ends_with_a_warning(monkeypatch, caplog):
    monkeypatch.setattr(clocks, "GUARD", 1e-3)
    monkeypatch.setattr(clocks, "LEAST_GUARD", 0.5)
    solution = Exact(work=500.0).solve(hard())
    assert solution.outcome == "feasible"
    assert solution.seconds < 50
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert "with work left" in caplog.text


@given(AMOUNTS, AMOUNTS, st.floats(0, 1), st.lists(AMOUNTS, max_size=5))
def test_parts_end_with_the_whole(work, wanted, share, spent):
    clock = Clock.of(GameEvaluator(GAME, budget=1), work)
    part = clock.part(wanted, share)
    assert part.left == pytest.approx(min(wanted, share * work))
    for amount in spent:
        part.spend(amount)
    assert clock.left == pytest.approx(max(work - sum(spent), 0))
    assert part.left == pytest.approx(max(min(wanted, share * work) - sum(spent), 0))
    assert part.up == (part.left == 0)
    assert part.work_left == part.left


def test_a_time_limit_is_kept_whatever_the_work():
    clock = Clock.of(GameEvaluator(GAME, budget=1, time_limit=50), 1.0, kept=10)
    clock.spend(1000.0)
    assert 30 < clock.left <= 40
    assert clock.work_left == float("inf")
    assert clock.seconds_left == pytest.approx(clock.left, abs=1)


def test_no_limit_is_no_limit():
    clock = Clock.of(GameEvaluator(GAME, budget=1))
    clock.spend(1000.0)
    assert clock.left == clock.seconds_left == float("inf")
    assert clock.part(5.0).left == 5.0


@pytest.mark.parametrize("work", [0, -1, float("nan")])
def test_work_is_more_than_0(work):
    with pytest.raises(AgentError, match=r"work=.* is out of range"):
        Exact(work=work)


def test_an_interrupt_before_the_first_solution_ends_the_search(monkeypatch):
    monkeypatch.setattr(static_search, "solve_model", lambda *_: Best(None, Claim(), True))
    env = gym.make("MemPlace-v0", workload="synthetic:random?ops=20&seed=3", accelerator="nnp-i").unwrapped
    with pytest.raises(KeyboardInterrupt):
        StaticSearch(OneShotEvaluator(env, budget=100), 1e-9).run()
    monkeypatch.setattr(dynamic_search, "solve", lambda *_, **__: MipResult(None, 0.0, True))
    clock = Clock.of(GameEvaluator(GAME, budget=1))
    with pytest.raises(KeyboardInterrupt):
        Search(GAME.task, lambda plan: 0, clock, lambda bound: None).branch_and_bound(0.0, clock)

"""The check of third parties' agents: what keeps its contract passes, each fault is named."""

import itertools
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest

from memplace_env._lib.errors import AgentError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.testing import agents, check_agent
from tests.offenders import every


class Progress(NamedTuple):
    evaluations: int
    seconds: float
    latency_s: float


@dataclass
class Solution:
    plan: Any
    report: Any
    history: Any
    evaluations: Any
    seconds: Any
    seed: Any


class Random:
    """Random plans of either formulation, one after the other; what is wrong with it is overwritten below."""

    name = "mine"

    def solve(self, env, *, budget=100, seed=0, callback=None, time_limit=None):
        begin, rng, self.calls = time.perf_counter(), self.generator(seed), callback
        best, history, count = None, [], 0
        for count in range(1, budget + 1):
            plan = self.plan(env.unwrapped, rng)
            report = evaluate_plan(env.unwrapped.task, plan)
            if best is None or report.latency_ps < best[1].latency_ps:
                best = plan, report
                history.append(Progress(count, time.perf_counter() - begin, report.latency_s))
            self.tell(callback, Progress(count, time.perf_counter() - begin, history[-1].latency_s))
            if self.is_late(begin, time_limit):
                break
        return self.answer(Solution(*best, tuple(history), count, time.perf_counter() - begin, seed))

    def generator(self, seed):
        return np.random.default_rng(seed)

    def plan(self, env, rng):
        problem = env.problem
        if isinstance(env, MallocGameEnv):
            states = problem.new_states(1)
            problem.finish_randomly(states, int(rng.integers(2**31)))
            return problem.plan(states[0])
        return problem.compile(rng.integers(0, env.accelerator.num_levels, problem.num_decisions)).plan

    def tell(self, callback, progress):
        if callback:
            callback(progress)

    def is_late(self, begin, time_limit):
        return time_limit is not None and time.perf_counter() - begin > time_limit

    def answer(self, solution):
        return solution


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(agents, "GRACE_S", 1.0)


def check(agent, **options):
    check_agent(agent, **{"budget": 12, "time_limit": 0.05, **options})


def test_a_good_agent_passes():
    check(Random())
    env = gym.make("MemPlace-v0", workload="synthetic:chain?ops=5")
    check(Random(), env=env, seed=3)


def test_an_agent_may_play_one_formulation_only():
    class OneShotOnly(Random):
        def solve(self, env, **options):
            if isinstance(env.unwrapped, MallocGameEnv):
                raise AgentError("this agent plays MemPlace.")
            return super().solve(env, **options)

    class Nothing(Random):
        def solve(self, env, **options):
            raise AgentError("this agent is on holiday.")

    check(OneShotOnly())
    with pytest.raises(AgentError, match="'mine' plays none of these environments: this agent is on holiday"):
        check(Nothing())
    with pytest.raises(AgentError, match="plays none"):
        check(OneShotOnly(), env=gym.make("MallocGame-v0", workload=agents.ENVS[1][1]["workload"]))


def test_what_is_no_agent_is_refused():
    class Nameless:
        def solve(self, env):
            pass

    class Lazy:
        name = "lazy"

    with pytest.raises(AgentError, match="has no name; give it an attribute `name`"):
        check_agent(Nameless())
    with pytest.raises(AgentError, match=r"'lazy' has no solve\(env"):
        check_agent(Lazy())


def test_what_an_agent_raises_passes_through():
    class Broken(Random):
        def plan(self, env, rng):
            raise ZeroDivisionError("own mistake")

    with pytest.raises(ZeroDivisionError, match="own mistake"):
        check(Broken())


def altered(**changes):
    """An agent whose solutions a function changes, field by field."""

    class Altered(Random):
        def answer(self, solution):
            return replace(solution, **{field: change(getattr(solution, field)) for field, change in changes.items()})

    return Altered()


def overlapping(plan):
    return replace(plan, allocations=plan.allocations * [1, 1, 0, 1, 1] + [0, 0, 2**40, 0, 0])


@every(
    ("agent", "sentence"),
    [
        (altered(plan=lambda plan: None), r"found no plan within 12 evaluations \(None\)"),
        (altered(plan=overlapping), "returned a plan that cannot run: the block of .* past its capacity"),
        (altered(report=lambda report: replace(report, latency_ps=1)), "reports 1 ps for a plan that takes"),
        (altered(report=lambda report: None), "reports None ps for a plan that takes"),
        (altered(seed=lambda seed: seed + 1), r"returned seed 1 after solve\(seed=0\)"),
        (altered(seconds=lambda seconds: "long"), "returned 'long' seconds"),
        (altered(seconds=lambda seconds: -1.0), "returned -1.0 seconds"),
        (altered(evaluations=lambda count: None), "returned None evaluations"),
        (altered(evaluations=lambda count: count + 1), "evaluated 13 plans with a budget of 12; count every plan"),
        (altered(evaluations=lambda count: 0), "has a history that ends after 0 evaluations"),
        (altered(history=lambda history: ()), "returned an empty history"),
        (altered(history=lambda history: history * 2), "has a history that does not improve from"),
        (
            altered(history=lambda history: (*history[:-1], history[-1]._replace(latency_s=1e-30))),
            "has a history that ends at 1e-30 s, unlike its plan",
        ),
    ],
)
def test_false_solutions_are_told_apart(agent, sentence):
    with pytest.raises(AgentError, match=f"Agent 'mine' {sentence}"):
        check(agent)


def test_agents_without_a_budget_say_so():
    agent = altered(evaluations=lambda count: count + 1)
    agent.budgeted = False
    check(agent)


def test_faulty_searches_are_told_apart():
    class Global(Random):
        def generator(self, seed):
            return np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002

    class Moody(Random):
        moods = itertools.count()

        def generator(self, seed):
            return np.random.default_rng(next(self.moods))

    class Silent(Random):
        def tell(self, callback, progress):
            pass

    class Boaster(Random):
        def tell(self, callback, progress):
            super().tell(callback, progress._replace(evaluations=progress.evaluations + 100))

    class Stubborn(Random):
        def tell(self, callback, progress):
            with suppress(Exception):
                super().tell(callback, progress)

    class Endless(Random):
        def is_late(self, begin, time_limit):
            return False

    class Late(Random):
        def solve(self, env, *, time_limit, **options):
            solution = super().solve(env, time_limit=time_limit, **options)
            time.sleep(0 if time_limit is None else 1.5)
            return solution

    for agent, sentence in (
        (Global(), "found another plan with the same seed; draw from a generator made from `seed` only"),
        (Moody(), "found another plan with the same seed"),
        (Silent(), "never called its callback"),
        (Boaster(), "passed its callback .* evaluations, and evaluated 12"),
        (Stubborn(), "went on after an exception from its callback"),
        (Endless(), r"went on with time_limit=0.05; check the clock"),
        (Late(), r"took \d+\.\d s with time_limit=0.05"),
    ):
        with pytest.raises(AgentError, match=sentence):
            check(agent)


def test_global_generators_are_left_as_they_were():
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    check(Random())
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002

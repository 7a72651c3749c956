"""Evaluators: what parts of parts evaluate counts in the whole at once, and nobody has more than the whole has."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplace_agents
from memplace_agents import GameEvaluator, OneShotEvaluator
from memplace_agents.auto import Portfolio
from memplace_agents.rule_agents import GreedyPlayer, XlaMsa
from memplace_agents.search.agent import Agent
from memplace_agents.search.stages import Stage
from memplace_env._lib.compilation import begin_preparation, end_preparation
from memplace_env._lib.errors import AgentError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.registration import Formulation
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.validation import violations
from tests.agents.planted import planted_env
from tests.offenders import every
from tests.thorough import examples

ONE_SHOT = planted_env(ops=6)
GAME = MallocGameEnv(random_dag(3, ops=6, largest=60_000_000), "tpu-v4i")
SHARES = st.sampled_from([0.01, 0.3, 0.5, 1.0])
KINDS = st.sampled_from([(OneShotEvaluator, ONE_SHOT), (GameEvaluator, GAME)])


@dataclass
class Node:
    """An evaluator and its expected state: plans counted, the best latency, its improvements, the progress reported."""

    evaluator: OneShotEvaluator | GameEvaluator
    whole: Node | None = None
    count: int = 0
    best: float = float("inf")
    history: list = field(default_factory=list)
    reported: list = field(default_factory=list)
    expected: list = field(default_factory=list)

    def note(self, progress):
        self.reported.append((progress.evaluations, progress.latency_s))

    def account(self, count, latency):
        self.count += count
        if latency < self.best:
            self.best = latency
            self.history.append((self.count, latency))
        self.expected.append((self.count, self.best))
        if self.whole:
            self.whole.account(count, latency)

    def spend(self, count):
        self.count += count
        if self.whole:
            self.whole.spend(count)

    def check(self):
        solution = self.evaluator.solution("test", 0)
        assert self.evaluator.evaluations == solution.evaluations == self.count
        assert [(p.evaluations, p.latency_s) for p in solution.history] == self.history
        assert self.reported == self.expected
        assert self.evaluator.remaining >= 0
        if self.whole:
            assert self.evaluator.remaining <= self.whole.evaluator.remaining
        assert (solution.plan is None) == (solution.latency_s is None) == (self.best == float("inf"))
        if solution.plan is not None:
            assert solution.report.latency_s == self.best


def evaluate(node, how, rng):
    """One round of evaluations, in one of the ways that there are."""
    evaluator, env = node.evaluator, node.evaluator.env
    if how == "spend":
        evaluator.spend(3)
        node.spend(3)
    elif how == "offer":
        plan = place_levels(env.task, rng.integers(0, env.accelerator.num_levels, env.program.num_tensors)).plan
        node.account(1, evaluator.offer(plan).latency_s)
    elif isinstance(evaluator, OneShotEvaluator):
        left, maps = evaluator.remaining, rng.integers(0, 3, (5, env.problem.num_decisions))
        latency = evaluator(maps).latency_s
        assert len(latency) == min(left, 5)
        if left:
            node.account(len(latency), latency.min().item())
    else:
        states = env.problem.new_states(3)
        env.problem.finish_randomly(states, int(rng.integers(1000)))
        evaluator.offer_states(states, games=how)
        node.account(3 if how is None else how, env.problem.latency_s(states).min().item())


@examples(150)
@given(KINDS, st.integers(1, 60), st.integers(0, 2**32), st.data())
def test_a_tree_of_parts_adds_up(kind, budget, seed, data):
    """Whatever is evaluated wherever, every evaluator above it counts, remembers and tells it, and no other does."""
    evaluator_class, env = kind
    rng = np.random.default_rng(seed)
    root = Node(evaluator_class(env, budget=budget, callback=lambda progress: root.note(progress)))
    nodes = [root]
    for _ in range(data.draw(st.integers(1, 12))):
        node = nodes[data.draw(st.integers(0, len(nodes) - 1))]
        how = data.draw(st.sampled_from(["part", "offer", None, 7, "spend"]))
        if how == "part":
            share, left = data.draw(SHARES), node.evaluator.remaining
            part = Node(node.evaluator.part(share), whole=node)
            part.evaluator.add_callback(part.note)
            assert part.evaluator.budget == max(int(share * left), 1)
            assert part.evaluator.remaining == min(part.evaluator.budget, left)
            assert type(part.evaluator) is evaluator_class
            nodes.append(part)
        else:
            evaluate(node, how, rng)
        for each in nodes:
            each.check()


def test_a_part_may_prove_what_does_not_hold_for_the_whole():
    """The callback is called all the same, so that it can end the search."""
    reported = []
    whole = OneShotEvaluator(ONE_SHOT, budget=9, callback=reported.append)
    whole.offer(whole.env.problem.native_plan)
    whole.part(1.0, proves=False).prove(2.0)
    whole.part(1.0).prove(1.0)
    assert [progress.bound_s for progress in reported] == [None, None, 1.0]


def test_a_part_begins_with_nothing():
    whole = OneShotEvaluator(ONE_SHOT, budget=100)
    whole(np.zeros((5, ONE_SHOT.problem.num_decisions), dtype=int))
    part = whole.part(0.5)
    assert (part.evaluations, part.budget, part.best_speedup) == (0, 47, 0.0)
    solution = part.solution("test", 0)
    assert (solution.plan, solution.outcome, solution.history) == (None, "unknown", ())
    assert part.env is whole.env


def test_time_is_shared_like_the_budget():
    whole = GameEvaluator(GAME, budget=1000, time_limit=4000.0)
    assert GameEvaluator(GAME, budget=1000).part(0.5).seconds_left is None
    half = whole.part(0.5)
    tenth = half.part(0.2)
    for evaluator, expected in ((whole, 4000), (half, 2000), (tenth, 400)):
        assert expected - 100 < evaluator.seconds_left <= expected
    assert tenth.budget == 100


def test_the_clock_stands_still_while_kernels_are_compiled() -> None:
    """Compiling is in neither the seconds nor the time limit of a search."""
    evaluator = GameEvaluator(GAME, budget=1000, time_limit=0.5)
    begin_preparation(compiling=False)
    time.sleep(0.6)
    assert evaluator.remaining == 1000
    end_preparation(compiling=False)
    assert evaluator.seconds < 0.5
    assert evaluator.seconds_left is not None
    assert evaluator.seconds_left > 0
    time.sleep(0.5)
    assert (evaluator.remaining, evaluator.seconds_left, evaluator.fraction_left) == (0, 0.0, 0.0)


def test_plans_are_as_many_as_time_allows_at_the_pace_so_far():
    evaluator = GameEvaluator(GAME, budget=1000, time_limit=100.0)
    assert evaluator.planned == 1000
    states = GAME.problem.new_states(5)
    GAME.problem.finish_randomly(states, 0)
    evaluator.offer_states(states)
    evaluator._begin -= 10  # as if that had taken ten seconds
    assert evaluator.planned in range(20, 51)
    for _ in range(3):  # later plans take no time, so that the first ones do not count any more
        evaluator.offer_states(states)
    assert evaluator.planned > 100
    evaluator._time_limit = 10_000.0
    assert evaluator.planned == 1000
    assert GameEvaluator(GAME, budget=7).planned == 7


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_when_the_time_of_the_whole_is_up_so_is_that_of_every_part(share):
    whole = GameEvaluator(GAME, budget=1000, time_limit=0.05)
    before, part = whole.part(share), whole.part(share).part(1.0)
    time.sleep(0.06)
    for evaluator in (whole, before, part, whole.part(share), part.part(share)):
        assert (evaluator.remaining, evaluator.seconds_left) == (0, 0.0)


def test_no_games_may_be_offered():
    """An agent may do so: `remaining` may become 0 between two looks at it."""
    evaluator = GameEvaluator(GAME, budget=10)
    assert evaluator.offer_states(GAME.problem.new_states(0)).shape == (0,)
    assert evaluator.evaluations == 0


def test_a_part_of_what_is_spent_has_nothing_left():
    whole = OneShotEvaluator(ONE_SHOT, budget=4)
    first, second = whole.part(1.0), whole.part(1.0)
    first(np.zeros((9, ONE_SHOT.problem.num_decisions), dtype=int))
    assert [evaluator.remaining for evaluator in (whole, first, second, whole.part(0.5), second.part(0.5))] == [0] * 5
    assert len(second(np.zeros((2, ONE_SHOT.problem.num_decisions), dtype=int)).reward) == 0
    whole.spend(7)
    assert whole.remaining == 0
    assert whole.evaluations == 11


def test_who_listens_later_is_told_first():
    reported = []
    evaluator = GameEvaluator(GAME, budget=10, callback=lambda progress: reported.append("callback"))
    evaluator.add_callback(lambda progress: reported.append("listener"))
    part = evaluator.part(1.0)
    part.add_callback(lambda progress: reported.append("part's"))
    part.offer_states(finished_states(1))
    assert reported == ["listener", "callback", "part's"]


def finished_states(count, seed=0):
    states = GAME.problem.new_states(count)
    GAME.problem.finish_randomly(states, seed)
    return states


def test_what_is_saved_is_what_is_restored():
    evaluator = GameEvaluator(GAME, budget=100)
    evaluator.offer_states(finished_states(5))
    evaluator.spend(3)
    other = GameEvaluator(GAME, budget=100)
    other.load_state_dict(evaluator.state_dict())
    one, two = (each.solution("test", 0) for each in (evaluator, other))
    assert (one.plan, one.evaluations, one.history) == (two.plan, two.evaluations, two.history)
    assert other.state_dict().keys() == evaluator.state_dict().keys()
    assert abs(other.seconds - evaluator.seconds) < 1


def test_a_finished_search_that_is_asked_for_less_has_nothing_left():
    evaluator = GameEvaluator(GAME, budget=100)
    evaluator.offer_states(finished_states(5))
    other = GameEvaluator(GAME, budget=2)
    other.load_state_dict(evaluator.state_dict())
    assert (other.evaluations, other.remaining) == (5, 0)


@every(
    ("options", "message"),
    [
        ({"budget": 0}, "budget must be at least 1 evaluation, not 0"),
        ({"budget": np.arange(1, 4)}, "budget must be at least 1 evaluation, not an array of shape"),
        ({"budget": "9"}, "budget must be at least 1 evaluation, not '9'"),
        ({"budget": 1, "workers": [2] * 3000}, "workers must be at least 1, not a list of 3,000 items"),
        ({"budget": 1, "time_limit": np.ones(2)}, "time limit must be more than 0 s, not an array of shape"),
        ({"budget": 1, "time_limit": 0.0}, "time limit must be more than 0 s, not 0.0"),
        ({"budget": 1, "time_limit": float("nan")}, "time limit must be more than 0 s, not nan"),
    ],
)
def test_nothing_to_do_is_an_error(options, message):
    for evaluator_class, env in ((OneShotEvaluator, ONE_SHOT), (GameEvaluator, GAME)):
        with pytest.raises(AgentError, match=message):
            evaluator_class(env, **options)


def test_the_other_kind_of_environment_is_refused():
    with pytest.raises(AgentError, match="MallocGame-Train-v0 draws its programs"):
        GreedyPlayer().solve("MallocGame-Train-v0")
    with pytest.raises(AgentError, match="not a one-shot environment"):
        OneShotEvaluator(GAME, budget=1)
    with pytest.raises(AgentError, match="not an environment of mallocGame"):
        GameEvaluator(ONE_SHOT, budget=1)


# In the portfolio.


class Interrupted(Agent):
    """Offers games one by one, worse and worse ones."""

    name = "interrupted"
    formulations = (Formulation.GAME,)

    def run(self, evaluator, seed):
        states = finished_states(20)
        for state in states[GAME.problem.latency_s(states).argsort()]:
            evaluator.offer_states(state[None])


@pytest.mark.parametrize("after", [1, 2, 3, 9])
@pytest.mark.parametrize("nested", [False, True])
def test_an_interrupt_in_a_part_keeps_the_best_plan(after, nested):
    reports = []

    def stop(progress):
        reports.append(progress)
        if progress.evaluations == after:
            raise KeyboardInterrupt

    stages = [Stage(Interrupted(), 0.5), Stage(GreedyPlayer(), 1.0)]
    portfolio = Portfolio(stages=[Stage(Portfolio(stages=stages), 1.0)] if nested else stages)
    solution = portfolio.solve(GAME, budget=1000, callback=stop)
    best = GAME.problem.latency_s(finished_states(20)).min()
    assert solution.report.latency_s == best == reports[-1].latency_s
    assert violations(GAME.task, solution.plan) == []
    assert [progress.evaluations for progress in reports[:after]] == list(range(1, after + 1))
    assert solution.evaluations == after


def test_an_interrupt_before_the_first_plan_is_told_of_keeps_that_plan_too():
    def stop(progress):
        raise KeyboardInterrupt

    solution = Portfolio().solve(GAME, budget=1000, callback=stop)
    assert solution.evaluations == 1
    assert solution.plan == XlaMsa().solve(GAME).plan


def test_a_search_in_a_portfolio_is_that_search():
    """Both have the whole budget and the same seed."""
    for agent in (memplace_agents.GameLocalSearch(), memplace_agents.CrossEntropy()):
        alone = agent.solve(GAME, budget=300, seed=5)
        inside = Portfolio(stages=[Stage(agent, 1.0)], tie_break="none").solve(GAME, budget=300, seed=5)
        assert (alone.plan, alone.evaluations) == (inside.plan, inside.evaluations)
        assert [(p.evaluations, p.latency_s) for p in alone.history] == [
            (p.evaluations, p.latency_s) for p in inside.history
        ]
        assert evaluate_plan(GAME.task, inside.plan).latency_ps == inside.report.latency_ps

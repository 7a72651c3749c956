"""EGRL's refinement: its moves, the best assignment it keeps, and going on from its state."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.egrl.refine import Refiner
from memplace_agents.egrl.surrogate import Surrogate
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.synthetic import random_dag
from tests.agents.planted import planted_env
from tests.thorough import examples

SEEDS = st.integers(0, 2**32 - 1)


class Watched(OneShotEvaluator):
    """Evaluator that remembers the assignments it evaluated."""

    def __init__(self, env, budget):
        super().__init__(env, budget=budget)
        self.evaluated = []

    def __call__(self, assignments):
        self.evaluated += assignments.tolist()
        return super().__call__(assignments)


def begun(env, proposals):
    """An evaluator, and a refiner that starts from native's assignment."""
    evaluator = Watched(env, budget=proposals + 1)
    refiner = refining(evaluator, proposals)
    start = env.problem.native_assignment
    result = evaluator(start[None])
    refiner.offer(start, result.latency_s[0].item(), result.level[0])
    return evaluator, refiner


def refining(evaluator, proposals):
    """A refiner."""
    return Refiner(evaluator, Surrogate(evaluator.env.problem, learns=False), proposals, moves=20)


@examples(15)
@given(st.integers(0, 1000), SEEDS, st.sampled_from([5, 40]))
def test_refinement_moves_only_where_there_is_a_choice_and_keeps_the_best(seed, draw, proposals):
    env = OneShotEnv(random_dag(seed, ops=8, largest=60_000_000), "nnp-i")
    evaluator, refiner = begun(env, proposals)
    fixed = env.problem.mask.sum(axis=1) == 1
    if not refiner.can_move:
        assert fixed.all()
        return
    rng = np.random.default_rng(draw)
    for _ in range(proposals):
        refiner.step(rng)
    evaluated = np.array(evaluator.evaluated)
    assert len(evaluated) == evaluator.evaluations == proposals + 1
    assert env.problem.check(evaluated, (len(evaluated),)).max() <= env.accelerator.backing
    native, backing = env.problem.native_assignment, env.accelerator.backing
    # Native may ask for a level that the tensor does not fit into.
    assert ((evaluated == native) | (evaluated == backing))[:, fixed].all()
    latency = env.score(evaluated)[1].latency_s
    assert env.score(refiner.best[None])[1].latency_s[0] == latency.min()


def test_what_is_offered_is_kept_only_if_better():
    env = planted_env()
    evaluator, refiner = begun(env, 50)
    native = refiner.best.copy()
    worse = np.full(env.problem.num_decisions, env.accelerator.backing)
    result = evaluator(worse[None])
    refiner.offer(worse, result.latency_s[0].item(), result.level[0])
    assert (refiner.best == native).all()
    refiner.offer(worse, 0.0, result.level[0])
    worse[:] = 0
    assert (refiner.best == env.accelerator.backing).all()


@pytest.mark.parametrize("at", [0, 7, 33, 49])
@pytest.mark.parametrize("ops", [6, 20])
def test_refiners_go_on_from_their_state(at, ops):
    env, runs = planted_env(ops=ops), []
    for interrupted in (False, True):
        evaluator, refiner = begun(env, 50)
        rng = np.random.default_rng(3)
        for step in range(50):
            if interrupted and step == at:
                other = refining(evaluator, 50)
                other.load_state_dict(refiner.state_dict())
                refiner = other
            refiner.step(rng)
        runs.append((evaluator.evaluated, refiner.best.tolist()))
    assert runs[0] == runs[1]

"""A second opinion by SCIP: no where a plan is optimal, yes with a faster plan where it is not."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from memplace_agents import Exact, ExactDynamic
from memplace_agents.exact import scip
from memplace_agents.exact.highs import LinearProgram
from memplace_agents.exact.second_opinion import Audit
from memplace_env._lib.errors import AgentError, PlanError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.placement.compiler import all_backing
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import evaluate_plan
from tests.agents.test_exact import UNPACKABLE, UNPACKABLE_HEIGHT, chip_with, program_of
from tests.agents.test_proofs import CANARIES, false_game

pytest.importorskip("pyscipopt")

RANDOM = "synthetic:random?ops=12&seed={}"
KINDS = {
    "map": (OneShotEnv, (RANDOM.format(3), "nnp-i"), {}, Formulation.ONE_SHOT),
    "streamed map": (OneShotEnv, (RANDOM.format(3), "ethos-u85-2048"), {}, Formulation.ONE_SHOT),
    "sliced map": (OneShotEnv, ("SqueezeNet", "nnp-i"), {"slices": 0.1}, Formulation.ONE_SHOT),
    "moving": (OneShotEnv, ("synthetic:random?ops=9&seed=1", "tpu-v4i"), {}, Formulation.DYNAMIC),
    "game": (MallocGameEnv, (RANDOM.format(3), "edge-tpu"), {}, Formulation.GAME),
}


@pytest.fixture(params=KINDS)
def optimal(request):
    """An environment, an optimal plan for it, and the formulation."""
    make, problem, settings, formulation = KINDS[request.param]
    env = make(*problem, **settings)
    assert (env.task.program.slices is not None) == bool(settings)
    solution = (ExactDynamic() if formulation is Formulation.DYNAMIC else Exact()).solve(env)
    assert solution.outcome == "optimal"
    return env, solution.plan, formulation


def test_an_optimal_plan_is_confirmed_and_a_slower_one_is_not(optimal):
    env, plan, formulation = optimal
    confirmed = Audit(env, plan, formulation).opinion()
    best_ps = evaluate_plan(env.task, plan).latency_ps
    assert (confirmed.answer, confirmed.plan, confirmed.faster_ps) == ("no", None, None)
    assert confirmed.latency_ps == best_ps
    assert confirmed.rounds >= 1
    slow = all_backing(env.task)
    for asked, gap in ((slow, 1e-4), (plan, -1e-3)):  # a plan that is no optimum, and a cutoff above the optimum
        opinion = Audit(env, asked, formulation, gap=gap).opinion()
        assert opinion.answer == "yes"
        assert opinion.faster_ps == evaluate_plan(env.task, opinion.plan).latency_ps
        assert best_ps / (1 + 1e-4) <= opinion.faster_ps <= opinion.latency_ps / (1 + gap)


@pytest.mark.parametrize("cutoff_ps", [1_247_607, 1_240_003, 1_228_930, 1_228_900])
def test_the_game_that_was_proven_falsely(cutoff_ps):
    plan = Exact().solve(false_game()).plan
    opinion = Audit(false_game(), plan, Formulation.GAME, gap=1_228_929 / cutoff_ps - 1).opinion()
    assert (opinion.answer, opinion.faster_ps) == (
        ("no", None) if cutoff_ps < 1_228_929 else ("yes", opinion.faster_ps)
    )
    assert opinion.faster_ps is None or 1_228_929 <= opinion.faster_ps <= cutoff_ps


@pytest.mark.parametrize(
    ("env_id", "formulation"),
    [("MemPlace-AlexNet-v0", Formulation.ONE_SHOT), ("MallocGame-NeRF-intel-npu-4000-v0", Formulation.GAME)],
)
def test_registered_ids(env_id, formulation):
    opinion = Audit(env_id, Exact(tie_break="none").solve(env_id).plan, formulation).opinion()
    assert opinion.answer == "no"
    assert opinion.seconds < 20


def test_levels_without_addresses_are_cut_off():
    env = OneShotEnv(make_task(program_of(UNPACKABLE), chip_with(UNPACKABLE_HEIGHT * 1000)))
    opinion = Audit(env, Exact().solve(env).plan, Formulation.ONE_SHOT).opinion()
    assert opinion.answer == "no"
    assert opinion.rounds > 1


@pytest.mark.parametrize(("cost", "row", "least", "whole", "optimum"), CANARIES)
def test_the_solver_answers_with_solutions_below_the_cutoff(cost, row, least, whole, optimum):
    n = len(cost)
    sides = np.array([least], float), np.array([np.inf])
    whole = np.isin(np.arange(n), whole)
    program = LinearProgram(
        np.array(cost, float), np.zeros(n), np.full(n, 10.0), whole, sp.csr_array(np.array([row], float)), *sides, 7.0
    )
    found = scip.find_below(program, optimum + 7.001, 10.0)
    assert program.holds(found.values)
    assert program.cost @ found.values <= optimum + 0.001
    assert not found.infeasible
    assert scip.find_below(program, optimum + 6.999, 10.0)[:2] == (None, True)
    assert scip.find_below(program, optimum + 6.999, 0.0)[:2] == (None, False)


def test_without_time_it_is_open():
    env = OneShotEnv(*KINDS["map"][1])
    opinion = Audit(env, all_backing(env.task), Formulation.ONE_SHOT, seconds=1e-9).opinion()
    assert (opinion.answer, opinion.plan) == ("open", None)


def test_what_cannot_be_asked(monkeypatch):
    env, other = OneShotEnv(*KINDS["map"][1]), OneShotEnv(RANDOM.format(4), "nnp-i")
    plan = all_backing(env.task)
    with pytest.raises(AgentError, match="cost arrays"):
        Audit(OneShotEnv(*KINDS["map"][1], simulator="event"), plan, Formulation.ONE_SHOT)
    with pytest.raises(AgentError, match="mallocGame"):
        Audit(env, plan, Formulation.GAME)
    with pytest.raises(PlanError):
        Audit(other, plan, Formulation.ONE_SHOT)
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    with pytest.raises(AgentError, match=r'pip install "memplace\[audit\]"'):
        Audit(env, plan, Formulation.ONE_SHOT)

"""Proofs hold: what solvers get wrong, bounds above plans, and the question after each proof."""

import logging
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from memplace_agents import Exact, ExactDynamic
from memplace_agents.exact import highs
from memplace_agents.exact.dynamic import dynamic_search
from memplace_agents.exact.highs import LinearProgram, MipResult, find_below, solve, solver_name
from memplace_agents.exact.static import static_solve
from memplace_agents.optimality import Proof, is_optimal, surviving_bound
from memplace_agents.rule_agents import BestRule
from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_agents.search.stages import Stage, run_stages
from memplace_agents.solution import Verdict
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.machine.costs import Costs
from memplace_env.placement.compiler import all_backing
from memplace_env.placement.resolve_task import make_task
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from tests.agents.test_exact import chip_with

CANARIES = [  # cost, row, right side, whole columns, optimum; HiGHS 1.14.0 calls another solution optimal
    ([2, 3], [1, 1], 4.5, [1], 9),
    ([1, 5, 1], [1, -1, 2], 5, [0], 2.5),
    ([3, 1, 5], [-3, 1, 1], 4.5, [2], 4.5),
    ([2, 2, 3, 1], [-3, 3, 2, 3], 1.5, [1], 0.5),
]
MAP, GAME = ("synthetic:random?ops=12&seed=3", "nnp-i"), ("SqueezeNet", "edge-tpu")


@pytest.mark.parametrize("presolve", ["choose", "off"])
def test_the_solver_finds_the_optimum_that_releases_before_1_16_miss(presolve):
    solver = highs.QuietHighs()
    solver.setOptionValue("presolve", presolve)
    solver.readModel(str(Path(__file__).parent / "solver" / "highs_wrong.mps"))
    solver.run()
    assert solver.getInfo().objective_function_value == pytest.approx(8953.912736)
    assert solver.getInfo().mip_dual_bound <= 8953.9128


@pytest.mark.parametrize(("cost", "row", "least", "whole", "optimum"), CANARIES)
def test_the_solver_finds_the_optimum_of_two_to_four_columns(cost, row, least, whole, optimum):
    columns = len(cost)
    program = LinearProgram(
        np.array(cost, float),
        np.zeros(columns),
        np.full(columns, 10.0),
        np.isin(np.arange(columns), whole),
        sp.csr_array(np.array([row], float)),
        np.array([least], float),
        np.array([np.inf]),
    )
    answer = solve(program)
    assert float(program.cost @ answer.values) == pytest.approx(optimum)
    assert answer.bound <= optimum
    assert find_below(program, optimum * 1.001) is True
    assert find_below(program, optimum * 0.999) is False


class DrawnCosts:
    """Costs of each use as they were drawn, for `false_game`."""

    use_ps = (
        *((23580, 39757), (8439, 20749), (30502, 81423), (21526, 41556), (47348, 78820), (6501, 85104)),
        *((34616, 72758), (45690, 74540), (27012, 95915), (32270, 48078), (11283, 52511), (14024, 41605)),
    )

    def costs(self, program, accelerator):
        assert list(zip(program.use_op.tolist(), program.use_tensor.tolist(), strict=True)) == [
            *((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (1, 3), (2, 2), (2, 3), (2, 4), (2, 5), (3, 5), (3, 6))
        ]
        ops, uses, tensors = program.num_ops, program.num_uses, program.num_tensors
        return Costs(
            compute_ps=np.array([0, 739577, 146739, 199708]),
            overhead_ps=np.zeros(ops, np.int64),
            use_ps=np.array(self.use_ps),
            latency_ps=np.array([98757, 0]),
            serial=False,
            prefetch_ps=np.array([0, 1898593, 2406406, 202378, 0, 3114882, 6176905]),
            writeback_ps=np.array([63622, 62275, 3030, 94704, 56000, 87015, 78623]),
            compute_pj=np.zeros(ops, np.int64),
            use_pj=np.zeros((uses, 2), np.int64),
            copy_pj=np.zeros((tensors, 2), np.int64),
            reserved_bytes=np.zeros((ops, 2), np.int64),
        )


def false_game():
    """Return a game of four ops, of which HiGHS 1.12 to 1.15.1 prove 1,247,607 ps; the optimum is 1,228,929."""
    builder = ProgramBuilder("false-optimum", "int8")
    kinds = map(TensorKind, (1, 0, 2, 2, 0, 3, 3))
    sizes = (137, 269, 22, 36, 2, 251, 93)
    t = [builder.tensor(f"t{at}", size, kind) for at, (size, kind) in enumerate(zip(sizes, kinds, strict=True))]
    for reads, writes in (([0, 1], 2), ([0, 2], 3), ([2, 3, 4], 5), ([5], 6)):
        builder.op("Op", [t[at] for at in reads], [t[writes]], gemm=(0, 0, 0, 0), vector_ops=1)
    return MallocGameEnv(
        make_task(builder.build(), chip_with(96, ports="parallel", weights="streamed"), costs=DrawnCosts())
    )


@pytest.mark.parametrize("tie_break", ["backing", "none"])
def test_the_game_that_was_proven_falsely(tie_break):
    solution = Exact(tie_break=tie_break).solve(false_game())
    assert (solution.outcome, solution.report.latency_ps) == ("optimal", 1_228_929)
    assert solution.proof.checked


@pytest.fixture(params=["map", "game", "moving"])
def search(request):
    """A search that proves its plan by branch and bound: agent and environment."""
    if request.param == "game":
        return Exact(), false_game()
    program, chip = MAP
    return (Exact() if request.param == "map" else ExactDynamic()), OneShotEnv(program, chip)


def lie(monkeypatch, answer, presolve=True):
    """Let branch and bound answer with what `answer` makes of a true answer, with presolve, or without it, too."""

    def lying(program, **options):
        truth = solve(program, **options)
        return answer(truth, program, options) if options.get("presolve", True) or not presolve else truth

    monkeypatch.setattr(dynamic_search, "solve", lying)
    monkeypatch.setattr(static_solve, "solve", lying)


def above(truth, program, options):
    return truth._replace(bound=1.5 * truth.bound)


def start_is_best(truth, program, options):
    """The answer of a solver that proves the plan of the start, or something slow, at once."""
    slow = solve(program.with_row(-program.cost, -1.01 * truth.bound), certify=False, presolve=False)
    values = options.get("start") if options.get("start") is not None else slow.values
    return MipResult(values, float(program.cost @ values) * (1 - 1e-6))


def test_a_proof_by_branch_and_bound_is_checked(search):
    agent, env = search
    solution = agent.solve(env)
    assert solution.outcome == "optimal"
    assert solution.proof == Proof(solution.proof.sound_s, solver_name(), presolve=True, checked=True)
    assert 0 < solution.proof.sound_s <= solution.bound_s <= solution.report.latency_s
    assert solution.summary()["proof"]["solver"] == solver_name()


@pytest.mark.parametrize("answer", [above, start_is_best])
def test_a_false_bound_is_proven_again(search, answer, monkeypatch, caplog):
    """A bound above a plan is noticed by itself; a false optimum that nothing contradicts, by the second question."""
    agent, env = search
    truth = agent.solve(env)
    lie(monkeypatch, answer)
    with caplog.at_level(logging.WARNING, "memplace"):
        solution = agent.solve(env)
    assert solution.outcome == "optimal"
    assert solution.report.latency_s <= truth.report.latency_s * (1 + 1e-4)
    assert solution.bound_s <= truth.report.latency_s
    assert solution.proof.solver is None or not solution.proof.presolve
    assert "is false and does not count" in caplog.text
    assert solver_name() in caplog.text


def test_a_bound_that_stays_false_does_not_count(search, monkeypatch):
    agent, env = search
    truth = agent.solve(env)
    lie(monkeypatch, above, presolve=False)
    solution = agent.solve(env)
    assert solution.bound_s <= solution.report.latency_s
    assert solution.bound_s == pytest.approx(truth.proof.sound_s)
    assert solution.outcome == "feasible"


def test_without_time_for_the_question_a_proof_is_not_checked(search, monkeypatch):
    agent, env = search
    monkeypatch.setattr("memplace_agents.exact.proving_search.find_below", lambda *_: None)
    solution = agent.solve(env)
    assert solution.outcome == "optimal"
    assert not solution.proof.checked


class Claims(Agent):
    """Claims a bound of 1 s of native's plan."""

    name, formulations = "claims", (Formulation.ONE_SHOT,)

    def run(self, evaluator, seed):
        BestRule().run(evaluator, seed)
        return Verdict("optimal", 1.0)


def test_a_bound_of_any_agent_above_its_plan_does_not_count(caplog):
    solution = Claims().solve(OneShotEnv(*MAP))
    assert (solution.outcome, solution.bound_s, solution.proof) == ("feasible", None, None)
    assert "an agent" in caplog.text


class ProvesLate(Exact):
    """Offers a slow plan and proves a bound that the next stage contradicts."""

    name, formulations = "proves-late", (Formulation.ONE_SHOT,)

    def run(self, evaluator, seed):
        evaluator.offer(all_backing(evaluator.env.task))
        return Verdict("feasible", 0.999 * evaluator.best_latency_s, proof=Proof(1e-9, "HiGHS 1.15.1", True))


def test_a_plan_of_a_later_stage_voids_a_bound(caplog):
    """The warning names what proved it, and no progress after the better plan shows a bound above that."""
    shown = []
    evaluator = OneShotEvaluator(OneShotEnv(*MAP), budget=500, callback=shown.append)
    verdict = run_stages(evaluator, [Stage(ProvesLate(), 0.1, proof=True), Stage(Exact(), 0.9)], 0)
    assert verdict.outcome == "optimal"
    assert 0 < verdict.bound_s <= evaluator.best_latency_s
    assert not verdict.proof.presolve
    assert "HiGHS 1.15.1 proved is false" in caplog.text
    assert shown[-1].bound_s is None or shown[-1].bound_s <= shown[-1].latency_s


@pytest.mark.parametrize(
    ("bound_s", "proof", "left"),
    [(2.0, None, None), (2.0, Proof(0.5), 0.5), (2.0, Proof(1.5), None), (1.0, None, 1.0), (None, None, None)],
)
def test_what_is_left_of_a_bound_beside_a_plan_of_one_second(bound_s, proof, left):
    assert surviving_bound(1.0, bound_s, proof)[0] == left


def test_a_plan_below_a_bound_is_not_optimal():
    assert is_optimal(1.0, 1.0)
    assert is_optimal(1.00005, 1.0)
    assert not is_optimal(1.0002, 1.0)
    assert not is_optimal(1.0 - 2 * PS, 1.0)
    assert not is_optimal(1.0, None)

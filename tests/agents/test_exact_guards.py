"""Certainty checks of the exact agents broken once: a bound that proves too much or too little is noticed."""

import ast
from itertools import product
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp

from memplace_agents import optimality
from memplace_agents.exact import exact_agent, highs, proving_search
from memplace_agents.optimality import Proof
from memplace_env._lib.units import PS
from tests.mutation import Case, decides, noted, raises, unnoticed, with_limits

AROUND = (998, 999, 1000, 1001, 1499, 1500, 1501, 1502, np.inf)
"""Latencies around a bound of 1000 ps, and around that with a gap of a half."""


def test_what_makes_a_plan_optimal_is_noticed_when_it_is_missing():
    pairs = [(latency * PS, bound) for latency in AROUND for bound in (None, 1000 * PS, 0.0)]
    cases = [noted(lambda module, pair=pair: str(module.is_optimal(*pair, 0.5))) for pair in pairs]
    for proof in (None, Proof(), Proof(999 * PS, "a solver"), Proof(990 * PS)):
        cases += [noted(lambda module, given=(*pair, proof): str(module.surviving_bound(*given))) for pair in pairs]
    cases += [noted(lambda module, least=least: str(module.is_optimal(1.0, least, 0.0))) for least in (0.5, 1.0)]
    cases += [noted(lambda module, value=value: str(module.check_tie_break(value))) for value in ("none", 5)]
    assert unnoticed(optimality, decides, cases, same=("prover =", "return latency_s < float('inf') ")) == []


def search(best: float, sound: int, claimed: int, faster: bool | None, program: object = 1) -> Case:
    def ask(module) -> str:
        class Search(module.ProvingSearch):
            run = break_ties = None

            def _prove(self) -> None:
                self._claim = module.Claim(claimed - 5, program)

        clock = SimpleNamespace(meter=SimpleNamespace(now=5.0, counts_work=True), part=lambda seconds: seconds)
        evaluator = SimpleNamespace(incumbent_latency_s=best * PS, env=SimpleNamespace(task=None), retract=lambda: None)
        found = Search(evaluator, 0.5, clock, sound)
        found._claim = module.Claim(claimed, program)
        said = [found.bound_ps, found.best_ps, found.closed, found.contradicted, found.optimal]
        found.check()
        said += [found.contradicted, found.verdict()]
        for _ in range(2):
            found.prove_again()
            said += [found.presolve, found.bound_ps, found.verdict()]
        evaluator.incumbent_latency_s = 994 * PS
        return str([*said, found.verdict(), found.bound_ps])

    return with_limits(noted(ask), find_below=lambda *_: faster)


def test_what_an_exact_search_claims_is_noticed_when_it_is_broken():
    bounds = [(0, 1000), (1000, 0), (999, 1000), (1000, 1000), (1002, 1000)]
    cases = [search(best, *pair, faster) for best in AROUND[:-1] for pair in bounds for faster in (True, False, None)]
    cases += [search(1200, 0, 1000, True, None), search(1200, 700, 1000, None)]
    assert (
        unnoticed(proving_search, decides, cases, same=("return round(latency_s / PS)", "treed = self._refuted or"))
        == []
    )


def test_the_bounds_of_a_linear_program_are_noticed_when_they_are_broken():
    tiny = highs.FEASIBLE

    def program(lower, upper, row_lower, row_upper):
        count = len(lower)
        matrix = sp.csr_array(np.array([[1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]])[:, :count])
        columns = np.array([2.0, 3.0, 5.0, 7.0, 9.0])[:count], lower, upper, np.zeros(count)
        return lambda module: module.LinearProgram(*columns, matrix, np.array(row_lower), np.array(row_upper), 11.0)

    def small(module, made) -> str:
        arrays = [part for part in vars(made.without_fixed()[0]).values() if isinstance(part, np.ndarray)]
        return [part.tolist() for part in arrays]

    def case(made, work) -> Case:
        return noted(lambda module: str(work(module, made(module))))

    plain = program(np.full(4, 0.5), np.ones(4), [0.5, -np.inf], [1.0, 0.5])
    firsts, seconds = (0.5 - 2 * tiny, 0.5 - tiny, 0.5, 1.0, 1.0 + tiny, 1.0 + 2 * tiny), (0.0, 0.5, 0.5 + 2 * tiny)
    values = [np.array([x, 0.0, z, 0.0]) for x in firsts for z in seconds]
    cases = [case(plain, lambda module, made, x=x: made.holds(x)) for x in values]
    prices = [np.array([a, b]) for a in (-2.0, -0.5, 0.0, 0.5, 1.5, 2.5, 9.0) for b in (-6.0, -0.5, 0.0, 0.5, 5.0)]
    cases += [case(plain, lambda module, made, y=y: module.dual_bound(made, y)) for y in prices]
    for count, fixed in product((4, 5), ([], [0], [0, 1], [1, 2], [2, 3], [0, 2, 3], [0, 1, 2, 3])):
        for at in (-0.5, -2 * tiny, -tiny, 0.0, tiny, 2 * tiny, 0.5):
            lower, upper = np.zeros(count), np.ones(count)
            lower[fixed] = upper[fixed] = at
            cases.append(case(program(lower, upper, [0.0, 0.0], [2.0, 0.0]), small))
    ours = ("kept =", "side =", "column =", "if not (0 < ", "if (lower[~rows]")
    same = (
        *(
            "side = np.where(duals >= 0",
            "column = np.where(left >= 0",
            *(f"column = np.where(left > 0, program.lower, np.where(left <{more}" for more in ("= ", " 0 + 1")),
        ),
        "if not (0 < 2 * free.sum() - 1",
    )
    assert unnoticed(highs, lambda each: ast.unparse(each).startswith(ours), cases, same=same) == []


def test_what_an_exact_agent_refuses_is_noticed():
    gaps = (None, exact_agent.LEAST_GAP, exact_agent.LEAST_GAP / 2, 0.5, 1, 1.5)
    cases = [noted(lambda module, gap=gap: str(module._check_gap(gap))) for gap in gaps]
    cases += [noted(lambda module, work=work: str(module.Exact(work=work).work)) for work in (None, -0.5, 0, 0.5, 1.5)]
    boxes = [
        SimpleNamespace(noisy=noisy, env=SimpleNamespace(task=SimpleNamespace(is_black_box=box)))
        for noisy in (0, 1)
        for box in (0, 1)
    ]
    cases += [noted(lambda module, box=box: str(module._check_costs(box, "exact"))) for box in boxes]
    assert unnoticed(exact_agent, raises, cases, "..x.xx.xx...xxx") == []

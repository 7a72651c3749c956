"""The exact agent, for both formulations: plans of proven quality, and what no plan can beat."""

from __future__ import annotations

from agents.base import Agent
from agents.evaluator import Evaluator, GameEvaluator, MapEvaluator
from agents.exact.dynamic.run import GameSearch
from agents.exact.static.search import MapSearch
from agents.solution import Verdict
from memplace_env.errors import AgentError
from memplace_env.registration import Formulation

LEAST_GAP = 1e-5
"""Finer gaps drown in the solver's tolerances, see `highs.BOUND_MARGIN`."""


class Exact(Agent[Evaluator]):
    """Solves a task to proven optimality, or says how far its plan may be from it.

    One-shot: rounds of a linear program over mappings, addresses for its answer, and constraints that forbid what has
    none (`static`). The bound holds for all plans that give each tensor one level and, where weights are streamed, one
    copy to each weight in fast memory. If no round ends in addresses for everything, single moves improve the best
    compiled mapping while the budget lasts.

    Game: branch and bound over a linear program of all plans whatever, waits included, then large-neighbourhood search
    (`dynamic`). The bound holds for every plan that the validator accepts.

    Outcomes: "optimal" iff latency <= bound * (1 + mip_gap); "feasible" otherwise. Never "infeasible": everything fits
    in the backing memory. An interrupt (Ctrl-C, or a KeyboardInterrupt from the callback) ends the search with the best
    plan and the best bound so far.

    Args:
        mip_gap: relative gap at which a plan counts as optimal, in [1e-5, 1). None: 1e-4 for maps, 1e-5 for games.
        cheap: whether what costs next to nothing is offered first, so that it is never missed; each plan counts. For
            maps the heuristics and density-greedy's variants, for games XLA's public option sets and the greedy player.

    Raises:
        AgentError: if the gap is out of range.
    """

    name = "exact"
    formulations = (Formulation.ONE_SHOT, Formulation.GAME)
    budgeted = False
    anytime = True

    def __init__(self, mip_gap: float | None = None, cheap: bool = True) -> None:
        if mip_gap is not None and not LEAST_GAP <= mip_gap < 1:
            raise AgentError(f"mip_gap={mip_gap} is out of range; pass one in [{LEAST_GAP:g}, 1).")
        self.mip_gap, self.cheap = mip_gap, cheap

    def run(self, evaluator: Evaluator, seed: int) -> Verdict:
        """Prove what can be proven.

        Raises:
            AgentError: if a black box judges, which no linear program can stand for, or measurements are noisy.
        """
        self._refuse(evaluator)
        search: MapSearch | GameSearch
        if isinstance(evaluator, MapEvaluator):
            search = MapSearch(evaluator, self.mip_gap or 1e-4, self.cheap, seed)
        else:
            assert isinstance(evaluator, GameEvaluator)
            search = GameSearch(evaluator, self.mip_gap or LEAST_GAP, self.cheap, seed)
        try:
            search.run()
        except KeyboardInterrupt:
            return search.verdict()._replace(interrupted=True)
        return search.verdict()

    def _refuse(self, evaluator: Evaluator) -> None:
        if evaluator.env.task.is_black_box:
            raise AgentError(
                "The exact agent knows the costs of the built-in simulator only; make the environment without "
                "simulator=, or use another agent."
            )
        if evaluator.noisy:
            raise AgentError(
                "The exact agent reads latencies off the cost arrays and measures nothing; leave out the measurement "
                "noise, or use another agent."
            )

"""The exact agents: plans of proven quality, and what no plan can beat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agents.base import Agent
from agents.evaluator import Evaluator, GameEvaluator, MapEvaluator
from agents.exact.dynamic.run import DynamicSearch
from agents.exact.static.search import MapSearch
from agents.solution import Stint, Verdict
from memplace_env.errors import AgentError
from memplace_env.registration import Formulation
from memplace_env.simulator import traffic_bound_ps
from memplace_env.units import PS

LEAST_GAP = 1e-5
"""Finer gaps drown in the solver's tolerances, see `highs.BOUND_MARGIN`."""
SEED = 0
"""Of the packer, whatever seed the search gets: a solver's answer is no sample, so one run tells all."""
MAPS_SHARE = 0.25
"""Of the dynamic agent's time, for the best plan that moves nothing: it begins with that."""
MAPS_SECONDS, DYNAMIC_SECONDS = 30.0, 85.0
"""What its two parts may take where the time has no limit: together about two minutes. Our choice."""


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
    deterministic = True

    def __init__(self, mip_gap: float | None = None, cheap: bool = True) -> None:
        _check_gap(mip_gap)
        self.mip_gap, self.cheap = mip_gap, cheap

    def run(self, evaluator: Evaluator, seed: int) -> Verdict:
        """Prove what can be proven.

        Raises:
            AgentError: if a black box judges, which no linear program can stand for, or measurements are noisy.
        """
        _refuse(evaluator, self.name)
        search: MapSearch | DynamicSearch
        if isinstance(evaluator, MapEvaluator):
            search = MapSearch(evaluator, self.mip_gap or 1e-4, self.cheap, SEED)
        else:
            assert isinstance(evaluator, GameEvaluator)
            search = DynamicSearch(evaluator, self.mip_gap or LEAST_GAP, self.cheap, SEED)
        try:
            search.run()
        except KeyboardInterrupt:
            return search.verdict()._replace(interrupted=True)
        return search.verdict()


class ExactDynamic(Agent[MapEvaluator]):
    """The fastest plan of any kind for a one-shot environment: tensors may move between levels while the program runs.

    `Exact` first finds the best plan that gives each tensor one level; from there on, branch and bound over a linear
    program of all plans, then large-neighbourhood search, as in games (`dynamic`). The bound holds for every plan that
    the validator accepts, those that move nothing included. Without a time limit it takes two minutes at most, and
    ends before where the plan is proven. An interrupt ends the search as that of `Exact`.

    Args:
        mip_gap: relative gap at which a plan counts as optimal, in [1e-5, 1).

    Raises:
        AgentError: if the gap is out of range.
    """

    name = "exact-dynamic"
    formulations = (Formulation.DYNAMIC,)
    budgeted = False

    def __init__(self, mip_gap: float = 1e-4) -> None:
        _check_gap(mip_gap)
        self.mip_gap = mip_gap

    def run(self, evaluator: MapEvaluator, seed: int) -> Verdict:
        """Maps, then plans of any kind.

        Raises:
            AgentError: as `Exact.run`.
        """
        _refuse(evaluator, self.name)
        verdict, stints = Verdict(bound_s=traffic_bound_ps(evaluator.env.task) * PS), list[Stint]()
        try:
            with _stint(Exact.name, evaluator.part(MAPS_SHARE, MAPS_SECONDS, proves=False), stints) as part:
                MapSearch(part, self.mip_gap, True, SEED).run()
            with _stint(self.name, evaluator.part(1.0, DYNAMIC_SECONDS), stints) as part:
                search = DynamicSearch(part, self.mip_gap, False, SEED)
                try:
                    search.run()
                finally:
                    verdict = search.verdict()
        except KeyboardInterrupt:
            verdict = verdict._replace(interrupted=True)
        return verdict._replace(stints=tuple(stints))


@contextmanager
def _stint(name: str, part: MapEvaluator, stints: list[Stint]) -> Iterator[MapEvaluator]:
    """A part of a search, of which the list says in the end what it found and spent."""
    try:
        yield part
    finally:
        stints.append(Stint(name, part.best_latency_s, part.evaluations, part.seconds))


def _check_gap(mip_gap: float | None) -> None:
    if mip_gap is not None and not LEAST_GAP <= mip_gap < 1:
        raise AgentError(f"mip_gap={mip_gap} is out of range; pass one in [{LEAST_GAP:g}, 1).")


def _refuse(evaluator: Evaluator, name: str) -> None:
    if evaluator.env.task.is_black_box:
        raise AgentError(
            f"{name} knows the costs of the built-in simulator only; make the environment without simulator=, or use "
            "another agent."
        )
    if evaluator.noisy:
        raise AgentError(
            f"{name} reads latencies off the cost arrays and measures nothing; leave out the measurement noise, or use "
            "another agent."
        )

"""The exact agents: plans with a proven lower bound on latency."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from memplace_agents.exact.dynamic.detail import Detail, is_tractable
from memplace_agents.exact.dynamic.dynamic_run import DynamicSearch
from memplace_agents.exact.dynamic.dynamic_ties import DynamicTies
from memplace_agents.exact.proving_search import ProvingSearch
from memplace_agents.exact.static.static_model import build
from memplace_agents.exact.static.static_search import StaticSearch
from memplace_agents.exact.static.static_ties import StaticTies
from memplace_agents.optimality import OPTIMAL_GAP, TieBreak, check_tie_break
from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import Evaluator, GameEvaluator, OneShotEvaluator
from memplace_agents.solution import Verdict
from memplace_env._lib.errors import AgentError
from memplace_env._lib.units import PS
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.simulator import traffic_bound_ps
from memplace_env.report.plans.evaluated_plan import StageResult

LEAST_GAP = 1e-5
"""Least relative gap; finer ones are below the solver's tolerances, see `highs.BOUND_MARGIN`."""
MAPS_SHARE = 0.25
"""Fraction of the dynamic agent's time for the best plan that moves nothing, with which it begins."""
MAPS_WORK, DYNAMIC_WORK = 30.0, 85.0
"""Work of its two parts without a time limit, about two minutes. Our choice."""


class Exact(Agent[Evaluator]):
    """Solves a task to proven optimality, or returns a plan and a bound with a gap; begins with the plans of all rules.

    One-shot: rounds of a mixed-integer linear program over levels, addresses for its answer, and constraints that
    forbid sets of tensors without addresses (`static`). The bound holds for all plans that give each tensor one level
    and, where weights are streamed, one copy to each weight in fast memory. If no round ends in addresses for
    everything, single moves improve the best compiled levels while the budget lasts.

    Game: branch and bound over a linear program of all valid plans, waits included, then large-neighbourhood search
    (`dynamic`). The bound holds for every plan that the validator accepts.

    Outcomes: "optimal" iff bound <= latency <= bound * (1 + mip_gap); "feasible" otherwise. Never "infeasible":
    everything fits in the backing memory. After a proof by branch and bound the solver is asked once more, without
    presolve and for as long as the proof took, for a plan that is faster by more than 1e-4 (`Proof.checked`). A bound
    above a plan is false: a warning says so, and the search proves another one without presolve. An
    interrupt (Ctrl-C, or a KeyboardInterrupt from the callback) ends the search with the best plan and bound so far.

    Args:
        mip_gap: relative gap at which a plan counts as optimal, in [1e-5, 1). None: 1e-4 (`OPTIMAL_GAP`) for one-shot
            environments, 1e-5 for games.
        tie_break: "backing" for a second search: of plans as fast as the best, the one that keeps the backing memory's
            port least busy; "none" for the first plan that was found.
        work: most work without a time limit, in seconds on one core of the machine of our measurements, estimated from
            what the solvers count: the same plan on every machine, however busy. None for as much as the search finds.
            A search that takes ten times as many seconds, a minute at least, ends with a warning.

    Raises:
        AgentError: if the gap is out of range, there is no such tie-break, or the work is not more than 0.
    """

    budgeted = False
    deterministic = True
    checks = True
    """True to ask once more after a proof, False where only the plan counts."""

    def __init__(
        self, mip_gap: float | None = None, tie_break: TieBreak = "backing", work: float | None = None
    ) -> None:
        _check_gap(mip_gap)
        check_tie_break(tie_break)
        if work is not None:
            _check_work(work)
        self.mip_gap, self.tie_break, self.work = mip_gap, tie_break, work

    def run(self, evaluator: Evaluator, seed: int) -> Verdict:
        """Search until the plan is proven or the time is up.

        Raises:
            AgentError: if the simulator is a black box, which no linear program can model, or measurements are noisy.
        """
        _check_costs(evaluator, self.name)
        return _verdict(self._search(evaluator), self.tie_break, self.checks)

    def prove_again(self, evaluator: Evaluator) -> Verdict:
        """Prove a bound without presolve, from the best plan on: after one that turned out to be false."""
        search = self._search(evaluator)
        search.presolve = False
        return _verdict(search, "none")

    def _search(self, evaluator: Evaluator) -> ProvingSearch:
        if isinstance(evaluator, OneShotEvaluator):
            return StaticSearch(evaluator, self.mip_gap or OPTIMAL_GAP, self.work)
        assert isinstance(evaluator, GameEvaluator)
        return DynamicSearch(evaluator, self.mip_gap or LEAST_GAP, self.tie_break == "backing", self.work)


FEWER_SHARE = 0.5
"""Share of the time for plans without copies between fast memories, where those are allowed. Our choice."""


class ExactDynamic(Agent[OneShotEvaluator]):
    """Finds the fastest plan of any kind for a one-shot environment: tensors may move while the program runs.

    `Exact` first finds the best plan that gives each tensor one level; from there on, branch and bound over a linear
    program of all plans, then large-neighbourhood search, as in games (`dynamic`). The bound holds for every plan that
    the validator accepts, those that move nothing included. An interrupt ends the search as that of `Exact`.

    Args:
        mip_gap: relative gap at which a plan counts as optimal, in [1e-5, 1).
        tie_break: see `Exact`.
        work: most work of the search for moves without a time limit, see `Exact`; by default about two minutes.

    Raises:
        AgentError: as `Exact`.
    """

    budgeted = False
    checks = True
    """See `Exact`."""

    def __init__(
        self, mip_gap: float = OPTIMAL_GAP, tie_break: TieBreak = "backing", work: float = DYNAMIC_WORK
    ) -> None:
        _check_gap(mip_gap)
        check_tie_break(tie_break)
        _check_work(work)
        self.mip_gap, self.tie_break, self.work = mip_gap, tie_break, work

    def run(self, evaluator: OneShotEvaluator, seed: int) -> Verdict:
        """Search for levels without moves, then for plans of any kind.

        Raises:
            AgentError: as `Exact.run`.
        """
        _check_costs(evaluator, self.name)
        verdict, stage_results = Verdict(bound_s=traffic_bound_ps(evaluator.env.task) * PS), list[StageResult]()
        try:
            if evaluator.env.task.fast_copies:
                with _stage(self.name, evaluator.part(FEWER_SHARE, proves=False), stage_results) as part:
                    self._begin_without_copies(part, seed)
            else:
                with _stage(Exact.name, evaluator.part(MAPS_SHARE, proves=False), stage_results) as part:
                    StaticSearch(part, self.mip_gap, min(MAPS_WORK, self.work)).run()
            with _stage(self.name, evaluator.part(1.0), stage_results) as part:
                search = DynamicSearch(part, self.mip_gap, self.tie_break == "backing", self.work)
                verdict = _verdict(search, self.tie_break, self.checks)
        except KeyboardInterrupt:
            verdict = verdict._replace(interrupted=True)
        return verdict._replace(stage_results=tuple(stage_results))

    def _begin_without_copies(self, evaluator: OneShotEvaluator, seed: int) -> None:
        """Offer the best plan without copies between fast memories, so that none that is found later is slower."""
        task = evaluator.env.task
        settings = {name: value for name, value in task.settings.items() if name != "copies"}
        agent = ExactDynamic(self.mip_gap, "none", self.work)
        agent.checks = False
        env = OneShotEnv(replace(task, settings=settings))
        plan = agent.solve(env, seed=seed, time_limit=evaluator.seconds_left).plan
        if plan is not None:
            evaluator.offer(task.make_plan(plan.use_level, plan.allocations, plan.transfers))


def break_ties(evaluator: Evaluator) -> None:
    """Break the ties of a search that another agent ended: its best plan gives way to one as fast, see `Exact`.

    Args:
        evaluator: that of the search, in an environment whose plans are timed by cost arrays without noise.

    Raises:
        KeyboardInterrupt: if an interrupt ended it.
    """
    task = evaluator.env.task
    if isinstance(evaluator, OneShotEvaluator):
        StaticTies(evaluator, build(task), []).run()
    elif is_tractable(task):
        DynamicTies(evaluator, Detail()).run()


def _verdict(search: ProvingSearch, tie_break: TieBreak, checks: bool = True) -> Verdict:
    """Run a search, check its proof, break ties, and prove again what turned out to be false."""
    try:
        search.run()
        if checks:
            search.check()
        if tie_break == "backing":
            search.break_ties()
        if search.contradicted:
            search.prove_again()
    except KeyboardInterrupt:
        return search.verdict()._replace(interrupted=True)
    return search.verdict()


@contextmanager
def _stage(name: str, part: OneShotEvaluator, stage_results: list[StageResult]) -> Iterator[OneShotEvaluator]:
    """Append the result of a part of a search to the list when it ends, however it ends."""
    try:
        yield part
    finally:
        stage_results.append(StageResult(name, part.best_latency_s, part.evaluations, part.seconds))


def _check_gap(mip_gap: float | None) -> None:
    if mip_gap is not None and not LEAST_GAP <= mip_gap < 1:
        raise AgentError(f"mip_gap={mip_gap} is out of range; pass one in [{LEAST_GAP:g}, 1).")


def _check_work(work: float) -> None:
    if not work > 0:
        raise AgentError(f"work={work} is out of range; pass more than 0.")


def _check_costs(evaluator: Evaluator, name: str) -> None:
    if evaluator.env.task.is_black_box:
        raise AgentError(
            f"{name} needs the cost arrays of the built-in simulator; leave out simulator= or --simulator, or use "
            "another agent."
        )
    if evaluator.noisy:
        raise AgentError(
            f"{name} computes latencies from the cost arrays and measures nothing; leave out the measurement noise, or "
            "use another agent."
        )

"""A second opinion on a proof, by SCIP: has the model a solution that is faster than the plan by more than a gap?

The programs are those of `static` and `dynamic`; the solver, and so its faults, are others. A program is a relaxation,
so what SCIP finds may be no plan: then it is asked again with the details or the certain cuts that the program lacks.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import gymnasium as gym

from memplace_agents.exact import scip
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic import dynamic_model
from memplace_agents.exact.dynamic.decisions import Decisions
from memplace_agents.exact.dynamic.detail import Detail, is_tractable, lengths_of_copies
from memplace_agents.exact.dynamic.dynamic_search import Search
from memplace_agents.exact.dynamic.extract import copies_begun_early
from memplace_agents.exact.dynamic.lp_bound import linear_bound
from memplace_agents.exact.highs import LinearProgram
from memplace_agents.exact.static import static_model
from memplace_agents.exact.static.cuts import Cut, cut, is_certain
from memplace_agents.exact.static.level_moves import without_useless_tensors
from memplace_agents.exact.static.static_addresses import placed
from memplace_agents.exact.static.static_solve import levels_of, program_of
from memplace_agents.optimality import OPTIMAL_GAP
from memplace_agents.search.evaluator import evaluator_for
from memplace_env._lib.errors import AgentError
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan

ENDLESS = 10**9

Answer = Literal["no", "yes", "open"]
"""no: no plan of the kind is faster by more than the gap; yes: one is; open: the time ended, or no plan was made of
what SCIP found."""


class Opinion(NamedTuple):
    """A second opinion.

    Attributes:
        answer: see `Answer`.
        solver: name and version of the solver.
        rounds, nodes, seconds: how often it was asked, the nodes of its trees, and its seconds of the processor.
        gap: the gap of the question.
        latency_ps: latency of the plan that was asked about.
        faster_ps, plan: the faster plan of a yes, by validator and simulator; None for other answers.
    """

    answer: Answer
    solver: str
    rounds: int
    nodes: int
    seconds: float
    gap: float
    latency_ps: int
    faster_ps: int | None = None
    plan: MemoryPlan | None = None


class Audit:
    """A question to SCIP: is a plan of the formulation faster than this one by more than a gap?

    Args:
        env: an id or an environment.
        plan: a valid plan for it.
        formulation: "dynamic" for plans that may move tensors in a one-shot environment.
        seconds: most seconds for all of it, and of the processor for each call of SCIP.
        gap: the question is about plans of at most `latency / (1 + gap)`.

    Attributes:
        clock: ends it.
        program, cutoff: the last program that SCIP was asked about, and the cutoff in its units.

    Raises:
        AgentError: if SCIP is not installed, the environment is of another formulation, or its latencies are no costs.
        PlanError: if the plan is not valid.
    """

    program: LinearProgram
    cutoff: float

    def __init__(
        self,
        env: str | gym.Env[Any, Any],
        plan: MemoryPlan,
        formulation: Formulation,
        seconds: float = 60.0,
        gap: float = OPTIMAL_GAP,
    ) -> None:
        self._solver, self._formulation = scip.solver_name(), formulation
        played = Formulation.GAME if formulation is Formulation.GAME else Formulation.ONE_SHOT
        self._evaluator = evaluator_for(env, (played,), budget=ENDLESS, time_limit=seconds)
        self._task, self._plan, self._gap = self._evaluator.env.task, plan, gap
        if self._task.is_black_box or self._evaluator.noisy:
            raise AgentError("A second opinion needs the cost arrays of the built-in simulator, without noise.")
        self._latency_ps, self.clock = evaluate_plan(self._task, plan).latency_ps, Clock.of(self._evaluator)
        self._rounds, self._nodes, self._seconds = 0, 0, 0.0

    def opinion(self) -> Opinion:
        """Return SCIP's opinion."""
        answer = self._of_maps() if self._formulation is Formulation.ONE_SHOT else self._of_moving()
        found = (round(self._evaluator.incumbent_latency_s / PS), self._evaluator.incumbent) if answer == "yes" else ()
        spent = self._rounds, self._nodes, round(self._seconds, 3)
        return Opinion(answer, self._solver, *spent, self._gap, self._latency_ps, *found)

    def _of_maps(self) -> Answer:
        """Ask the program of levels; where it is too coarse for copies of weights, the one that follows them, too."""
        task, model, cuts = self._task, static_model.build(self._task), list[Cut]()
        while True:
            reply = self._ask(program_of(model, cuts), model.unit_ps, model.overhead_ps)
            if reply.values is None:
                return "no" if reply.infeasible else "open"
            level = levels_of(model, reply.values)
            kept = level if task.streams_weights else without_useless_tensors(task, level)
            plans, conflicts = placed(task, kept, self.clock)
            if min(map(self._offer, plans)) <= self._cutoff_ps:
                return "yes"
            certain = [conflict for conflict in conflicts if is_certain(task, model, conflict)]
            if not certain:
                return self._of_moving(held=True) if task.streams_weights else "open"
            cuts += [cut(task, model, conflict, level) for conflict in certain]

    def _of_moving(self, held: bool = False) -> Answer:
        """Ask the program of plans that move tensors; if `held`, of those among them that move none."""
        if not is_tractable(self._task):
            return "open"
        search = Search(self._task, self._offer, self.clock, lambda _: None)
        search.detail = Detail(held=True) if held else linear_bound(self._task, self.clock).rows
        search.detail |= lengths_of_copies(self._task, self._plan)
        while True:
            model, before = dynamic_model.build(self._task, search.detail), len(search.detail)
            reply = self._ask(model.program, model.unit_ps)
            if reply.values is None:
                return "no" if reply.infeasible else "open"
            search.detail |= copies_begun_early(model, reply.values)
            search.complete(Decisions.of_values(model, reply.values), self.clock)
            if search.best is not None and search.best.latency_ps <= self._cutoff_ps:
                return "yes"
            if len(search.detail) == before:
                return "open"

    @property
    def _cutoff_ps(self) -> float:
        return self._latency_ps / (1 + self._gap)

    def _ask(self, program: LinearProgram, unit_ps: float, overhead_ps: int = 0) -> scip.Reply:
        self.program, self.cutoff = program, (self._cutoff_ps - overhead_ps) / unit_ps
        reply = scip.find_below(program, self.cutoff, self.clock.seconds_left)
        self._rounds, self._nodes = self._rounds + 1, self._nodes + reply.nodes
        self._seconds += reply.seconds
        return reply

    def _offer(self, plan: MemoryPlan) -> int:
        return self._evaluator.offer(plan).latency_ps

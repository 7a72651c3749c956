"""A second opinion on a proof, by SCIP: has the model a solution that is faster than the plan by more than a gap?

The programs are those of `static` and `dynamic`; the solver, and so its faults, are others. A program is a relaxation,
so what SCIP finds may be no plan: then the details or the certain cuts that it lacks are added, and the question is
put again.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import gymnasium as gym

from memplace_agents.evaluator import Evaluator, evaluator_for
from memplace_agents.exact import scip
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic.decisions import Decisions
from memplace_agents.exact.dynamic.detail import Detail, is_tractable, lengths_of_copies
from memplace_agents.exact.dynamic.dynamic_model import build as build_dynamic
from memplace_agents.exact.dynamic.dynamic_search import Search
from memplace_agents.exact.dynamic.extract import copies_begun_early
from memplace_agents.exact.dynamic.lp_bound import linear_bound
from memplace_agents.exact.highs import LinearProgram
from memplace_agents.exact.static.cuts import cut, is_certain
from memplace_agents.exact.static.level_moves import without_useless_tensors
from memplace_agents.exact.static.static_addresses import placed
from memplace_agents.exact.static.static_model import Rows
from memplace_agents.exact.static.static_model import build as build_static
from memplace_agents.exact.static.static_solve import levels_of, program_of
from memplace_agents.optimality import OPTIMAL_GAP
from memplace_env._lib.errors import AgentError
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan

SEED = 0
"""Seed of the packer."""
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
        plan, faster_ps: the faster plan of a yes and its latency, by validator and simulator; None for other answers.
    """

    answer: Answer
    solver: str
    rounds: int
    nodes: int
    seconds: float
    gap: float
    latency_ps: int
    plan: MemoryPlan | None = None
    faster_ps: int | None = None

    def summary(self) -> dict[str, str | int | float | None]:
        """Return all but the plan as plain values."""
        return {name: value for name, value in self._asdict().items() if name != "plan"}


def second_opinion(
    env: str | gym.Env[Any, Any],
    plan: MemoryPlan,
    formulation: Formulation,
    *,
    seconds: float = 60.0,
    gap: float = OPTIMAL_GAP,
) -> Opinion:
    """Ask SCIP whether a plan of the formulation is faster than this one by more than a gap.

    Args:
        env: an id or an environment.
        plan: a valid plan for it.
        formulation: "dynamic" for plans that may move tensors in a one-shot environment.
        seconds: most seconds of the processor, of SCIP and of making plans of its answers.
        gap: the question is about plans of at most `latency / (1 + gap)`.

    Raises:
        AgentError: if SCIP is not installed, the environment is of another formulation, or its latencies are no costs.
        PlanError: if the plan is not valid.
        KeyboardInterrupt: if it is interrupted.
    """
    return Audit(env, plan, formulation, seconds=seconds, gap=gap).opinion()


class Audit:
    """A question to SCIP; see `second_opinion` for its arguments and errors.

    Attributes:
        evaluator: receives the plans that are made of SCIP's answers.
        clock: ends the audit.
        program, cutoff: the last program that SCIP was asked about, and the cutoff in its units.
    """

    def __init__(
        self, env: str | gym.Env[Any, Any], plan: MemoryPlan, formulation: Formulation, *, seconds: float, gap: float
    ) -> None:
        self.solver, self.formulation = scip.solver_name(), formulation
        played = Formulation.GAME if formulation is Formulation.GAME else Formulation.ONE_SHOT
        self.evaluator: Evaluator = evaluator_for(env, (played,), budget=ENDLESS, time_limit=seconds)
        self.task, self.plan, self.gap = self.evaluator.env.task, plan, gap
        if self.task.is_black_box or self.evaluator.noisy:
            raise AgentError("A second opinion needs the cost arrays of the built-in simulator; measure nothing.")
        self.latency_ps = evaluate_plan(self.task, plan).latency_ps
        self.cutoff_ps = self.latency_ps / (1 + gap)
        self.clock = Clock.of(self.evaluator)
        self.program: LinearProgram | None = None
        self.cutoff = 0.0
        self.rounds, self.nodes, self.seconds = 0, 0, 0.0

    def opinion(self) -> Opinion:
        """Return SCIP's opinion.

        Raises:
            KeyboardInterrupt: if it is interrupted.
        """
        answer = self._of_maps() if self.formulation is Formulation.ONE_SHOT else self._of_moving()
        found = (self.evaluator.incumbent, round(self.evaluator.incumbent_latency_s / PS)) if answer == "yes" else ()
        spent = self.rounds, self.nodes, round(self.seconds, 3)
        return Opinion(answer, self.solver, *spent, self.gap, self.latency_ps, *found)

    def _of_maps(self) -> Answer:
        """Ask the program of levels; where copies are the difficulty, the one that follows them, too."""
        model, cuts = build_static(self.task), list[Rows]()
        while True:
            reply = self._ask(program_of(model, cuts), model.unit_ps, model.overhead_ps)
            if reply.values is None:
                return "no" if reply.infeasible else "open"
            level = levels_of(model, reply.values)
            kept = level if self.task.streams_weights else without_useless_tensors(self.task, level)
            plans, conflicts = placed(self.task, kept, SEED, self.clock)
            for plan in plans:
                self._offer(plan)
            if self._found:
                return "yes"
            certain = [conflict for conflict in conflicts if is_certain(self.task, model, conflict)]
            if not certain:
                return self._of_moving(held=True) if self.task.streams_weights else "open"
            cuts += [cut(self.task, model, conflict, level) for conflict in certain]

    def _of_moving(self, held: bool = False) -> Answer:
        """Ask the program of plans that move tensors; if `held`, of those among them that move none."""
        if not is_tractable(self.task):
            return "open"
        search = Search(self.task, self._offer, self.clock, lambda _: None, SEED)
        search.detail = Detail(held=True) if held else linear_bound(self.task, self.clock).rows
        search.detail |= lengths_of_copies(self.task, self.plan)
        while True:
            model = build_dynamic(self.task, search.detail)
            reply = self._ask(model.program, model.unit_ps)
            if reply.values is None:
                return "no" if reply.infeasible else "open"
            before = len(search.detail)
            search.detail |= copies_begun_early(model, reply.values)
            search.complete(Decisions.of_values(model, reply.values), self.clock)
            if self._found:
                return "yes"
            if len(search.detail) == before:
                return "open"

    def _ask(self, program: LinearProgram, unit_ps: float, overhead_ps: int = 0) -> scip.Reply:
        self.rounds, self.program, self.cutoff = self.rounds + 1, program, (self.cutoff_ps - overhead_ps) / unit_ps
        reply = scip.find_below(program, self.cutoff, self.clock.seconds_left)
        self.nodes, self.seconds = self.nodes + reply.nodes, self.seconds + reply.seconds
        return reply

    def _offer(self, plan: MemoryPlan) -> int:
        return self.evaluator.offer(plan).latency_ps

    @property
    def _found(self) -> bool:
        """True once a plan of at most the cutoff was offered."""
        return self.evaluator.incumbent_latency_s <= self.cutoff_ps * PS

"""Tie-breaks among plans that move tensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memplace_agents.exact.dynamic.decisions import Decisions
from memplace_agents.exact.dynamic.detail import Detail, lengths_of_copies
from memplace_agents.exact.dynamic.dynamic_model import DynamicModel, build, without_early
from memplace_agents.exact.dynamic.dynamic_search import Search
from memplace_agents.exact.highs import LinearProgram, solve, uninterrupted
from memplace_agents.exact.tie_break import ROUNDING_PS, Remaining, saves
from memplace_agents.search.evaluator import Evaluator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.roles import without_penalties
from memplace_env.placement.simulator import backing_port_ps


class DynamicTies:
    """Second search after `DynamicSearch`, or after any other search for plans that move tensors.

    Two programs minimise the time of the backing port, write-backs and copies included, each from the best plan so far.
    In the first no op, with the wait behind it, may take longer than in that plan; in the second the whole may not.

    Args:
        evaluator: evaluates plans; its incumbent is the plan to begin with.
        detail: parts that the first search modelled by integers.
    """

    def __init__(self, evaluator: Evaluator, detail: Detail) -> None:
        self.evaluator, self.task = evaluator, evaluator.env.task
        self.left = Remaining.of(evaluator)
        self.search = Search(self.task, self._prefer, self.left.clock, lambda _: self.left.report())
        self.search.detail = detail

    def run(self) -> None:
        """Run both programs; the incumbent becomes a better plan if one is found."""
        assert self.evaluator.incumbent is not None
        self.search.detail |= lengths_of_copies(self.task, self.evaluator.incumbent)
        for whole in (False, True):
            if not self.left.clock.up:
                self._pass(self.evaluator.incumbent, whole)

    def _pass(self, plan: MemoryPlan, whole: bool) -> None:
        """Solve one program from a plan on, and offer the plan of its answer."""
        model = build(self.task, self.search.detail)
        fastest = without_early(model, Decisions.of_plan(self.task, plan).fixed(model))
        start = uninterrupted(solve(fastest, clock=self.left.clock, tight_tolerance=True)).values
        if start is None:
            return
        program = without_early(model, port_program(model))
        most = start[model.columns.time] + ROUNDING_PS / model.unit_ps
        port = backing_port_ps(self.task, plan) / model.unit_ps
        if whole:
            program = program.with_row(model.program.cost, float(most.sum()))
        else:
            upper = program.upper.copy()
            upper[model.columns.time] = most
            program = replace(program, upper=upper)
        answer = self.left.solve(program, np.where(program.integrality, start, np.nan), whole)
        if answer.values is not None and saves(program, answer.values, port):
            self.search.complete(Decisions.of_values(model, answer.values), self.left.clock)

    def _prefer(self, plan: MemoryPlan) -> int:
        return self.evaluator.prefer(plan).latency_ps


def port_program(model: DynamicModel) -> LinearProgram:
    """Return the program that minimises the time for which uses and copies keep the backing memory's port busy."""
    task, columns, unit = model.task, model.columns, model.unit_ps
    costs, backing = without_penalties(task.costs, task.program, task.allowed), task.backing
    cost = np.zeros(len(model.program.cost))
    # A use adds the backing memory's time unless a fast level serves it; a copy counts by its share at its end.
    for level in range(backing):
        served = columns.fast[:, level] >= 0
        cost[columns.fast[served, level]] -= costs.use_ps[served, backing] / unit
    for use, level in np.argwhere(columns.copied >= 0).tolist():
        cost[model.copying(use, level).stop - 1] += costs.prefetch_ps[task.program.use_tensor[use]] / unit
    for tensor, level in np.argwhere(columns.sent >= 0).tolist():
        cost[model.sending(tensor, level).stop - 1] += costs.writeback_ps[tensor] / unit
    touched = columns.touches[:, backing]
    cost[touched[touched >= 0]] += costs.latency_ps[backing] / unit
    return replace(model.program, cost=cost, offset=float(costs.use_ps[:, backing].sum() / unit))

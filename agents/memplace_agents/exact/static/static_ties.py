"""Tie-breaks among plans with one level for each tensor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memplace_agents.exact.highs import Floats, LinearProgram
from memplace_agents.exact.static.cuts import Cut, cut
from memplace_agents.exact.static.static_addresses import placed
from memplace_agents.exact.static.static_model import StaticModel, is_large
from memplace_agents.exact.static.static_solve import levels_of, program_of
from memplace_agents.exact.tie_break import ROUNDING_PS, Remaining, saves
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_env.placement.simulator import Report, backing_port_ps, evaluate_plan
from memplace_env.program.program import Ints

ROUNDS = 20
"""Most levels that may turn out to have no addresses, or to be slower by a rounded picosecond. Our choice."""


class StaticTies:
    """Second search after `StaticSearch`, or after any other search for levels.

    Two programs minimise the time of the backing port, each from the best plan so far. In the first no op may take
    longer than in that plan: it is small, as most tensors' levels follow, and finds the best in most tasks. In the
    second the whole may not take longer.

    Args:
        evaluator: evaluates plans; its incumbent is the plan to begin with.
        model: the program of the first search.
        cuts: its constraints about addresses; more are added.
    """

    def __init__(self, evaluator: OneShotEvaluator, model: StaticModel, cuts: list[Cut]) -> None:
        self.evaluator, self.task, self.model, self.cuts = evaluator, evaluator.env.task, model, cuts
        self.left = Remaining.of(evaluator)

    def run(self) -> None:
        """Run both programs; the incumbent becomes a better plan if one is found. Large programs keep theirs."""
        for whole in () if is_large(self.model) else (False, True):
            if not self.left.clock.up:
                self._rounds(whole)

    def _rounds(self, whole: bool) -> None:
        """Solve one program until its answer is a plan that is no slower."""
        plan = self.evaluator.incumbent
        assert plan is not None
        best, port = evaluate_plan(self.task, plan), backing_port_ps(self.task, plan) / self.model.unit_ps
        start = self._start(plan.tensor_levels(self.task.program))
        slower = np.zeros(self.task.program.num_ops + 1, dtype=np.int64)
        level: Ints | None = None
        for _ in range(ROUNDS):
            program = program_of(self.model, self.cuts)
            program = replace(program, cost=self.model.port, offset=self.model.port_constant)
            program = self._no_slower(program, best, slower, whole)
            answer = self.left.solve(program, start, whole)
            if answer.values is None or not saves(program, answer.values, port) or self.left.clock.up:
                break
            last, level = level, levels_of(self.model, answer.values)
            if last is not None and np.array_equal(last, level):
                break  # the bounds could not be moved further
            plans, conflicts = placed(self.task, level, self.left.clock)
            self.cuts += [cut(self.task, self.model, conflict, level) for conflict in conflicts]
            if conflicts:
                continue
            report = self.evaluator.prefer(plans[0])
            if report.latency_ps <= best.latency_ps:
                break
            slower[:-1] += np.maximum(report.op_time_ps - best.op_time_ps, 0)
            slower[-1] += report.latency_ps - best.latency_ps

    def _no_slower(self, program: LinearProgram, best: Report, slower: Ints, whole: bool) -> LinearProgram:
        """Return the program with times bounded by those of the best plan.

        Args:
            program: the program without such bounds.
            best: the plan's report.
            slower: int64[T+1], by how much earlier answers turned out to be slower, in each op and as a whole: the
                model rounds the costs of tensors that are alike, and lets copies arrive at the last moment.
            whole: False for bounds on each op and stall, True for one on the latency.
        """
        model, costs = self.model, self.task.costs
        if whole:
            most = best.latency_ps - model.overhead_ps + ROUNDING_PS - slower[-1]
            return program.with_row(model.program.cost, most / model.unit_ps)
        upper = program.upper.copy()
        most = best.op_time_ps - costs.overhead_ps + ROUNDING_PS - slower[:-1]
        upper[model.op] = np.maximum(most / model.unit_ps, program.lower[model.op])
        if len(model.stall):
            upper[model.stall] = (best.stall_ps + ROUNDING_PS) / model.unit_ps
        return replace(program, upper=upper)

    def _start(self, level: Ints) -> Floats:
        """Return the columns x of levels, float64[C]; the others are NaN."""
        start = np.full(len(self.model.program.cost), np.nan)
        column = self.model.column
        start[column[column >= 0]] = 0
        fast = np.flatnonzero(level < self.task.backing)
        chosen = column[fast, level[fast]]
        np.add.at(start, chosen[chosen >= 0], 1)
        return start

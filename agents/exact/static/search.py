"""Rounds of linear program, addresses and cuts, for the best mapping that can be placed."""

from __future__ import annotations

import numpy as np

from agents.evaluator import MapEvaluator
from agents.exact.packing import Conflict, pack
from agents.exact.static.cuts import cut
from agents.exact.static.mapping import descend, keep_what_pays, lives
from agents.exact.static.model import Rows, build
from agents.exact.static.solve import solve_model
from agents.solution import Verdict
from memplace_env.compiler import HEURISTICS, place_mapping
from memplace_env.compiler.compile import plan_of_levels
from memplace_env.compiler.density import density_mappings
from memplace_env.compiler.evaluate import evaluate_choices
from memplace_env.compiler.schedule import ORDERS, schedule_of
from memplace_env.plan import MemoryPlan
from memplace_env.units import PS
from memplace_env.workload.program import Ints

SOLVER_SHARE = 0.9
"""Share of the remaining time that the linear program may take, so that some is left to make a plan of its answer."""
GUESSES = 20
"""Rounds with a cut that is not proven: they find plans but no longer raise the bound."""


class MapSearch:
    """State of one run: the bound, the best latency and the cuts. The compiler's own plan is the first one offered."""

    def __init__(self, evaluator: MapEvaluator, mip_gap: float, cheap: bool, seed: int) -> None:
        problem = evaluator.env.problem
        self.evaluator, self.task = evaluator, problem.task
        self.mip_gap, self.seed = mip_gap, seed
        self.bound_ps = problem.native_report.traffic_bound_ps
        self.best_ps = evaluator.offer(problem.native_plan).latency_ps
        if cheap:
            known = [rule(self.task) for name, rule in HEURISTICS.items() if name != "native"]
            known += [place_mapping(self.task, mapping).plan for mapping in density_mappings(self.task)]
            for plan in known[: max(evaluator.remaining - 1, 0)]:
                self._offer(plan)
        self.level: Ints | None = None

    @property
    def optimal(self) -> bool:
        """Whether the best plan is proven to be within the gap."""
        return self.best_ps <= self.bound_ps * (1 + self.mip_gap)

    def run(self) -> None:
        """Everything that is done after the plans that are known."""
        self._rounds()
        if not self.optimal and self.evaluator.remaining > 1:
            self._improve()

    def verdict(self) -> Verdict:
        """What has been proven so far."""
        return Verdict("optimal" if self.optimal else "feasible", self.bound_ps * PS)

    def _rounds(self) -> None:
        """Linear program, addresses, cuts, until there is nothing left to forbid."""
        model, cuts, unproven = build(self.task), list[Rows](), 0
        tried: set[bytes] = set()
        while not self.optimal and self.evaluator.remaining > 0 and unproven <= GUESSES:
            left = self.evaluator.seconds_left
            # Half the gap here, so that rounding does not use up the whole.
            seconds = None if left is None else left * SOLVER_SHARE
            answer = solve_model(model, cuts, self.mip_gap / 2, seconds, self._tell)
            if not unproven:
                self.bound_ps = max(self.bound_ps, answer.bound_ps)
            if answer.level is None or answer.level.tobytes() in tried:
                break
            tried.add(answer.level.tobytes())
            conflicts = self._realise(answer.level)
            if answer.interrupted:
                raise KeyboardInterrupt
            if not conflicts:
                break
            cuts += [cut(self.task, model, conflict) for conflict in conflicts]
            unproven += not all(map(self._holds_always, conflicts))

    def _holds_always(self, conflict: Conflict) -> bool:
        """Whether no plan at all has these tensors together; streamed weights could have other lives."""
        tensors = np.concatenate([conflict.blocks, conflict.permanent])
        streamed = self.task.streams_weights and bool((self.task.program.producer[tensors] < 0).any())
        return conflict.proven and not streamed

    def _realise(self, level: Ints) -> list[Conflict]:
        """Offer plans of a mapping; what keeps it from becoming one, if anything does."""
        if not self.task.streams_weights:
            level = keep_what_pays(self.task, level)
        compiled = [place_mapping(self.task, level, order) for order in ORDERS]
        whole = [plan for plan, reassigned in compiled if reassigned == 0]
        conflicts: list[Conflict] = []
        if not whole:
            blocks = lives(self.task, level)
            offset, conflicts = pack(self.task, blocks, self.seed, self._expired)
            if not conflicts:
                whole = [plan_of_levels(self.task, blocks.level, offset, blocks.copy_start)]
        before = self.best_ps
        for plan in whole[:1] or [plan for plan, _ in compiled]:
            self._offer(plan)
        if self.level is None or self.best_ps < before:
            self.level = level
        return conflicts

    def _expired(self) -> bool:
        return self.evaluator.seconds_left == 0

    def _improve(self) -> None:
        """Single moves from the linear program's mapping, or from native's wish for the fastest level if better."""
        tensors = self.task.program.num_tensors
        greedy = np.zeros(tensors, dtype=np.int64)
        starts = [greedy] if self.level is None else [self.level, greedy]
        schedule = schedule_of(self.task, "weights-before-results")
        costs = evaluate_choices(schedule, np.array(starts), np.arange(tensors)).latency_ps
        level, count = descend(
            self.task,
            starts[costs.argmin()],
            seed=self.seed,
            budget=self.evaluator.remaining - 1,
            seconds=self.evaluator.seconds_left,
        )
        self.evaluator.spend(count)
        self._offer(place_mapping(self.task, level).plan)

    def _tell(self, bound_ps: float) -> None:
        self.evaluator.prove(max(bound_ps, self.bound_ps) * PS)

    def _offer(self, plan: MemoryPlan) -> None:
        self.best_ps = min(self.best_ps, self.evaluator.offer(plan).latency_ps)

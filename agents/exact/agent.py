"""The exact agent: a linear program says where tensors go and what no plan can beat, a packer finds addresses."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from agents.base import Callback, Outcome, Solution
from agents.evaluator import Evaluator
from agents.exact.cuts import cut
from agents.exact.mapping import descend, lives, settle
from agents.exact.model import Rows, build
from agents.exact.packing import Conflict, pack
from agents.exact.solve import solve
from memplace_env.compiler.compile import compile_mapping, plan_of_levels
from memplace_env.compiler.evaluate import evaluate
from memplace_env.compiler.schedule import Order, schedule
from memplace_env.errors import AgentError
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import BuiltinSimulator
from memplace_env.simulator.report import SECONDS
from memplace_env.workload.program import Ints

LEAST_GAP = 1e-5
"""Finer gaps drown in HiGHS's tolerances, see `solve.BOUND_MARGIN`."""
SOLVER_SHARE = 0.9
"""Share of the remaining time that the linear program may take, so that some is left to make a plan of its answer."""
GUESSES = 20
"""Rounds with a cut that is not proven: they find plans but no longer raise the bound."""
ORDERS: tuple[Order, ...] = ("weights-before-results", "results-before-weights", "all-weights-first")


class Exact:
    """Solves the one-shot problem to proven optimality, or says how far it may be from it.

    Rounds of: solve the mixed-integer linear program of `model`; find addresses for its mapping (`packing`); where
    there are none, forbid what stands in the way (`cuts`) and solve again. If no round ends in addresses for
    everything, single moves improve the best compiled mapping while the budget lasts.

    Outcomes: "optimal" iff latency <= bound * (1 + mip_gap), the bound being proven for all plans that give each
    tensor one level and, where weights are streamed, one copy to each weight in fast memory; "feasible" otherwise.
    Never "infeasible": everything fits in the backing memory. The bound never rests on what the packer failed to
    find without proof.

    Args:
        mip_gap: relative gap at which a plan counts as optimal, in [1e-5, 1).

    Raises:
        AgentError: if the gap is out of range.
    """

    name = "exact"
    budgeted = False

    def __init__(self, mip_gap: float = 1e-4) -> None:
        if not LEAST_GAP <= mip_gap < 1:
            raise AgentError(f"mip_gap={mip_gap} is out of range; pass one in [{LEAST_GAP:g}, 1).")
        self.mip_gap = mip_gap

    def solve(
        self,
        env: str | gym.Env[Any, Any],
        *,
        budget: int = 4000,
        seed: int = 0,
        callback: Callback | None = None,
        time_limit: float | None = None,
    ) -> Solution:
        """See `agents.base.Agent.solve`. The compiler's own plan is the first one offered."""
        evaluator = Evaluator(env, budget=budget, callback=callback, time_limit=time_limit)
        return _Search(evaluator, self.mip_gap, seed).run(self.name)


class _Search:
    """State of one run: the bound, the best latency and the cuts."""

    def __init__(self, evaluator: Evaluator, mip_gap: float, seed: int) -> None:
        problem = evaluator.env.problem
        if type(problem.simulator) is not BuiltinSimulator:
            raise AgentError(
                "The exact agent knows the costs of the built-in simulator only; make the environment without "
                "simulator=, or use another agent."
            )
        self.evaluator = evaluator
        self.program, self.accelerator = problem.program, problem.accelerator
        self.mip_gap, self.seed = mip_gap, seed
        self.bound_ps = problem.native_report.lower_bound_ps
        self.best_ps = evaluator.offer(problem.native_plan).latency_ps
        self.level: Ints | None = None

    @property
    def optimal(self) -> bool:
        """Whether the best plan is proven to be within the gap."""
        return self.best_ps <= self.bound_ps * (1 + self.mip_gap)

    def run(self, name: str) -> Solution:
        """Everything the agent does, after native's plan."""
        self._rounds()
        if not self.optimal and self.evaluator.remaining > 1:
            self._improve()
        outcome: Outcome = "optimal" if self.optimal else "feasible"
        return self.evaluator.solution(name, self.seed, outcome, self.bound_ps * SECONDS)

    def _rounds(self) -> None:
        """Linear program, addresses, cuts, until there is nothing left to forbid."""
        model, cuts, unproven = build(self.program, self.accelerator), list[Rows](), 0
        tried: set[bytes] = set()
        while not self.optimal and self.evaluator.remaining > 0 and unproven <= GUESSES:
            left = self.evaluator.seconds_left
            # Half the gap here, so that rounding does not use up the whole.
            answer = solve(model, cuts, self.mip_gap / 2, None if left is None else left * SOLVER_SHARE)
            if not unproven:
                self.bound_ps = max(self.bound_ps, answer.bound_ps)
            if answer.level is None or answer.level.tobytes() in tried:
                break
            tried.add(answer.level.tobytes())
            conflicts = self._realise(answer.level)
            if not conflicts:
                break
            cuts += [cut(self.program, self.accelerator, model, conflict) for conflict in conflicts]
            unproven += not all(map(self._holds_always, conflicts))

    def _holds_always(self, conflict: Conflict) -> bool:
        """Whether no plan at all has these tensors together; streamed weights could have other lives."""
        tensors = np.concatenate([conflict.blocks, conflict.permanent])
        streamed = self.accelerator.weights == "streamed" and bool((self.program.producer[tensors] < 0).any())
        return conflict.proven and not streamed

    def _realise(self, level: Ints) -> list[Conflict]:
        """Offer plans of a mapping; what keeps it from becoming one, if anything does."""
        if self.accelerator.weights == "resident":
            level = settle(self.program, self.accelerator, level)
        compiled = [compile_mapping(self.program, self.accelerator, level, order) for order in ORDERS]
        whole = [plan for plan, reassigned in compiled if reassigned == 0]
        conflicts: list[Conflict] = []
        if not whole:
            blocks = lives(self.program, self.accelerator, level)
            offset, conflicts = pack(self.program, self.accelerator, blocks, self.seed, self._expired)
            if not conflicts:
                whole = [plan_of_levels(self.program, self.accelerator, blocks.level, offset, blocks.copy_start)]
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
        greedy = np.zeros(self.program.num_tensors, dtype=np.int64)
        starts = [greedy] if self.level is None else [self.level, greedy]
        slot = np.arange(self.program.num_tensors)
        costs = evaluate(schedule(self.program, self.accelerator), np.array(starts), slot).latency_ps
        level, count = descend(
            self.program,
            self.accelerator,
            starts[costs.argmin()],
            seed=self.seed,
            budget=self.evaluator.remaining - 1,
            seconds=self.evaluator.seconds_left,
        )
        self.evaluator.evaluations += count
        self._offer(compile_mapping(self.program, self.accelerator, level).plan)

    def _offer(self, plan: MemoryPlan) -> None:
        self.best_ps = min(self.best_ps, self.evaluator.offer(plan).latency_ps)

"""The base of both exact searches: bounds beside the best plan, the question after a proof, a second proof."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil
from typing import NamedTuple

from memplace_agents.exact.clock import Clock
from memplace_agents.exact.highs import LinearProgram, find_below, solver_name
from memplace_agents.optimality import OPTIMAL_GAP, WEAK_DUALITY, Proof, warn_of_false_bound
from memplace_agents.search.evaluator import Evaluator
from memplace_agents.solution import Verdict
from memplace_env._lib.units import PS
from memplace_env.placement.memory_plan import MemoryPlan

MORE, LEAST_QUESTION = 4.0, 1.0
"""Work of the question after a proof for each second of the proof's, as without presolve the solver counts four times
as much in the same time, roughly; and the least of it, or the fewest seconds. Our choice."""


class Claim(NamedTuple):
    """A bound in ps that branch and bound has proven, and the program that it is of.

    Attributes:
        bound_ps: the bound; 0 if there is none.
        program: minimises the latency.
        unit_ps, overhead_ps: picoseconds of one unit of its objective, and those that it leaves out.
    """

    bound_ps: int = 0
    program: LinearProgram | None = None
    unit_ps: float = 1.0
    overhead_ps: int = 0

    @classmethod
    def of(cls, program: LinearProgram, bound: float, unit_ps: float, overhead_ps: int = 0) -> Claim:
        """Return the claim that the optimum of a program is at least `bound` units."""
        return cls(ceil(bound * unit_ps) + overhead_ps, program, unit_ps, overhead_ps)


class ProvingSearch(ABC):
    """A search for plans that bounds the latency of all plans of its kind.

    A bound is never above a plan in hand: where one is, the solver is at fault, the tree's bound is void, and what
    weak duality proves remains.

    Args:
        evaluator: receives all plans.
        gap: relative gap at which a plan counts as optimal.
        clock: ends the search.
        sound_ps: bound by weak duality so far.

    Attributes:
        presolve: False once a proof turned out to be false: the next one takes the programs as they are.
    """

    def __init__(self, evaluator: Evaluator, gap: float, clock: Clock, sound_ps: int) -> None:
        self.evaluator, self.task, self.gap, self._clock = evaluator, evaluator.env.task, gap, clock
        self._sound_ps, self._claim, self._begun = sound_ps, Claim(), clock.meter.now
        self.presolve, self._checked, self._refuted = True, False, False

    @property
    def bound_ps(self) -> int:
        """Highest lower bound that is proven."""
        return max(self._sound_ps, self._claim.bound_ps)

    @property
    def best_ps(self) -> float:
        """Latency of the best plan, whoever found it; infinite before there is one."""
        latency_s = self.evaluator.incumbent_latency_s
        return round(latency_s / PS) if latency_s < float("inf") else latency_s

    @property
    def closed(self) -> bool:
        """True if the bound leaves no faster plan beyond the gap; it may be false, see `contradicted`."""
        return self.best_ps <= self.bound_ps * (1 + self.gap)

    @property
    def contradicted(self) -> bool:
        """True if the bound is false: a plan is below it, or its program has a solution below it."""
        return self._refuted or self.best_ps < self.bound_ps

    @property
    def optimal(self) -> bool:
        """True if the best plan is proven to be within the gap."""
        return self.closed and not self.contradicted

    def check(self) -> None:
        """Ask the program of a proof, without presolve, for a solution that is faster than the plan by more than 1e-4.

        It may take as long as the search for the proof. A yes makes the bound `contradicted`.

        Raises:
            KeyboardInterrupt: if an interrupt ended it.
        """
        if not self.optimal:
            return
        self._checked = self.best_ps <= self._sound_ps * (1 + self.gap)
        claim = self._claim
        if self._checked or claim.program is None:
            return
        faster_ps = self.best_ps * (1 - max(self.gap, OPTIMAL_GAP))
        meter = self._clock.meter
        clock = self._clock.part(max((meter.now - self._begun) * (MORE if meter.counts_work else 1), LEAST_QUESTION))
        faster = find_below(claim.program, (faster_ps - claim.overhead_ps) / claim.unit_ps, clock)
        self._checked, self._refuted = faster is False, faster is True

    def prove_again(self) -> None:
        """Void a bound that is contradicted, and prove another one without presolve, from the best plan on.

        Raises:
            KeyboardInterrupt: if an interrupt ended it.
        """
        self._void()
        if self.presolve:
            self.presolve = False
            self._prove()
            self.check()

    def verdict(self) -> Verdict:
        """Return what has been proven so far; of a bound that is contradicted, what weak duality proves."""
        if self.contradicted:
            self._void()
        treed = self._claim.bound_ps > self._sound_ps
        proof = Proof(
            sound_s=self._sound_ps * PS,
            solver=solver_name() if treed else None,
            presolve=treed and self.presolve,
            checked=self._checked,
        )
        return Verdict("optimal" if self.optimal else "feasible", self.bound_ps * PS, proof=proof)

    @abstractmethod
    def run(self) -> None:
        """Search until the best plan is proven or the time is up."""

    @abstractmethod
    def break_ties(self) -> None:
        """Replace the best plan by one that is as fast and keeps the backing memory's port less busy, if one is found.

        Raises:
            KeyboardInterrupt: if an interrupt ended it.
        """

    @abstractmethod
    def _prove(self) -> None:
        """Prove a bound from the best plan on."""

    def _offer(self, plan: MemoryPlan) -> int:
        """Offer a plan; return its latency in ps."""
        return self.evaluator.offer(plan).latency_ps

    def _report_bound(self, bound_ps: float) -> None:
        """Report a bound in ps, or the proven one if that is higher."""
        self.evaluator.prove(max(bound_ps, self.bound_ps) * PS)

    def _void(self) -> None:
        treed = self._refuted or self._claim.bound_ps > self._sound_ps
        warn_of_false_bound(self.bound_ps, round(self.best_ps), solver_name() if treed else WEAK_DUALITY, self._refuted)
        self._claim, self._refuted, self._checked = Claim(), False, False
        if self.best_ps < self._sound_ps:
            self._sound_ps = 0
        self.evaluator.retract()

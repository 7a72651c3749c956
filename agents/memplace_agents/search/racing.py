"""Choice of the fastest plan from noisy measurements, such that no plan is kept for a lucky one.

During the search the incumbent is raced as in ROAR (Hutter, Hoos and Leyton-Brown, LION 2011): a plan whose first
measurement is better challenges it, is measured again in doubling portions, and loses as soon as its mean is worse; it
becomes the incumbent if it is still better after as many measurements. At the end, sequential halving (Karnin, Koren
and Somekh, ICML 2013) decides between the plans with the best means. The measurement that made a plan a challenger was
selected for being low, so it counts in no mean. All constants are our choice, from trials on ResNet50 and BERT with 5 %
noise and 1000 evaluations.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memplace_agents.saved_values import load_random, number, optional, random_state, whole
from memplace_env._lib.threads import cached_property
from memplace_env._lib.units import PS
from memplace_env.envs.wrappers.measurement_noise import noise_factors
from memplace_env.placement.compiler import all_backing, all_backing_report
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import Report, evaluate_plan, time_plan
from memplace_env.placement.task import Task, derived

REPEATS_FRACTION = 0.25
"""Fraction of the budget for repeated measurements."""
FINAL_FRACTION = 0.25
"""Fraction of the repeated measurements that is kept for the final halving."""
FINAL_TIME_FRACTION = REPEATS_FRACTION * FINAL_FRACTION
"""Fraction of a time limit that is kept for the final halving."""
RUNS = 8
"""Number of measurements after which the incumbent is not measured again in a race."""
FINALISTS = 8
"""Number of plans that are kept for the final halving, by their means, and of those that wait for their race."""
LEAST = 4
"""Least number of measurements of a plan in each round of the final halving, which limits the number of finalists."""
CREDIT = 2 * RUNS
"""Number of measurements that races may be ahead of the search, so that the first plans race at once."""


@dataclass(eq=False)
class Candidate:
    """A plan and its measurements.

    Attributes:
        name: identifies the plan.
        first_s: first measurement in seconds.
        make: returns the plan; called only if needed, as it takes time.
        exact_s: its true latency in seconds; None if a noisy black box does not reveal it.
        count, total_s: number and sum of its later measurements.
        report: latest report of a black box.
    """

    name: str
    first_s: float
    make: Callable[[], MemoryPlan]
    exact_s: float | None
    count: int = 0
    total_s: float = 0.0
    report: Report | None = None

    @cached_property
    def plan(self) -> MemoryPlan:
        """The plan, made when it is first needed."""
        return self.make()

    @property
    def mean_s(self) -> float:
        """Mean of the later measurements; the first if there is no other."""
        return self.total_s / self.count if self.count else self.first_s

    @property
    def estimate_s(self) -> float:
        """Estimate of the latency: the true one if it is known, else the mean."""
        return self.mean_s if self.exact_s is None else self.exact_s

    def add(self, latency_s: float, report: Report | None = None) -> None:
        """Add a measurement."""
        self.count, self.total_s, self.report = self.count + 1, self.total_s + latency_s, report

    def state_dict(self) -> dict[str, Any]:
        """Return all but the report as plain values."""
        fields = {name: getattr(self, name) for name in ("name", "first_s", "exact_s", "count", "total_s")}
        return fields | {"plan": self.plan.to_json()}

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> Candidate:
        """Return the candidate of a state that `state_dict` returned."""
        plan = MemoryPlan.from_json(state["plan"])
        return cls(
            str(state["name"]),
            number(state["first_s"], 0.0),
            lambda: plan,
            optional(state["exact_s"], 0.0),
            whole(state["count"]),
            number(state["total_s"], 0.0),
        )


class Race:
    """The incumbent of a search and its challengers.

    Args:
        budget: budget of the whole search, of which `REPEATS_FRACTION` is for repeated measurements.
        scale: relative standard deviation of the added noise.
        seed: seed of the noise.
        simulate: a noisy black box; None if the true latency of candidates is known.

    Attributes:
        scale: as passed in.
        fund: most repeated measurements in all.
        spent: number of repeated measurements so far.
        incumbent: the best plan; None before there is one.
    """

    def __init__(self, budget: int, scale: float, seed: int, simulate: Callable[[MemoryPlan], Report] | None) -> None:
        fund = int(REPEATS_FRACTION * budget)
        # With a noisy black box one is kept for the reported plan, in case it was measured only once.
        self.fund = fund if simulate is None else max(fund, min(budget - 1, 1))
        self.spent, self.scale = 0, scale
        self.incumbent: Candidate | None = None
        self._rate, self._simulate = (1 - FINAL_FRACTION) * self.fund / (budget - self.fund), simulate
        self._for_races = self.fund if simulate is None else max(self.fund - 1, 0)
        # Two streams of noise, so that first measurements do not depend on the repeated ones.
        self._first_noise, self._noise = (np.random.default_rng([seed, stream]) for stream in (1, 2))
        self._raced: list[Candidate] = []
        self._waiting: list[Candidate] = []

    def factors(self, count: int) -> NDArray[np.float64]:
        """Return the noise factors of the next first measurements, float64[count]."""
        return noise_factors(self._first_noise, self.scale, count)

    def enter(self, candidate: Candidate, evaluations: int) -> None:
        """Let a candidate challenge the incumbent if its first measurement is better, as far as the fund allows now."""
        same = next((other for other in self.field() if other.name == candidate.name), None)
        if same is not None:
            same.add(candidate.first_s, same.report)
        elif self.incumbent is None:
            self.incumbent = candidate
        elif candidate.first_s < self.incumbent.mean_s:
            insort(self._waiting, candidate, key=lambda waiting: waiting.first_s)
            del self._waiting[FINALISTS:]
        # The fund is spread evenly over the search, plus a credit at its start.
        allowed = min(self._rate * evaluations + CREDIT, (1 - FINAL_FRACTION) * self.fund)
        while self._waiting and self.spent < allowed:
            challenger, incumbent = self._waiting[0], self.incumbent
            if incumbent is None or challenger.first_s >= incumbent.mean_s:
                break
            self._challenge(incumbent, self._waiting.pop(0))

    def field(self) -> list[Candidate]:
        """Return all candidates that are kept, each once."""
        return list(dict.fromkeys([*filter(None, [self.incumbent]), *self._raced, *self._waiting]))

    def _challenge(self, incumbent: Candidate, challenger: Candidate) -> None:
        """Run one race; the winner becomes the incumbent."""
        if incumbent.count < RUNS:
            self._measure(incumbent)
        portion = 1
        # The challenger goes on while its mean is better, in portions of 1, 2, 4, ..., up to the incumbent's count.
        while challenger.count < incumbent.count and challenger.mean_s < incumbent.mean_s:
            for _ in range(min(portion, incumbent.count - challenger.count)):
                if not self._measure(challenger):
                    return
            portion *= 2
        if challenger.mean_s < incumbent.mean_s:
            self.incumbent = challenger
        self._raced = sorted(dict.fromkeys([*self._raced, incumbent, challenger]), key=_standing)[:FINALISTS]

    def finish(self, evaluations: int, stop: Callable[[], bool]) -> None:
        """Decide between the incumbent, the best plans that raced and those that wait, by sequential halving.

        Spends what is left of the fund, but at most as many measurements as the search itself, or as a short search
        needs.

        Args:
            evaluations: number of plans that the search evaluated.
            stop: called before each measurement; True ends the measurements.
        """
        field = sorted(self.field(), key=_standing)
        if not field:
            return
        left = min(self._for_races - self.spent, max(evaluations, RUNS * FINALISTS))
        self._raced, self._waiting = [], []
        # Halve the field until each plan gets at least `LEAST` measurements in each round.
        while len(field) > 1 and _rounds(field) * len(field) * LEAST > left:
            field = field[: (len(field) + 1) // 2]
        rounds = _rounds(field)
        for _ in range(rounds):
            for candidate in field * (left // rounds // len(field)):
                if not stop():
                    self._measure(candidate)
            field = sorted(field, key=_standing)[: (len(field) + 1) // 2]
        self.incumbent = field[0]

    def end(self) -> int:
        """Measure nothing again from now on; return the number of repeated measurements that this leaves."""
        freed = self.fund - self.spent
        self.fund = self._for_races = self.spent
        return freed

    def choose(self, candidate: Candidate) -> None:
        """Make a candidate the incumbent, without a race."""
        self.incumbent, self._raced, self._waiting = candidate, [], []

    def report(self, task: Task) -> tuple[Report, int | None]:
        """Return the report of the incumbent, which there is, and its number of measurements, None if it is exact.

        All but the latency is by cost arrays if the budget allowed one measurement only.
        """
        best = self.incumbent
        assert best is not None
        if self._simulate is None:
            return evaluate_plan(task, best.plan), None
        if best.report is None:  # measured only once, or repeatedly before a checkpoint
            if self.spent == self.fund:  # a budget of 1, of which nothing is left
                return replace(with_latency(time_plan(task, best.plan), best.first_s), traffic_bound_ps=1), 1
            report = evaluate_plan(task, best.plan)
            self.spent += 1
            best.add(report.latency_s * self._noise_factor(), report)
        assert best.report is not None
        return with_latency(best.report, best.mean_s), best.count

    def _measure(self, candidate: Candidate) -> bool:
        """Measure a candidate again; return False if the fund is spent."""
        if self.spent >= self._for_races:
            return False
        self.spent += 1
        report = self._simulate(candidate.plan) if self._simulate else None
        exact_s = report.latency_s if report else candidate.exact_s
        assert exact_s is not None
        candidate.add(exact_s * self._noise_factor(), report)
        return True

    def _noise_factor(self) -> float:
        return float(noise_factors(self._noise, self.scale, 1)[0])

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the race as plain values."""
        return {
            "spent": self.spent,
            "random": [random_state(noise) for noise in (self._first_noise, self._noise)],
            "incumbent": self.incumbent.state_dict() if self.incumbent else None,
            "raced": [candidate.state_dict() for candidate in self._raced if candidate is not self.incumbent],
            "waiting": [candidate.state_dict() for candidate in self._waiting],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        self.spent = whole(state["spent"])
        for noise, saved in zip((self._first_noise, self._noise), state["random"], strict=True):
            load_random(noise, saved)
        self.incumbent = Candidate.of_state(state["incumbent"]) if state["incumbent"] else None
        self._raced = [Candidate.of_state(saved) for saved in state["raced"]]
        self._waiting = [Candidate.of_state(saved) for saved in state["waiting"]]


def with_latency(report: Report, latency_s: float) -> Report:
    """Return the report with a measured latency instead of its own."""
    return replace(report, latency_ps=round(latency_s / PS))


def _rounds(field: list[Candidate]) -> int:
    """Return the number of halvings until one candidate is left."""
    return (len(field) - 1).bit_length()


def _standing(candidate: Candidate) -> tuple[bool, float]:
    """Return the sorting key of a candidate: best first, plans that were measured only once last."""
    return candidate.count == 0, candidate.mean_s


def race_of(task: Task, budget: int, scale: float, seed: int) -> Race | None:
    """Return the race of a search with added noise of this scale; None if measurements are exact."""
    if box_is_noisy(task):
        return Race(budget, scale, seed, partial(evaluate_plan, task, trusted=True))
    return Race(budget, scale, seed, None) if scale else None


@derived
def box_is_noisy(task: Task) -> bool:
    """Return whether a black box is noisy: its attribute `noisy`, else whether one plan gets two latencies."""
    declared = getattr(task.simulator, "noisy", None)
    if task.simulator is None or declared is not None:
        return bool(declared)
    again = evaluate_plan(task, all_backing(task), trusted=True)
    return again.latency_ps != all_backing_report(task).latency_ps

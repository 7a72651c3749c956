"""Which plan is fastest where every measurement is noisy: none is kept for a lucky draw.

During the search the incumbent is raced as in ROAR (Hutter, Hoos and Leyton-Brown, LION 2011): a plan whose first
measurement looks better challenges it, is measured again in doubling portions, and loses as soon as its mean is worse;
it takes the incumbent's place if it is still better after as many measurements. At the end, sequential halving (Karnin,
Koren and Somekh, ICML 2013) decides between the plans with the best means. The measurement that made a plan a
challenger was chosen for its luck, so it counts in no mean. All constants are our choice, from trials on ResNet50 and
BERT with 5 % noise and 1000 evaluations.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.saved import load_random, number, optional, random_state, whole
from memplace_env.compiler import all_backing, all_backing_report
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report, judge_plan
from memplace_env.task import Task, derived
from memplace_env.threads import cached_property
from memplace_env.units import PS
from memplace_env.wrappers.measurement_noise import noise_factors

SHARE = 0.25
"""Of the budget, for measuring again."""
LAST_SHARE = 0.25
"""Of that, for the end."""
RUNS = 8
"""Measurements after which the incumbent is not measured for another challenge."""
FINALISTS = 8
"""Plans that are remembered: so many by their means for the end, and so many that still wait for their race."""
LEAST = 4
"""Measurements in each round of the end; there are as few finalists as that takes."""
LAST_SECONDS = SHARE * LAST_SHARE
"""Share of a time limit for the end."""
CREDIT = 2 * RUNS
"""Measurements that races may be ahead of the search, so that the first plans race at once."""


@dataclass(eq=False)
class Candidate:
    """A plan and its measurements.

    Attributes:
        name: the same for the same plan.
        first_s: the measurement that brought it here.
        make: makes the plan, which takes a while.
        exact_s: its true latency in seconds; None where a noisy black box keeps it to itself.
        count, total_s: number and sum of its later measurements.
        report: what a black box said last.
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
        """The plan."""
        return self.make()

    @property
    def mean_s(self) -> float:
        """Mean of the later measurements, or the first if there is no other."""
        return self.total_s / self.count if self.count else self.first_s

    @property
    def believed_s(self) -> float:
        """What an honest observer says: the true latency where it is known, else the mean."""
        return self.mean_s if self.exact_s is None else self.exact_s

    def measured(self, latency_s: float, report: Report | None = None) -> None:
        """Add a measurement."""
        self.count, self.total_s, self.report = self.count + 1, self.total_s + latency_s, report

    def state_dict(self) -> dict[str, Any]:
        """All but the report, as plain values."""
        kept = {name: getattr(self, name) for name in ("name", "first_s", "exact_s", "count", "total_s")}
        return kept | {"plan": self.plan.to_json()}

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> Candidate:
        """The candidate that gave this state."""
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
        budget: of the search in all; `SHARE` of it is for measuring again, the rest for the search itself.
        scale: relative standard deviation of the noise that is added.
        seed: of the noise.
        judge: a noisy black box; None where candidates know their true latency.

    Attributes:
        scale: as passed in.
        fund: measurements that races may take in all.
        spent: those they took.
        incumbent: the best plan; None before there is one.
    """

    def __init__(self, budget: int, scale: float, seed: int, judge: Callable[[MemoryPlan], Report] | None) -> None:
        self.fund, self.spent, self.scale = int(SHARE * budget), 0, scale
        self.incumbent: Candidate | None = None
        self._rate, self._judge = (1 - LAST_SHARE) * self.fund / (budget - self.fund), judge
        # Of a noisy black box one is kept for the plan that is reported, should it never be measured again before.
        self._for_races = self.fund if judge is None else max(self.fund - 1, 0)
        # Two streams, so that what a search measures first does not depend on who was measured again before.
        self._first_noise, self._noise = (np.random.default_rng([seed, stream]) for stream in (1, 2))
        self._raced: list[Candidate] = []
        self._waiting: list[Candidate] = []

    def factors(self, count: int) -> NDArray[np.float64]:
        """float64[count], noise of the next first measurements."""
        return noise_factors(self._first_noise, self.scale, count)

    def enter(self, candidate: Candidate, evaluations: int) -> None:
        """Let a candidate challenge the incumbent if it looks better, as far as the fund allows after so many plans."""
        known = next((other for other in self.field() if other.name == candidate.name), None)
        if known is not None:
            known.measured(candidate.first_s, known.report)
        elif self.incumbent is None:
            self.incumbent = candidate
        elif candidate.first_s < self.incumbent.mean_s:
            insort(self._waiting, candidate, key=lambda waiting: waiting.first_s)
            del self._waiting[FINALISTS:]
        allowed = min(self._rate * evaluations + CREDIT, (1 - LAST_SHARE) * self.fund)
        while self._waiting and self.spent < allowed:
            challenger, incumbent = self._waiting[0], self.incumbent
            if incumbent is None or challenger.first_s >= incumbent.mean_s:
                break
            self._challenge(incumbent, self._waiting.pop(0))

    def field(self) -> list[Candidate]:
        """All that are remembered, each once."""
        return list(dict.fromkeys([*filter(None, [self.incumbent]), *self._raced, *self._waiting]))

    def _challenge(self, incumbent: Candidate, challenger: Candidate) -> None:
        """One race; the winner is the incumbent."""
        if incumbent.count < RUNS:
            self._measure(incumbent)
        portion = 1
        while challenger.count < incumbent.count and challenger.mean_s < incumbent.mean_s:
            for _ in range(min(portion, incumbent.count - challenger.count)):
                if not self._measure(challenger):
                    return
            portion *= 2
        if challenger.mean_s < incumbent.mean_s:
            self.incumbent = challenger
        self._raced = sorted(dict.fromkeys([*self._raced, incumbent, challenger]), key=_standing)[:FINALISTS]

    def finish(self, evaluations: int, stop: Callable[[], bool]) -> None:
        """Sequential halving between the incumbent, the best of those that raced and those that wait.

        Takes what is left of the fund, though not more than the search that is over took, or than is of use after a
        short one.

        Args:
            evaluations: what the search took.
            stop: asked before each measurement.
        """
        field = sorted(self.field(), key=_standing)
        if not field:
            return
        left = min(self._for_races - self.spent, max(evaluations, RUNS * FINALISTS))
        self._raced, self._waiting = [], []
        while len(field) > 1 and _rounds(field) * len(field) * LEAST > left:
            field = field[: (len(field) + 1) // 2]
        rounds = _rounds(field)
        for _ in range(rounds):
            for candidate in field * (left // rounds // len(field)):
                if not stop():
                    self._measure(candidate)
            field = sorted(field, key=_standing)[: (len(field) + 1) // 2]
        self.incumbent = field[0]

    def report(self, judge: Callable[[MemoryPlan], Report]) -> tuple[Report | None, int | None]:
        """What is said of the incumbent, and of how many measurements that is the mean; None where it is exact."""
        best = self.incumbent
        if best is None:
            return None, None
        if self._judge is None:
            return judge(best.plan), None
        if best.report is None:  # never measured again, or before a checkpoint
            report = judge(best.plan)
            self.spent += 1
            best.measured(report.latency_s * self._disturbance(), report)
        assert best.report is not None
        return with_latency(best.report, best.mean_s), best.count

    def _measure(self, candidate: Candidate) -> bool:
        """Measure again; False if the fund is spent."""
        if self.spent >= self._for_races:
            return False
        self.spent += 1
        report = self._judge(candidate.plan) if self._judge else None
        exact_s = report.latency_s if report else candidate.exact_s
        assert exact_s is not None
        candidate.measured(exact_s * self._disturbance(), report)
        return True

    def _disturbance(self) -> float:
        return float(noise_factors(self._noise, self.scale, 1)[0])

    def state_dict(self) -> dict[str, Any]:
        """All that decides how it goes on, as plain values."""
        return {
            "spent": self.spent,
            "random": [random_state(noise) for noise in (self._first_noise, self._noise)],
            "incumbent": self.incumbent.state_dict() if self.incumbent else None,
            "raced": [candidate.state_dict() for candidate in self._raced if candidate is not self.incumbent],
            "waiting": [candidate.state_dict() for candidate in self._waiting],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self.spent = whole(state["spent"])
        for noise, saved in zip((self._first_noise, self._noise), state["random"], strict=True):
            load_random(noise, saved)
        self.incumbent = Candidate.of_state(state["incumbent"]) if state["incumbent"] else None
        self._raced = [Candidate.of_state(saved) for saved in state["raced"]]
        self._waiting = [Candidate.of_state(saved) for saved in state["waiting"]]


def with_latency(report: Report, latency_s: float) -> Report:
    """The report with the latency that was measured."""
    return replace(report, latency_ps=round(latency_s / PS))


def _rounds(field: list[Candidate]) -> int:
    """Of halving until one is left."""
    return (len(field) - 1).bit_length()


def _standing(candidate: Candidate) -> tuple[bool, float]:
    """Best first; a plan that was measured only once comes after all others."""
    return candidate.count == 0, candidate.mean_s


def race_of(env: gym.Env[Any, Any], budget: int, seed: int) -> Race | None:
    """The race of a search in an environment; None where measurements are exact."""
    task: Task = env.unwrapped.task  # type: ignore[attr-defined]
    scale = env.get_wrapper_attr("measurement_noise") if env.has_wrapper_attr("measurement_noise") else 0.0
    noisy_box = box_is_noisy(task)
    if not scale and not noisy_box:
        return None
    return Race(budget, scale, seed, partial(judge_plan, task, trusted=True) if noisy_box else None)


@derived
def box_is_noisy(task: Task) -> bool:
    """Whether a black box measures: what it says of itself, else whether it says two things of one plan."""
    said = getattr(task.simulator, "noisy", None)
    if task.simulator is None or said is not None:
        return bool(said)
    again = judge_plan(task, all_backing(task), trusted=True)
    return again.latency_ps != all_backing_report(task).latency_ps

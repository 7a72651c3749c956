"""What every search shares: counting, timing, measuring, remembering the best, telling the callback.

Measurements are noisy where the environment is wrapped in `MeasurementNoise`, or where a black box says so (an
attribute `noisy`) or answers differently when it is asked twice about one plan. Searches then see noisy latencies, and
what is kept is decided by measuring again, see `agents.racing`: for that a share of the budget is put aside.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import memplace_env  # noqa: F401  (registers the environments)
from agents.racing import LAST_SECONDS, Candidate, box_is_noisy, race_of, with_latency
from agents.saved import number, whole
from agents.solution import Callback, Progress, Solution, Verdict
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.errors import AgentError
from memplace_env.plan import MemoryPlan, require_valid
from memplace_env.simulator import Report, in_parallel, judge_plan


class Evaluator(ABC):
    """Counts and times the plans of one search, remembers the best and tells the callback.

    Args:
        env: an id or a made environment.
        budget: plans to evaluate at most.
        callback: see `Agent.solve`.
        time_limit: seconds to spend at most, or None.
        seed: of the noise of measurements, if there is any.
        workers: processes in which a black box judges the plans of a batch; what it says is the same. Close the
            evaluator if there is more than one. Where cost arrays judge, there is nothing to share out.

    Attributes:
        env: the environment, without wrappers.
        evaluations: plans that the search evaluated so far; those measured again are on top.
        budget: plans that the search may evaluate at most; less than was passed where measurements are noisy.
    """

    kind: ClassVar[type[OneShotEnv | MallocGameEnv]]
    refusal: ClassVar[str]
    """What is said of other environments."""

    def __init__(
        self,
        env: str | gym.Env[Any, Any],
        *,
        budget: int,
        callback: Callback | None = None,
        time_limit: float | None = None,
        seed: int = 0,
        workers: int = 1,
    ) -> None:
        if workers < 1:
            raise AgentError(f"{workers} workers evaluate nothing; pass at least 1.")
        if budget < 1:
            raise AgentError(f"A budget of {budget} evaluations leaves nothing to do; pass at least 1.")
        if time_limit is not None and not time_limit > 0:
            raise AgentError(f"A time limit of {time_limit} s leaves nothing to do; pass more than 0.")
        made = gym.make(env) if isinstance(env, str) else env
        if not isinstance(made.unwrapped, self.kind):
            raise AgentError(f"{made} is no {self.refusal}")
        self.env: Any = made.unwrapped
        simulator = self.env.task.simulator
        self._crew = in_parallel(simulator, workers) if simulator is not None and workers > 1 else None
        if self._crew is not None:
            self.env = self.env.judged_by(self._crew)
        self._callbacks = [callback] if callback else []
        self._whole: Evaluator | None = None
        self._proves = True
        self._race = race_of(made, budget, seed)
        self._stop = float("inf") if time_limit is None else time_limit
        if self._race is not None:
            budget -= self._race.fund
            time_limit = None if time_limit is None else (1 - LAST_SECONDS) * time_limit
        self._start(budget, time_limit)

    def _start(self, budget: int, time_limit: float | None) -> None:
        self.evaluations = 0
        self.budget = budget
        self._time_limit = time_limit
        self._begin = time.perf_counter()
        self._history: list[Progress] = []
        self._best_plan: MemoryPlan | None = None
        self._best_latency = float("inf")
        self._bound_s: float | None = None

    def close(self) -> None:
        """End the workers, if there are any."""
        if self._crew is not None:
            self._crew.close()

    @property
    @abstractmethod
    def baseline_s(self) -> float:
        """Latency of the baseline of every speed-up."""

    @property
    def noise(self) -> float | None:
        """Relative standard deviation that measurements are given; 0 for a black box's own, None if they are exact."""
        return self._race.scale if self._race else None

    @property
    def noisy(self) -> bool:
        """Whether a plan that is evaluated again gets another latency."""
        return self._race is not None

    @property
    def remaining(self) -> int:
        """Plans that may still be evaluated, in a part no more than in the whole; 0 once the time is up."""
        if self._time_limit is not None and self.seconds >= self._time_limit:
            return 0
        left = max(self.budget - self.evaluations, 0)
        return left if self._whole is None else min(left, self._whole.remaining)

    @property
    def seconds(self) -> float:
        """Wall time since the search began."""
        return time.perf_counter() - self._begin

    @property
    def seconds_left(self) -> float | None:
        """Wall time that remains, or None without a limit."""
        return None if self._time_limit is None else max(self._time_limit - self.seconds, 0.0)

    @property
    def share_left(self) -> float:
        """Share of the budget that is left, or of the time if that is less; 1 at the start."""
        plans = 1 - self.evaluations / self.budget
        return plans if self._time_limit is None else max(min(plans, 1 - self.seconds / self._time_limit), 0.0)

    @property
    def best_latency_s(self) -> float:
        """Latency of the best plan so far; infinite before there is one."""
        return self._best_latency

    @property
    def best_speedup(self) -> float:
        """latency(baseline) / latency(best plan so far); 0 before there is one."""
        return self.baseline_s / self._best_latency

    @property
    def incumbent(self) -> MemoryPlan | None:
        """The best plan of the whole search so far, where a part of it begins; None before there is one."""
        return self._best_plan if self._whole is None else self._whole.incumbent

    @property
    def incumbent_latency_s(self) -> float:
        """Its latency; infinite before there is one."""
        return self._best_latency if self._whole is None else self._whole.incumbent_latency_s

    def part(self, share: float, seconds: float | None = None, proves: bool = True) -> Self:
        """An evaluator with a share of what is left of budget and time; what it evaluates counts here at once.

        Where the time has no limit it may take `seconds`. What it proves holds for the whole if `proves`.
        """
        part, left = copy(self), self.seconds_left
        part._callbacks, part._whole, part._proves = [], self, proves
        part._start(max(int(share * self.remaining), 1), seconds if left is None else share * left)
        return part

    def listen(self, callback: Callback) -> None:
        """Tell somebody else, before all others, after each round of evaluations."""
        self._callbacks.insert(0, callback)

    def spend(self, evaluations: int) -> None:
        """Count plans that were evaluated without this evaluator and are not to be remembered."""
        self.evaluations += evaluations
        if self._whole is not None:
            self._whole.spend(evaluations)

    def prove(self, bound_s: float) -> None:
        """Tell everybody what no plan can beat, and that the search is alive, if there is a plan already."""
        self._bound_s = max(bound_s, self._bound_s or 0.0) or None
        if self._whole is not None:
            self._whole.prove(bound_s if self._proves else 0.0)
        elif self._best_plan is not None:
            self._tell()

    def offer(self, plan: MemoryPlan) -> Report:
        """Count and time a plan, and keep it if it is the best.

        Raises:
            PlanError: if the plan is not valid.
        """
        report = judge_plan(self.env.task, plan)
        measured = self._measured(np.array([report.latency_s]), lambda _: (plan.to_json().encode(), lambda: plan))
        self._account(1, measured[0].item(), lambda: plan)
        return with_latency(report, measured[0].item()) if self.noisy else report

    def solution(self, agent: str, seed: int, verdict: Verdict = Verdict()) -> Solution:  # noqa: B008
        """The best plan so far, validated, with everything that is known of it."""
        report, measurements = self._settled()
        plan, outcome = self._best_plan, verdict.outcome
        return Solution(
            agent=agent,
            outcome=outcome if plan is not None or outcome == "infeasible" else "unknown",
            plan=plan,
            report=report,
            native_latency_s=self.baseline_s,
            bound_s=verdict.bound_s,
            history=tuple(self._history),
            evaluations=self._counted,
            seconds=self.seconds,
            seed=seed,
            stints=verdict.stints,
            measurements=measurements,
        )

    def state_dict(self) -> dict[str, Any]:
        """What has been found and spent, as plain values."""
        return {
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "history": [list(progress) for progress in self._history],
            "plan": self._best_plan.to_json() if self._best_plan else None,
            "latency_s": self._best_latency if self._best_plan else None,
            **({"race": self._race.state_dict()} if self._race else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; the clock goes on as well."""
        self.evaluations = whole(state["evaluations"])
        self._begin = time.perf_counter() - number(state["seconds"], 0.0)
        self._history = [Progress.of_state(saved) for saved in state["history"]]
        self._best_plan = None if state["plan"] is None else MemoryPlan.from_json(state["plan"])
        self._best_latency = number(state["latency_s"], 0.0) if self._best_plan else float("inf")
        known = [self._best_plan] if self._best_plan else []
        if self._race:
            self._race.load_state_dict(state["race"])
            self._best_plan = self._race.incumbent.plan if self._race.incumbent else None
            known += [candidate.plan for candidate in self._race.field()]
        for plan in known:
            require_valid(self.env.task, plan)
        if self._best_plan and not self._race and self.env.task.simulator is None:
            report = judge_plan(self.env.task, self._best_plan)
            if report.latency_s != self._best_latency:
                raise ValueError("the plan has another latency")

    @property
    def _counted(self) -> int:
        """Plans evaluated, those measured again included."""
        return self.evaluations + (self._race.spent if self._race else 0)

    def _measured(
        self, latency_s: NDArray[np.float64], of: Callable[[int], tuple[bytes, Callable[[], MemoryPlan]]]
    ) -> NDArray[np.float64]:
        """What the search is told of plans: float64[B], their latencies as measured.

        Args:
            latency_s: float64[B], what the task's judge says.
            of: what tells a plan from others, and what makes it, by its place in the batch.
        """
        race = self._race
        if race is None:
            return latency_s
        measured = latency_s * race.factors(len(latency_s))
        for place, (first_s, judged_s) in enumerate(zip(measured.tolist(), latency_s.tolist(), strict=True)):
            key, make = of(place)
            exact_s = None if box_is_noisy(self.env.task) else judged_s
            candidate = Candidate(sha256(key).hexdigest(), first_s, make, exact_s)
            race.enter(candidate, self.evaluations + place + 1)
        return measured

    def _account(self, evaluations: int, latency_s: float, plan: Callable[[], MemoryPlan]) -> None:
        """Count plans, the fastest of which takes so long, keep that one if it is the best, and tell everybody."""
        self.evaluations += evaluations
        if self._race is not None:
            self._adopt(self._race.incumbent)
        elif latency_s < self._best_latency:
            self._best_plan, self._best_latency = plan(), latency_s
            self._history.append(Progress(self.evaluations, self.seconds, latency_s))
        if self._whole is not None:
            self._whole._account(evaluations, latency_s, plan)
        self._tell()

    def _tell(self) -> None:
        for callback in self._callbacks:
            callback(Progress(self._counted, self.seconds, self._best_latency, self._bound_s))

    def _adopt(self, incumbent: Candidate | None) -> None:
        """The incumbent of the race is the best plan; history says what is believed of it, be it more than before."""
        if incumbent is not None and incumbent.plan is not self._best_plan:
            self._best_plan, self._best_latency = incumbent.plan, incumbent.believed_s
            self._history.append(Progress(self._counted, self.seconds, self._best_latency))

    def _settled(self) -> tuple[Report | None, int | None]:
        """Decide which plan is the best, and what is said of it; see `Race.report`."""
        judge, race = partial(judge_plan, self.env.task), self._race
        if race is None:
            return None if self._best_plan is None else judge(self._best_plan), None
        race.finish(self.evaluations, lambda: self.seconds >= self._stop)
        self._adopt(race.incumbent)
        report, measurements = race.report(judge)
        if race.incumbent is not None:
            require_valid(self.env.task, race.incumbent.plan)
        if report is not None and report.latency_s != self._best_latency:
            self._best_latency = report.latency_s
            self._history.append(Progress(self._counted, self.seconds, report.latency_s))
        return report, measurements

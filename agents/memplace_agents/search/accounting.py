"""The bookkeeping of every search: plans counted, time, measurements, the best plan, progress callbacks.

Measurements are noisy if the environment is wrapped in `MeasurementNoise`, or if a black-box simulator has an
attribute `noisy = True` or returns two latencies for one plan. Searches then see noisy latencies, and repeated
measurements decide which plan is kept, see `memplace_agents.search.racing`; a fraction of the budget is reserved for
them.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from hashlib import sha256
from numbers import Real
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from memplace_agents.optimality import surviving_bound
from memplace_agents.saved_values import number, whole
from memplace_agents.search.racing import FINAL_TIME_FRACTION, Candidate, box_is_noisy, race_of, with_latency
from memplace_agents.solution import Callback, Progress, Solution, Verdict
from memplace_env._lib.compilation import preparation_seconds
from memplace_env._lib.errors import AgentError
from memplace_env._lib.foreign import described
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import ParallelSimulator, Report, backing_port_ps, evaluate_plan
from memplace_env.placement.validation import require_valid


def made(env: str | gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Return the environment, made if it is an id.

    Raises:
        AgentError: for an id that names no program; an environment that was made has one, drawn by the last reset.
    """
    if not isinstance(env, str):
        return env
    wrapped = gym.make(env)
    if getattr(wrapped.unwrapped, "programs", None) is not None:
        raise AgentError(f"{env} draws its programs and names none; pass an environment that was reset, or another id.")
    return wrapped


class Evaluator(ABC):
    """Counts and times the plans of one search, keeps the best and calls the callback.

    Args:
        env: an id or a made environment.
        budget: most plans to evaluate.
        callback: see `Agent.solve`.
        time_limit: most seconds to spend, by the clock of `seconds`, or None.
        seed: seed of the noise of measurements, if there is any.
        workers: processes in which a black-box simulator evaluates the plans of a batch, with the same results; with
            more than one the evaluator has to be closed. With cost arrays they change nothing.

    Attributes:
        env: the environment without wrappers.
        evaluations: number of plans evaluated so far, without repeated measurements.
        budget: most plans that the search may evaluate; less than was passed if measurements are noisy.
    """

    formulation: ClassVar[Formulation]
    refusal: ClassVar[str]
    """End of the error message for other environments."""

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
        if not _is_number(workers) or workers < 1:
            raise AgentError(f"workers must be at least 1, not {described(workers)}.")
        if not _is_number(budget) or budget < 1:
            raise AgentError(f"The budget must be at least 1 evaluation, not {described(budget)}.")
        if time_limit is not None and not (_is_number(time_limit) and time_limit > 0):
            raise AgentError(f"The time limit must be more than 0 s, not {described(time_limit)}.")
        wrapped = made(env)
        unwrapped: Any = wrapped.unwrapped
        if getattr(unwrapped, "formulation", None) != self.formulation:
            raise AgentError(f"{wrapped} is not {self.refusal}")
        self.env: Any = unwrapped
        simulator = self.env.task.simulator
        self._workers = ParallelSimulator(simulator, workers) if simulator is not None and workers > 1 else None
        if self._workers is not None:
            self.env = self.env.with_simulator(self._workers)
        self._callbacks = [callback] if callback else []
        self._whole: Evaluator | None = None
        self._proves = True
        has_noise = wrapped.has_wrapper_attr("measurement_noise")
        scale: float = wrapped.get_wrapper_attr("measurement_noise") if has_noise else 0.0
        self._race = race_of(unwrapped.task, budget, scale, seed) if scale or simulator is not None else None
        self._stop = float("inf") if time_limit is None else time_limit
        if self._race is not None:
            budget -= self._race.fund
            time_limit = None if time_limit is None else (1 - FINAL_TIME_FRACTION) * time_limit
        self._start(budget, time_limit)

    def _start(self, budget: int, time_limit: float | None) -> None:
        self.evaluations = 0
        self.budget = budget
        self._time_limit = time_limit
        self._begin, self._prepared = time.perf_counter(), preparation_seconds()
        self._pace = [(0, 0.0), (0, 0.0)]  # plans and seconds, noted whenever the plans have doubled
        self._history: list[Progress] = []
        self._best_plan: MemoryPlan | None = None
        self._best_latency = float("inf")
        self._bound_s: float | None = None
        self._port_before_ps: int | None = None

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._workers is not None:
            self._workers.close()

    @property
    @abstractmethod
    def baseline_s(self) -> float:
        """Latency of the baseline of every speed-up."""

    @property
    def noise(self) -> float | None:
        """Relative standard deviation of added noise; 0 if only a black box is noisy, None if latencies are exact."""
        return self._race.scale if self._race else None

    @property
    def noisy(self) -> bool:
        """True if two evaluations of a plan may return two latencies."""
        return self._race is not None

    @property
    def remaining(self) -> int:
        """Number of plans that may still be evaluated, in a part at most that of the whole; 0 once the time is up."""
        if self._time_limit is not None and self.seconds >= self._time_limit:
            return 0
        left = max(self.budget - self.evaluations, 0)
        return left if self._whole is None else min(left, self._whole.remaining)

    @property
    def seconds(self) -> float:
        """Wall-clock time since the search began, without the time in which kernels were compiled or loaded."""
        return time.perf_counter() - self._begin - (preparation_seconds() - self._prepared)

    @property
    def seconds_left(self) -> float | None:
        """Time that remains by the clock of `seconds`, None without a limit."""
        return None if self._time_limit is None else max(self._time_limit - self.seconds, 0.0)

    @property
    def planned(self) -> int:
        """Number of plans in the whole search: the budget, or fewer if time ends it first at the latest pace.

        That is the pace since about half of the plans so far, as the first, those of rules, take longer than others.
        """
        (since, then_s), left_s = self._pace[0], self.seconds_left
        if left_s is None or self.evaluations == since:
            return self.budget
        rate = (self.evaluations - since) / max(self.seconds - then_s, 1e-9)
        return min(self.evaluations + round(rate * left_s), self.budget)

    @property
    def fraction_left(self) -> float:
        """Fraction of the budget that is left, or of the time if that is less; 1 at the start."""
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
        """Latency of `incumbent`; infinite before there is one."""
        return self._best_latency if self._whole is None else self._whole.incumbent_latency_s

    def part(self, share: float, seconds: float | None = None, proves: bool = True) -> Self:
        """Return an evaluator with a share of the budget and time that are left; its evaluations count here at once.

        Without a time limit it may take `seconds`. Its bounds hold for the whole if `proves`.
        """
        part, left = copy(self), self.seconds_left
        part._callbacks, part._whole, part._proves = [], self, proves
        part._start(max(int(share * self.remaining), 1), seconds if left is None else share * left)
        return part

    def add_callback(self, callback: Callback) -> None:
        """Call this function too after each round of evaluations, before all others."""
        self._callbacks.insert(0, callback)

    def _up_to_whole(self) -> Iterator[Evaluator]:
        """Yield this evaluator, the one that it is a part of, and so on up to the whole."""
        evaluator: Evaluator | None = self
        while evaluator is not None:
            yield evaluator
            evaluator = evaluator._whole

    def spend(self, evaluations: int) -> None:
        """Count plans that were evaluated without this evaluator and are not kept."""
        for evaluator in self._up_to_whole():
            evaluator.evaluations += evaluations

    def prove(self, bound_s: float) -> None:
        """Set a lower bound on latency in seconds, and report the progress if there is a plan already."""
        self._bound_s = max(bound_s, self._bound_s or 0.0) or None
        if self._whole is not None:
            self._whole.prove(bound_s if self._proves else 0.0)
        elif self._best_plan is not None:
            self._report_progress()

    def retract(self) -> None:
        """Forget all bounds, as one of them is false."""
        self._bound_s = None
        if self._whole is not None and self._proves:
            self._whole.retract()

    def offer(self, plan: MemoryPlan) -> Report:
        """Count and time a plan, and keep it if it is the best.

        Raises:
            PlanError: if the plan is not valid.
        """
        report = evaluate_plan(self.env.task, plan)
        if self._race is None:
            self._account(1, report.latency_s, lambda: plan)
            return report
        latency_s = self._measured(np.array([report.latency_s]), _as_row(plan), lambda _: plan).item()
        self._account(1, latency_s, lambda: plan)
        return with_latency(report, latency_s)

    def end_races(self) -> None:
        """Give the search the measurements that are reserved for races; it is to `choose` the plan itself."""
        if self._race is not None:
            freed = self._race.end()
            for evaluator in self._up_to_whole():
                evaluator.budget += freed

    def choose(self, plan: MemoryPlan, report: Report, latencies_s: Sequence[float]) -> None:
        """Keep a plan that was offered whatever races say; without noise the best plan stays.

        Args:
            plan: a valid plan.
            report: report of one of its measurements.
            latencies_s: all of its measurements.
        """
        if self._race is None:
            return
        exact_s = None if box_is_noisy(self.env.task) else evaluate_plan(self.env.task, plan).latency_s
        measured = len(latencies_s), float(sum(latencies_s)), report
        self._race.choose(Candidate(_name_of(_as_row(plan)), latencies_s[0], lambda: plan, exact_s, *measured))
        for evaluator in self._up_to_whole():
            evaluator._adopt(self._race.incumbent)

    def prefer(self, plan: MemoryPlan) -> Report:
        """Time a plan, and keep it if it is faster than the best, or as fast with less time of the backing port.

        It counts as no evaluation, since it ends a search that has used up its budget, too.

        Raises:
            PlanError: if the plan is not valid.
        """
        report = evaluate_plan(self.env.task, plan)
        rank = report.latency_s, backing_port_ps(self.env.task, plan)
        for part in self._up_to_whole():
            before = part._best_plan
            busy_ps = 0 if before is None else backing_port_ps(self.env.task, before)
            if before is None or rank < (part._best_latency, busy_ps):
                faster = report.latency_s < part._best_latency
                part._best_plan, part._best_latency = plan, report.latency_s
                if faster:
                    part._port_before_ps = None
                    part._history.append(Progress(part._counted, part.seconds, report.latency_s))
                    part._report_progress()
                elif part._port_before_ps is None:
                    part._port_before_ps = busy_ps
        return report

    def solution(self, agent: str, seed: int, verdict: Verdict = Verdict()) -> Solution:  # noqa: B008
        """Return the best plan so far, validated, with its report and the history of the search."""
        report, measurements = self._decide()
        plan, outcome, bound_s, proof = self._best_plan, verdict.outcome, verdict.bound_s, verdict.proof
        if report is not None and bound_s is not None and not (self.noisy or self.env.task.is_black_box):
            bound_s, proof = surviving_bound(report.latency_s, bound_s, proof)
            outcome = outcome if bound_s == verdict.bound_s else "feasible"
        return Solution(
            agent=agent,
            outcome=outcome if plan is not None or outcome == "infeasible" else "unknown",
            plan=plan,
            report=report,
            native_latency_s=self.baseline_s,
            bound_s=bound_s,
            proof=proof,
            history=tuple(self._history),
            evaluations=self._counted,
            seconds=self.seconds,
            seed=seed,
            stage_results=verdict.stage_results,
            measurements=measurements,
            backing_port_s=None if plan is None else backing_port_ps(self.env.task, plan) * PS,
            backing_port_before_s=None if self._port_before_ps is None else self._port_before_ps * PS,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the best plan and the effort so far as plain values."""
        return {
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "history": [list(progress) for progress in self._history],
            "plan": self._best_plan.to_json() if self._best_plan else None,
            "latency_s": self._best_latency if self._best_plan else None,
            **({"race": self._race.state_dict()} if self._race else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned; the clock continues as well."""
        self.evaluations = whole(state["evaluations"])
        self._begin = time.perf_counter() - number(state["seconds"], 0.0)
        self._prepared = preparation_seconds()
        self._history = [Progress.of_state(saved) for saved in state["history"]]
        self._best_plan = None if state["plan"] is None else MemoryPlan.from_json(state["plan"])
        self._best_latency = number(state["latency_s"], 0.0) if self._best_plan else float("inf")
        plans = [self._best_plan] if self._best_plan else []
        if self._race:
            self._race.load_state_dict(state["race"])
            self._best_plan = self._race.incumbent.plan if self._race.incumbent else None
            plans += [candidate.plan for candidate in self._race.field()]
        for plan in plans:
            require_valid(self.env.task, plan)
        if self._best_plan and not self._race and self.env.task.simulator is None:
            report = evaluate_plan(self.env.task, self._best_plan)
            if report.latency_s != self._best_latency:
                raise ValueError("the plan has another latency")

    @property
    def _counted(self) -> int:
        """Number of plans evaluated, repeated measurements included."""
        return self.evaluations + (self._race.spent if self._race else 0)

    def _measured(
        self, latency_s: NDArray[np.float64], rows: NDArray[Any], plan_of: Callable[[NDArray[Any]], MemoryPlan]
    ) -> NDArray[np.float64]:
        """Return the latencies of plans as measured, float64[B], and let the plans race if they are noisy.

        Args:
            latency_s: float64[B], latencies of the task's simulator.
            rows: [B, ...], the decisions that identify each plan.
            plan_of: makes the plan of a row.
        """
        race = self._race
        if race is None:
            return latency_s
        measured, box = latency_s * race.factors(len(latency_s)), box_is_noisy(self.env.task)
        for index, (row, first_s, exact_s) in enumerate(zip(rows, measured.tolist(), latency_s.tolist(), strict=True)):
            candidate = Candidate(_name_of(row), first_s, partial(plan_of, row.copy()), None if box else exact_s)
            race.enter(candidate, self.evaluations + index + 1)
        return measured

    def _account(self, evaluations: int, latency_s: float, plan: Callable[[], MemoryPlan]) -> None:
        """Count plans, keep the fastest, which has this latency, if it is the best so far, and report the progress."""
        self.evaluations += evaluations
        if self.evaluations >= 2 * self._pace[1][0]:
            self._pace = [self._pace[1], (self.evaluations, self.seconds)]
        if self._race is not None:
            self._adopt(self._race.incumbent)
        elif latency_s < self._best_latency:
            self._best_plan, self._best_latency, self._port_before_ps = plan(), latency_s, None
            self._history.append(Progress(self.evaluations, self.seconds, latency_s))
        if self._whole is not None:
            self._whole._account(evaluations, latency_s, plan)
        self._report_progress()

    def _report_progress(self) -> None:
        for callback in self._callbacks:
            callback(Progress(self._counted, self.seconds, self._best_latency, self._bound_s))

    def _adopt(self, incumbent: Candidate | None) -> None:
        """Take the incumbent of the race as the best plan; its estimated latency may be above the one before."""
        if incumbent is not None and incumbent.plan is not self._best_plan:
            self._best_plan, self._best_latency = incumbent.plan, incumbent.estimate_s
            self._history.append(Progress(self._counted, self.seconds, self._best_latency))

    def _decide(self) -> tuple[Report | None, int | None]:
        """Decide which plan is the best; return its report and number of measurements, see `Race.report`."""
        race = self._race
        if race is None:
            return None if self._best_plan is None else evaluate_plan(self.env.task, self._best_plan), None
        race.finish(self.evaluations, lambda: self.seconds >= self._stop)
        if race.incumbent is None:
            return None, None
        self._adopt(race.incumbent)
        report, measurements = race.report(self.env.task)
        require_valid(self.env.task, race.incumbent.plan)
        if report.latency_s != self._best_latency:
            self._best_latency = report.latency_s
            self._history.append(Progress(self._counted, self.seconds, report.latency_s))
        return report, measurements


def _name_of(row: NDArray[Any]) -> str:
    """Return the name of the candidate with these decisions."""
    return sha256(row.tobytes()).hexdigest()


def _as_row(plan: MemoryPlan) -> NDArray[np.uint8]:
    """Return the bytes that identify a plan, uint8[1, n]."""
    return np.frombuffer(plan.to_json().encode(), np.uint8)[None]


def _is_number(value: object) -> bool:
    """Return whether a value can be compared with a number, as arrays and texts cannot."""
    return isinstance(value, Real)

"""Check of a third party's agent against its contract."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np

from memplace_env._lib.compilation import preparation_seconds
from memplace_env._lib.errors import AgentError
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.validation import violations

ENVS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("MemPlace-v0", {"workload": "synthetic:diamond?ops=6&seed=1"}),
    ("MallocGame-v0", {"workload": "synthetic:diamond?ops=6&seed=1&accelerator=tpu-v4i"}),
)
"""Default environments of the check, one of each formulation: id and arguments of `gym.make`."""

GRACE_S = 10.0
"""Seconds that an agent may take beyond its time limit, since it finishes a round once begun."""


def check_agent(
    agent: Any, env: gym.Env[Any, Any] | None = None, *, budget: int = 100, seed: int = 0, time_limit: float = 0.5
) -> None:
    """Raise an error for the first violation of an agent's contract, if there is one.

    The agent solves a small environment a few times. Its plan must be able to run and its report be true; it must keep
    to the budget and the time limit; the same seed must give the same plan, whatever the state of global generators;
    the callback must be called, and an exception from it must end the search. Errors of the agent itself pass through.

    Args:
        agent: anything with `solve(env, *, budget, seed, callback, time_limit)`, which returns an object with `plan`,
            `report`, `history`, `evaluations`, `seconds` and `seed`, see `memplace_agents.Solution`. If it has an
            attribute `budgeted` that is False, it decides itself how many plans it evaluates.
        env: an environment instead of the small ones, of which an agent may refuse one kind by raising AgentError.
        budget, seed, time_limit: plans, seed and seconds of the trials.

    Raises:
        AgentError: naming the agent and what to do.

    Example:
        >>> class Idle:
        ...     name = "idle"
        ...     def solve(self, env, *, budget=100, seed=0, callback=None, time_limit=None):
        ...         return None
        >>> check_agent(Idle())
        Traceback (most recent call last):
        memplace_env._lib.errors.AgentError: Agent 'idle' returned NoneType, which has no 'plan'; see memplace_agents.Solution.
    """  # noqa: E501
    name = getattr(agent, "name", None)
    if not isinstance(name, str) or not name:
        raise AgentError(f"{agent!r} has no name; give it an attribute `name`, what the command line calls it.")
    if not callable(getattr(agent, "solve", None)):
        raise AgentError(f"Agent {name!r} has no solve(env, *, budget, seed, callback, time_limit).")
    envs = [gym.make(env_id, **arguments) for env_id, arguments in ENVS] if env is None else [env]
    refusals = []
    for one in envs:
        trial = _Trial(agent, one, budget, seed)
        try:
            first = trial.solve()
        except AgentError as refusal:
            refusals.append(refusal)
            continue
        trial.check_fields(first)
        trial.check_solution(first)
        trial.check_seed(first)
        trial.check_callback()
        trial.check_time_limit(time_limit)
    if len(refusals) == len(envs):
        raise AgentError(f"Agent {name!r} plays none of these environments: {refusals[0]}") from refusals[0]


class _OverdueError(Exception):
    """Raised by a callback in an agent that exceeds its time limit."""


class _StopError(Exception):
    """Raised by a callback in an agent that must let it pass."""


class _Trial:
    """Trial of one agent on one environment."""

    def __init__(self, agent: Any, env: gym.Env[Any, Any], budget: int, seed: int) -> None:
        self.agent, self.env, self.budget, self.seed = agent, env, budget, seed
        self.named = f"Agent {agent.name!r}"
        self.progress: list[Any] = []

    def solve(self, callback: Callable[[Any], None] | None = None, **changes: Any) -> Any:
        """Return a solution; `progress` then holds the arguments of the callback."""
        self.progress.clear()
        arguments = {"budget": self.budget, "seed": self.seed, "callback": callback or self.progress.append, **changes}
        return self.agent.solve(self.env, **{"time_limit": None, **arguments})

    def error(self, sentence: str) -> AgentError:
        return AgentError(f"{self.named} {sentence}.")

    def check_fields(self, solution: Any) -> None:
        """Require all attributes of a solution."""
        for field in ("plan", "report", "history", "evaluations", "seconds", "seed"):
            if not hasattr(solution, field):
                kind = type(solution).__name__
                raise self.error(f"returned {kind}, which has no {field!r}; see memplace_agents.Solution")

    def check_solution(self, solution: Any) -> None:
        """Require a plan that can run, a true report, and no more evaluations than the budget."""
        task, plan = self.env.get_wrapper_attr("task"), solution.plan
        if not isinstance(plan, MemoryPlan):
            raise self.error(
                f"found no plan within {self.budget} evaluations ({plan!r}); native's plan is always valid"
            )
        broken = violations(task, plan)
        if broken:
            raise self.error(f"returned a plan that cannot run: {broken[0].message.rstrip('.')}")
        latency = evaluate_plan(task, plan, trusted=True).latency_ps
        if getattr(solution.report, "latency_ps", None) != latency:
            reported = getattr(solution.report, "latency_ps", solution.report)
            raise self.error(
                f"reports {reported} ps for a plan that takes {latency} ps; report what evaluate_plan returns"
            )
        if solution.seed != self.seed:
            raise self.error(f"returned seed {solution.seed!r} after solve(seed={self.seed})")
        if not isinstance(solution.seconds, float) or not 0 <= solution.seconds < math.inf:
            raise self.error(f"returned {solution.seconds!r} seconds; it must be the wall time of the search")
        if not isinstance(solution.evaluations, int) or solution.evaluations < 0:
            raise self.error(f"returned {solution.evaluations!r} evaluations; it must be the number of plans it tried")
        if getattr(self.agent, "budgeted", True) and solution.evaluations > self.budget:
            raise self.error(
                f"evaluated {solution.evaluations} plans with a budget of {self.budget}; count every plan, or set "
                "budgeted = False"
            )
        self._check_history(solution, latency)

    def _check_history(self, solution: Any, latency_ps: int) -> None:
        """Require an entry for each improvement, the last with the plan's own latency."""
        history = list(solution.history)
        if not history:
            raise self.error("returned an empty history; it must hold each improvement of the best latency")
        noisy = self.env.has_wrapper_attr("measurement_noise")
        for earlier, later in pairwise(history):
            slower = (
                later.latency_s >= earlier.latency_s and not noisy
            )  # with noise, a second measurement may be slower
            if slower or later.evaluations < earlier.evaluations:
                raise self.error(f"has a history that does not improve from {earlier} to {later}")
        if history[-1].evaluations > solution.evaluations:
            raise self.error(f"has a history that ends after {solution.evaluations} evaluations: {history[-1]}")
        if not math.isclose(history[-1].latency_s, latency_ps * 1e-12, rel_tol=1e-9):
            raise self.error(f"has a history that ends at {history[-1].latency_s} s, unlike its plan")

    def check_seed(self, first: Any) -> None:
        """Require the same plan from the same seed, whatever the state of global generators."""
        with _other_global_randomness():
            again = self.solve()
        if again.plan != first.plan or again.evaluations != first.evaluations:
            raise self.error("found another plan with the same seed; draw from a generator made from `seed` only")

    def check_callback(self) -> None:
        """Require that the callback is called with true counts, and that its exception ends the search."""
        solution = self.solve()
        if not self.progress:
            raise self.error("never called its callback; call it after each round of evaluations")
        counts = [progress.evaluations for progress in self.progress]
        if sorted(counts) != counts or counts[-1] > solution.evaluations:
            raise self.error(f"passed its callback {counts[-5:]} evaluations, and evaluated {solution.evaluations}")

        def stop(progress: Any) -> None:
            raise _StopError

        try:
            self.solve(stop)
        except _StopError:
            return
        raise self.error("went on after an exception from its callback; let it through, so that users can stop")

    def check_time_limit(self, time_limit: float) -> None:
        """Require that a search with a large budget stops in time."""
        begin, prepared = time.perf_counter(), preparation_seconds()

        def seconds() -> float:
            return time.perf_counter() - begin - (preparation_seconds() - prepared)

        def watch(progress: Any) -> None:
            if seconds() > time_limit + GRACE_S:
                raise _OverdueError

        try:
            solution = self.solve(watch, budget=10**6, time_limit=time_limit)
        except _OverdueError:
            spent = math.inf
        else:
            spent = seconds()
            if spent <= time_limit + GRACE_S:
                self.check_late_solution(solution)
                return
        took = "went on" if spent == math.inf else f"took {spent:.1f} s"
        raise self.error(f"{took} with time_limit={time_limit}; check the clock after each round of evaluations")

    def check_late_solution(self, solution: Any) -> None:
        """Require that the plan at the time limit can run, if there is one."""
        task = self.env.get_wrapper_attr("task")
        if solution.plan is not None and violations(task, solution.plan):
            raise self.error("returned a plan that cannot run when its time was up")


@contextmanager
def _other_global_randomness() -> Iterator[None]:
    """Set Python's and NumPy's global generators to other states for a while."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(20250101)
    np.random.seed(20250101)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002

"""Runs of the learning campaign: an agent on an environment, limited by plans or by processor time of one core.

Processor time is given as a budget of plans: as many as the agent's first run evaluates in that time, whose budget is
guessed by a short trial. All other seeds have the first one's budget, so that machines of different speed do the same
work. A run can be repeated from its budget (a first run from its guess) and its seed; the time that it took is
recorded, too. A plan that is faster than the best known is kept, as the experiment `proofs` keeps its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import memplace_agents
from benchmarks.experiments import proofs
from benchmarks.harness import Records
from benchmarks.ledger import Record
from memplace_agents import Agent
from memplace_agents.solution import Progress
from memplace_agents.xla_msa import PUBLIC_SETS
from memplace_env._lib.units import PS
from memplace_env.envs.best_known import known_results
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.placement.compiler import HEURISTICS
from memplace_leaderboard.suite import load_suite

KEY = ("id", "solver", "seed", "plans", "seconds", "trial")
"""Fields of a record's key; `plans` or `seconds` limit a run, `trial` marks one that measures an agent's speed."""
SEEDS = 5
"""Seeds of solvers that depend on one."""
XLA = tuple(f"xla-msa:{public.name}" for public in PUBLIC_SETS)
BEST_RULE = "best-rule"
RULES = {
    Formulation.GAME: (BEST_RULE, "greedy-player", *XLA),
    Formulation.ONE_SHOT: (BEST_RULE, *(f"native:{rule}" for rule in HEURISTICS)),
}
"""Solvers that do not search, by formulation."""
SEARCHES = {Formulation.GAME: "game-local-search", Formulation.ONE_SHOT: "local-search"}
EXACT = "exact"
OPTIONS = {"native": "rule", "xla-msa": "options"}
"""Option that the part of a solver's name behind the colon sets; `config` for all other agents."""
ENDLESS_AGENTS = ("xla-autotune",)
"""Agents whose search does not depend on the budget, so that they are stopped by processor time without a trial."""
TRIAL_S, PROOF_S = 6.0, 60.0
"""Processor seconds of a trial, and most seconds of a proof; our choice."""
OVERRUN = 1.1
"""Multiple of the processor time at which a first run is stopped, if the trial has overrated its speed."""
UNDERRUN = 0.9
"""Fraction of the processor time below which a first run is repeated with a larger budget."""
ENDLESS, DEFAULT, FEW = 10**9, 4000, 500
"""Budgets of what time limits, of rules, and of the run that loads compiled code."""
FEW_S = 2.0
"""Seconds of the run that loads compiled code."""
POINTS = 60
"""Most points of a recorded curve."""


def first_ids(formulation: Formulation, count: int) -> list[str]:
    """Return the first registered ids of a suite `<formulation>-v1` in the order of the SHA-256 of the id."""
    return sorted(load_suite(f"{formulation}-v1").instances, key=lambda env_id: sha256(env_id.encode()).hexdigest())[
        :count
    ]


def limited(
    env_id: str, solver: str, seed: int = 0, *, plans: int | None = None, seconds: float | None = None
) -> Record:
    """Return the setting of a run that plans or processor seconds limit; rules need no limit."""
    limits = {"plans": plans, "seconds": seconds}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return {"id": env_id, "solver": solver, "seed": seed, **given}


def free(env_ids: Sequence[str]) -> list[Record]:
    """Return the settings of all rules on these environments, and of a proof."""
    return [
        limited(env_id, solver, seconds=PROOF_S if solver == EXACT else None)
        for env_id in env_ids
        for solver in (*RULES[formulation_of_id(env_id)], EXACT)
    ]


def agent_of(solver: str) -> Agent[Any]:
    """Return the agent of a solver's name, such as "plan-gradient" or "egrl:paper"."""
    name, option = _parts(solver)
    return memplace_agents.make_agent(name, **({OPTIONS.get(name, "config"): option} if option else {}))


def _parts(solver: str) -> tuple[str, str]:
    name, _, option = solver.partition(":")
    return name, option


class _Watch:
    """Callback of a search: keeps a curve, and interrupts the search when its processor time is over.

    Args:
        seconds: processor seconds at which to interrupt; None for never.
        width: seconds or plans of the whole curve; of each part of it the last point is kept.
        by_time: True if `width` is in seconds.
    """

    def __init__(self, seconds: float | None, width: float, by_time: bool) -> None:
        self._seconds, self._width, self._by_time = seconds, width, by_time
        self._points: dict[int, tuple[float, Progress]] = {}
        self._began = time.process_time()

    def __call__(self, progress: Progress) -> None:
        """Keep the point, and interrupt if the time is over."""
        spent = self.spent
        at = spent if self._by_time else progress.evaluations
        self._points[int(POINTS * at / self._width)] = spent, progress
        if self._seconds is not None and spent >= self._seconds:
            raise KeyboardInterrupt

    @property
    def spent(self) -> float:
        """Processor seconds so far."""
        return time.process_time() - self._began

    @property
    def points(self) -> list[tuple[float, int, float]]:
        """Processor seconds, plans evaluated and best latency in seconds, in the order of time."""
        return [(spent, progress.evaluations, progress.latency_s) for spent, progress in self._points.values()]


class Trial(NamedTuple):
    """A line through the plans of a trial over its processor seconds: plans a second, and one point on it."""

    rate: float
    seconds: float
    plans: int

    @classmethod
    def of(cls, points: Sequence[tuple[float, int, float]]) -> Trial:
        """Fit the line to the later two thirds, as a search may begin with other work."""
        seconds, plans = np.array([point[:2] for point in points]).T
        later = seconds >= seconds[-1] / 3
        if later.sum() < 2:
            return cls(float(plans[-1] / seconds[-1]), float(seconds[-1]), int(plans[-1]))
        rate = np.polyfit(seconds[later], plans[later], 1)[0]
        return cls(float(rate), float(seconds[-1]), int(plans[-1]))

    def budget(self, seconds: float) -> int:
        """Return the number of plans that take so many processor seconds."""
        return max(round(self.plans + self.rate * (seconds - self.seconds)), 1)


def staged(wanted: Callable[[Records], list[Record]]) -> Callable[[Records], list[Record]]:
    """Return what returns the runs that can be measured, given the records so far.

    These are trials, then the first run of each agent and environment with a guess of its budget, then the other seeds
    with the first one's budget.

    Args:
        wanted: returns all runs.
    """

    def settings(records: Records) -> list[Record]:
        latest = list({tuple(record.get(name) for name in KEY): record for record in records}.values())
        known = {_without_seed(run): run for run in reversed(latest) if "budget" in run}  # the first one counts
        lines = {(run["id"], run["solver"]): Trial(*run["line"]) for run in latest if "line" in run}
        found: dict[tuple[Any, ...], Record] = {}
        for run in wanted(latest):
            key = of = _without_seed(run)
            if not _needs_trial(run):
                key = *of, run["seed"]
            elif before := known.get(of):
                key = *of, run["seed"]
                run = {**run, "budget": min(before["budget"], before["evaluations"])}
            elif line := lines.get((run["id"], run["solver"])):
                run = {**run, "guess": line.budget(run["seconds"])}
            else:
                run = {"id": run["id"], "solver": run["solver"], "trial": TRIAL_S}
            found.setdefault(key, run)
        return list(found.values())

    return settings


def _without_seed(run: Record) -> tuple[Any, ...]:
    return tuple(run.get(name) for name in KEY if name != "seed")


def _needs_trial(run: Record) -> bool:
    return "seconds" in run and run["solver"] not in (EXACT, *ENDLESS_AGENTS)


def measure(run: Record, agent: Agent[Any] | None = None) -> Record:
    """Return a run's setting with its plan's latency, its processor seconds and its curve.

    The solver names the agent, unless one is given.

    A run with a `guess` for its budget has as much processor time as its setting says; its record has the budget that
    it turned out to be. A curve has processor seconds, plans evaluated, and the gain of the best plan, see
    `learning_statistics.gain`. The record of a trial has a line instead, see `Trial`.
    """
    solver = run["solver"] if agent is None else agent.name
    agent, proof = agent or agent_of(solver), solver == EXACT
    _load_compiled_code(solver, run["id"])
    env = gym.make(run["id"])
    seconds: float | None = run.get("trial", run.get("seconds"))
    guess = run.get("guess")
    stop = None if seconds is None or proof or "budget" in run else seconds * (OVERRUN if guess else 1)
    budget: Any = guess or run.get("budget", run.get("plans", ENDLESS if seconds else DEFAULT))
    _forget_peak()
    watch = _Watch(stop, seconds or budget, by_time=bool(seconds))
    limits = {"time_limit": seconds} if proof else {"callback": watch}
    solution = agent.solve(env, budget=budget, seed=run.get("seed", 0), **limits)
    took = watch.spent
    assert solution.report is not None
    assert solution.plan is not None
    known = known_results().get(run["id"])
    if known and solution.report.latency_ps < known.best_ps:
        proofs.keep(run["id"], solution.report.latency_ps, solution.plan)
    if guess and seconds and took < UNDERRUN * seconds and solution.evaluations >= UNDERRUN * guess:
        return measure({**run, "guess": round(guess * seconds / took)}, agent)
    baseline = round(solution.native_latency_s / PS)
    base = {**run, "took_s": round(took, 2), "evaluations": solution.evaluations}
    if guess:
        base["budget"] = min(guess, solution.evaluations)
    if "trial" in run:
        return {**base, "line": list(Trial.of(watch.points))}
    curve = [[round(s, 2), plans, float(f"{solution.native_latency_s / best:.6g}")] for s, plans, best in watch.points]
    return {
        **base,
        "latency_ps": solution.report.latency_ps,
        "baseline_ps": baseline,
        "proven": solution.outcome == "optimal",
        "peak_mb": _peak_mb(),
        "curve": curve if run["solver"] not in RULES[formulation_of_id(run["id"])] else [],
    }


@cache
def _load_compiled_code(solver: str, env_id: str) -> None:
    """Load what a solver needs, once in each process, so that no run is charged for it."""
    agent_of(solver).solve(env_id, budget=FEW, time_limit=FEW_S)


def _forget_peak() -> None:
    """Let Linux forget the largest memory of this process so far."""
    Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> int:
    """Return the largest memory of this process since `_forget_peak`, in MB."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1000

"""One run of one agent for the leaderboard: counted, validated and judged here, whatever the agent says."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from agents.registry import agent_spec
from memplace_env.compiler import all_backing_report, native_report
from memplace_env.envs.base import PlacementEnv
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.errors import LeaderboardError, MemPlaceError
from memplace_env.leaderboard.black_box import BlackBox
from memplace_env.leaderboard.checks import check_spending
from memplace_env.leaderboard.entry import Entry, Point
from memplace_env.leaderboard.pinned import is_game, made, task_of
from memplace_env.leaderboard.suite import Budget, Track
from memplace_env.plan import MemoryPlan, violations
from memplace_env.simulator import judge_plan
from memplace_env.units import PS

ENDLESS: Final = 10**7
"""Plans that an agent may evaluate where only time ends its search, or it ends by itself."""
BOX_SEED: Final = 20_26
"""Of the machine that black-box tracks measure: all submissions meet the same."""

_WARM: Final[set[tuple[str, str, bool, str]]] = set()


@dataclass(frozen=True)
class Job:
    """What makes an entry.

    Attributes:
        agent, options: see `agents.registry.agent_spec`, and the arguments it is made with.
        track: that is played.
        env_id, budget, seed: of the entry.
        nominal: see `Meta`.
    """

    agent: str
    options: Mapping[str, Any] = field(hash=False)
    track: Track
    env_id: str
    budget: Budget
    seed: int
    nominal: bool = False

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells the entries of a submission apart."""
        return self.env_id, self.budget.text, self.seed

    def __str__(self) -> str:
        return f"{self.env_id}, budget {self.budget.text}, seed {self.seed}"


def play(job: Job) -> Entry:
    """Let the agent search, and judge its plan.

    Raises:
        LeaderboardError: if it evaluated or took more than the budget, its plan cannot run, or it fails.
    """
    box = None
    if job.track.noise is not None and not job.nominal:
        box = BlackBox(BOX_SEED, noise=job.track.noise, noise_seed=job.seed)
    if "policy" not in job.options:  # one is of the networks that its own environments ask for
        _warm_up(job)
    env = made(job.env_id, box)
    before, begin = _counted(env, box), time.perf_counter()
    solution = _solution(job, env, job.budget.plans or ENDLESS, job.budget.seconds)
    seconds = time.perf_counter() - begin
    evaluations = max(int(solution.evaluations), _counted(env, box) - before)
    if solution.plan is None:
        raise LeaderboardError(f"{job}: no plan was found; everything in the backing memory always is one.")
    latency_ps = true_latency_ps(job.track, job.env_id, solution.plan)
    curve = [Point(each.evaluations, float(each.seconds), round(each.latency_s / PS)) for each in solution.history]
    if job.nominal:
        curve.clear()  # nobody measured on the way
    if not curve or curve[-1].latency_ps != latency_ps:
        curve.append(Point(evaluations, seconds, latency_ps))
    entry = Entry(*job.key, solution.plan, latency_ps, evaluations, seconds, tuple(curve))
    check_spending(entry, job.track.noise)
    return entry


def true_latency_ps(track: Track, env_id: str, plan: MemoryPlan) -> int:
    """Latency of a plan for an instance by who judges in that track, without noise.

    Raises:
        LeaderboardError: if it is one of something else, or cannot run.
    """
    task = task_of(env_id)
    plan = replace(plan, settings=task.settings)  # those in a stranger's file name nothing here
    broken = violations(task, plan)
    if broken:
        raise LeaderboardError(f"the plan for {env_id} cannot run: {broken[0].message}")
    if track.is_black_box:
        return int(_machine().run(task.program, task.accelerator, plan).latency_ps)
    return judge_plan(task, plan, trusted=True).latency_ps


@lru_cache(maxsize=1)
def _machine() -> BlackBox:
    """The one of the black-box tracks without noise; it keeps what it knows of the last program."""
    return BlackBox(BOX_SEED)


def _warm_up(job: Job) -> None:
    """A short search, once in a process for each agent, formulation and chip: what is compiled or loaded then is in
    nobody's time."""
    kind = job.agent, json.dumps(job.options, sort_keys=True), is_game(job.env_id), task_of(job.env_id).accelerator.name
    if kind not in _WARM:
        _solution(job, made(job.env_id), 10, 1.0)
        _WARM.add(kind)


def _solution(job: Job, env: PlacementEnv[Any], budget: int, time_limit: float | None) -> Any:
    """What the agent finds."""
    with named_failures(str(job), job.agent):
        agent = agent_spec(job.agent).make(**job.options)
        return agent.solve(env, budget=budget, seed=job.seed, time_limit=time_limit)


@contextmanager
def named_failures(where: str, agent: str) -> Iterator[None]:
    """Whatever a third party's agent raises is one sentence that names it.

    Raises:
        LeaderboardError: saying where.
    """
    try:
        yield
    except MemPlaceError:
        raise
    except Exception as failure:
        told = " ".join(str(failure).split())
        raise LeaderboardError(f"{where}: {agent} raised {type(failure).__name__}: {told}.") from failure


def _counted(env: PlacementEnv[Any], box: BlackBox | None) -> int:
    """Plans judged so far, those for the baselines, which are free, included."""
    if box is None:
        return int(env.problem.judged)  # type: ignore[attr-defined]
    (all_backing_report if isinstance(env, MallocGameEnv) else native_report)(env.task)
    return box.measured

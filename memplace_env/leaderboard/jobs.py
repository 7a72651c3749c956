"""One run of an agent for the leaderboard: evaluations are counted and the plan is validated and timed here."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from memplace_agents.registry import agent_spec
from memplace_env._lib.errors import LeaderboardError, MemPlaceError
from memplace_env._lib.units import PS
from memplace_env.envs.placement_env import PlacementEnv
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.leaderboard.black_box import BlackBox
from memplace_env.leaderboard.checks import check_spending
from memplace_env.leaderboard.drawn_machines import DrawnMachine, MeasuredMachine, drawn_machine, noise_seed
from memplace_env.leaderboard.entry import Entry, Point, RunKey
from memplace_env.leaderboard.machine_reference import find_reference
from memplace_env.leaderboard.pinned import make_env, task_of
from memplace_env.leaderboard.submission import Meta
from memplace_env.leaderboard.suite import REFERENCE, Budget, Track
from memplace_env.placement.compiler import all_backing_report, native_report
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.validation import violations

ENDLESS: Final = 10**7
"""Budget in plans where only time ends the search, or the agent ends it."""
BOX_SEED: Final = 20_26
"""Seed of the machine that black-box tracks measure if none is drawn, the same for all submissions."""

_WARM: Final[set[tuple[str, str, Formulation, str]]] = set()


@dataclass(frozen=True)
class Job:
    """A run to be played.

    Attributes:
        agent, options: name as in `memplace_agents.registry.agent_spec`, and the agent's arguments.
        track: the track played.
        env_id, budget, seed: key of the entry.
        nominal, deterministic: see `Meta`.
        machine_seed: seed of the machine, if one was drawn.
    """

    agent: str
    options: Mapping[str, Any] = field(hash=False)
    track: Track
    env_id: str
    budget: Budget
    seed: int
    nominal: bool = False
    deterministic: bool = False
    machine_seed: int | None = None

    @property
    def key(self) -> RunKey:
        """Key of the entry."""
        return self.env_id, self.budget.text, self.seed

    def __str__(self) -> str:
        return f"{self.env_id}, budget {self.budget.text}, seed {self.seed}"


def job_of(meta: Meta, track: Track, key: RunKey) -> Job:
    """Return the job of a submission's run."""
    env_id, budget, seed = key
    return Job(
        meta.agent,
        meta.options,
        track,
        env_id,
        Budget(budget),
        seed,
        nominal=meta.nominal,
        deterministic=meta.deterministic and budget != REFERENCE,
        machine_seed=meta.machine_seed(seed),
    )


def play(job: Job) -> Entry:
    """Let the agent search, or the judge for a reference; then validate and time the plan.

    Raises:
        LeaderboardError: if it evaluated or took more than the budget, its plan cannot run, or it fails.
    """
    # One search serves all seeds, machines and noises that change nothing in it.
    search = (
        _only_search(replace(job, track=_UNMEASURED, seed=0, machine_seed=None)) if job.deterministic else _search(job)
    )
    plan, evaluations, seconds, history = search
    latency_ps = true_latency_ps(job.track, job.env_id, plan, job.machine_seed)
    curve = [Point(step.evaluations, float(step.seconds), round(step.latency_s / PS)) for step in history]
    if job.nominal:
        curve.clear()  # its latencies are those of the cost arrays, not of the machine
    if not curve or curve[-1].latency_ps != latency_ps:
        curve.append(Point(evaluations, seconds, latency_ps))
    entry = Entry(*job.key, plan, latency_ps, evaluations, seconds, tuple(curve))
    try:
        check_spending(entry, job.track.noise)
    except LeaderboardError as error:
        raise LeaderboardError(f"{job.agent} on {job}: {error}") from None
    return entry


class _Found(NamedTuple):
    """The plan that a search found, with the counted evaluations and the measured seconds."""

    plan: MemoryPlan
    evaluations: int
    seconds: float
    history: Sequence[Any]


def _search(job: Job) -> _Found:
    if job.budget.text == REFERENCE:
        begin = time.perf_counter()
        reference = find_reference(_machine(job.track, job.machine_seed), job.env_id)
        assert reference.plan is not None
        return _Found(reference.plan, reference.evaluations, time.perf_counter() - begin, ())
    box = _box(job)
    if "policy" not in job.options:  # a trained policy may fit no other environments than its own
        _warm_up(job)
    env = make_env(job.env_id, box)
    before, begin = _counted(env, box), time.perf_counter()
    solution = _solution(job, env, job.budget.plans or ENDLESS, job.budget.seconds)
    seconds = time.perf_counter() - begin
    evaluations = max(int(solution.evaluations), _counted(env, box) - before)
    if solution.plan is None:
        raise LeaderboardError(f"{job}: no plan was found, though everything in the backing memory is one.")
    return _Found(solution.plan, evaluations, seconds, solution.history)


_UNMEASURED: Final = Track("unmeasured", "", ())
_only_search = lru_cache(maxsize=64)(_search)
"""Searches that several entries share."""


def _box(job: Job) -> BlackBox | MeasuredMachine | None:
    """Return the simulator that the agent meets; None for the cost arrays."""
    if job.track.noise is None or job.nominal:
        return None
    if job.track.machine is None:
        return BlackBox(BOX_SEED, noise=job.track.noise, noise_seed=job.seed)
    machine, seed = _machine(job.track, job.machine_seed), noise_seed(job.machine_seed or 0, *job.key)
    return MeasuredMachine(machine, job.track.noise, seed)


def true_latency_ps(track: Track, env_id: str, plan: MemoryPlan, machine_seed: int | None = None) -> int:
    """Return a plan's latency on an instance by the track's simulator, without noise.

    Args:
        track: the track.
        env_id: the environment.
        plan: the plan.
        machine_seed: seed of the machine, if the track draws one.

    Raises:
        LeaderboardError: if the plan is for another program or chip, or cannot run.
    """
    task = task_of(env_id)
    plan = replace(plan, settings=task.settings)  # those in an untrusted file are not used
    broken = violations(task, plan)
    if broken:
        raise LeaderboardError(f"the plan for {env_id} cannot run: {broken[0].message}")
    if track.is_black_box:
        return int(_machine(track, machine_seed).run(task.program, task.accelerator, plan).latency_ps)
    return evaluate_plan(task, plan, trusted=True).latency_ps


def _machine(track: Track, seed: int | None) -> DrawnMachine:
    """Return the machine that a black-box track measures, without noise."""
    if track.machine is None:
        return drawn_machine("factors", BOX_SEED)
    if seed is None:
        raise LeaderboardError(f"the track {track.name} draws its machine; a seed of it is missing.")
    return drawn_machine(track.machine, seed)


def _warm_up(job: Job) -> None:
    """Search shortly, once per process for each agent, formulation and chip, so that compiling and loading is in no
    run's time."""
    options, chip = json.dumps(job.options, sort_keys=True), task_of(job.env_id).accelerator.name
    kind = job.agent, options, formulation_of_id(job.env_id), chip
    if kind not in _WARM:
        _solution(job, make_env(job.env_id), 10, 1.0)
        _WARM.add(kind)


def _solution(job: Job, env: PlacementEnv[Any], budget: int, time_limit: float | None) -> Any:
    """Make the agent and let it search."""
    with named_failures(str(job), job.agent):
        agent = agent_spec(job.agent).make(**job.options)
        return agent.solve(env, budget=budget, seed=job.seed, time_limit=time_limit)


@contextmanager
def named_failures(where: str, agent: str) -> Iterator[None]:
    """Turn any exception of a third party's agent into one sentence that names it.

    Raises:
        LeaderboardError: beginning with `where`.
    """
    try:
        yield
    except MemPlaceError:
        raise
    except Exception as failure:
        reason = " ".join(str(failure).split())
        raise LeaderboardError(f"{where}: {agent} raised {type(failure).__name__}: {reason}.") from failure


def _counted(env: PlacementEnv[Any], box: BlackBox | MeasuredMachine | None) -> int:
    """Return the number of plans evaluated so far, those of the free baselines included."""
    if box is None:
        return int(env.problem.evaluated)  # type: ignore[attr-defined]
    (all_backing_report if env.formulation is Formulation.GAME else native_report)(env.task)
    return box.measured

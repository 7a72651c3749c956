"""One run of an agent for the leaderboard: a judged search, whose plan is validated and timed here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, Final

from memplace_env._lib.errors import LeaderboardError
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.validation import violations
from memplace_leaderboard.checks import check_spending
from memplace_leaderboard.drawn_machines import DrawnMachine, MeasuredMachine, drawn_machine, noise_seed
from memplace_leaderboard.entry import Entry, Point, RunKey
from memplace_leaderboard.judge import Judge, JudgedSearch
from memplace_leaderboard.judged_machine import JudgedMachine
from memplace_leaderboard.machine_reference import find_reference
from memplace_leaderboard.pinned import task_of
from memplace_leaderboard.submission import Meta
from memplace_leaderboard.suite import REFERENCE, Budget, Track

ENDLESS: Final = 10**7
"""Budget in plans where only time ends the search, or the agent ends it."""


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
    found = (
        _only_search(replace(job, track=_UNMEASURED, seed=0, machine_seed=None)) if job.deterministic else _search(job)
    )
    latency_ps = true_latency_ps(job.track, job.env_id, found.plan, job.machine_seed)
    # A nominal agent's improvements are those under the cost arrays, not on the machine.
    curve = [] if job.nominal else _improvements(found.curve, job.track.noise)
    if not curve or curve[-1].latency_ps != latency_ps:
        curve.append(Point(found.evaluations, found.seconds, latency_ps))
    entry = Entry(
        *job.key, found.plan, latency_ps, found.evaluations, found.seconds, tuple(curve), found.processor_seconds
    )
    try:
        check_spending(entry, job.track.noise)
    except LeaderboardError as error:
        raise LeaderboardError(f"{job.agent} on {job}: {error}") from None
    return entry


def _improvements(curve: Sequence[Point], noise: float | None) -> list[Point]:
    """Return the improvements among an agent's claims; under noise all changes, as an estimate may rise."""
    kept: list[Point] = []
    for point in curve:
        if not kept or (point.latency_ps < kept[-1].latency_ps if noise is None else point != kept[-1]):
            kept.append(point)
    return kept


def _search(job: Job) -> JudgedSearch:
    if job.budget.text == REFERENCE:
        begin, spent = time.perf_counter(), time.process_time()
        reference = find_reference(_machine(job.track, job.machine_seed), job.env_id)
        assert reference.plan is not None
        seconds, processor_seconds = time.perf_counter() - begin, time.process_time() - spent
        return JudgedSearch(reference.plan, reference.evaluations, seconds, processor_seconds, ())
    box = _box(job)
    task = task_of(job.env_id)
    try:
        return judge().search(
            job.agent,
            job.options,
            job.env_id,
            budget=job.budget.plans or ENDLESS,
            seconds=job.budget.seconds,
            seed=job.seed,
            measurements=None if box is None else JudgedMachine(box, task, job.budget.plans),
            noisy=box is not None and box.noisy,
        )
    except LeaderboardError as error:
        raise LeaderboardError(f"{job.agent} on {job}: {error}") from None


@cache
def judge() -> Judge:
    """Return the judge of this process, which keeps the process that agents are started from."""
    return Judge()


_UNMEASURED: Final = Track("unmeasured", "", ())
_only_search = lru_cache(maxsize=64)(_search)
"""Searches that several entries share."""


def _box(job: Job) -> MeasuredMachine | None:
    """Return the simulator that the agent meets; None for the cost arrays."""
    if not job.track.is_black_box or job.nominal:
        return None
    machine, seed = _machine(job.track, job.machine_seed), noise_seed(job.machine_seed or 0, *job.key)
    return MeasuredMachine(machine, job.track.noise or 0.0, seed)


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
    assert track.machine is not None
    if seed is None:
        raise LeaderboardError(f"the track {track.name} draws its machine; a seed of it is missing.")
    return drawn_machine(track.machine, seed)

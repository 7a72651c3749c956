"""Rows of the rules without a search, which the board plays itself: they cost milliseconds, and nobody submits them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from memplace_agents.registry import make_agent
from memplace_env._lib.version import __version__
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.envs.splits import FORMULATIONS
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_leaderboard.entry import Entry, Point
from memplace_leaderboard.jobs import ENDLESS, true_latency_ps
from memplace_leaderboard.pinned import make_env
from memplace_leaderboard.submission import Meta, Submission
from memplace_leaderboard.suite import OWN, Suite, Track

RULES: Final[Mapping[Formulation, tuple[str, ...]]] = {
    Formulation.ONE_SHOT: ("native", "density-greedy", "best-rule"),
    Formulation.GAME: ("greedy-player", "xla-msa", "best-rule"),
}
"""Agents of this package that do not search, with default options; the last takes the best plan of all rules."""


class _Played(NamedTuple):
    plan: MemoryPlan
    evaluations: int


def is_rule(meta: Meta) -> bool:
    """Return whether a submission is one of `RULES`, which the board plays itself: by its name, or its own budget."""
    names = {name for of_kind in RULES.values() for name in of_kind}
    return meta.name in names or (meta.agent in names and meta.budgets == (OWN,))


@cache
def rule_seconds() -> float:
    """Return the least processor seconds that a rule takes on this machine, by which machines are compared."""
    spent: list[float] = []
    for _ in range(6):  # the first one loads what it needs
        begin = time.process_time()
        make_agent("density-greedy").solve(make_env("MemPlace-BERT-v0"))
        spent.append(time.process_time() - begin)
    return round(min(spent), 6)


def computed_rows(suite: Suite, track: Track, submissions: Sequence[Submission]) -> list[Submission]:
    """Return a submission for each rule, of the formulations that were submitted to a track.

    Rules read the cost arrays; in a black-box track their plans are timed on the machine that it measures. What they
    take, milliseconds, is no figure: rows and pages of the same submissions are equal.

    Args:
        suite, track: the suite and its track.
        submissions: those to the track; they say which machines were drawn, if it draws any.
    """
    machines = sorted({seed for played in submissions for seed in played.meta.machine_seeds or ()})
    rows: dict[str, list[Formulation]] = {}
    for formulation in FORMULATIONS:
        if any(formulation in played.meta.formulations for played in submissions):
            for name in RULES[formulation]:
                rows.setdefault(name, []).append(formulation)
    return [_computed(suite, track, name, tuple(kinds), machines) for name, kinds in rows.items()]


def _computed(
    suite: Suite, track: Track, name: str, formulations: tuple[Formulation, ...], machines: Sequence[int]
) -> Submission:
    meta = Meta(
        name=name,
        agent=name,
        suite=suite.name,
        suite_sha256=suite.sha256,
        track=track.name,
        formulations=formulations,
        budgets=(OWN,),
        seeds=tuple(range(max(len(machines), 1))),
        memplace=__version__,
        deterministic=True,
        nominal=track.is_black_box,
        machine_seeds=None if track.machine is None else tuple(machines),
    )
    entries = []
    for env_id in suite.played(track, formulations):
        plan, evaluations = _played(env_id, name)
        for seed in meta.seeds:
            latency_ps = true_latency_ps(track, env_id, plan, meta.machine_seed(seed))
            curve = (Point(evaluations, 0.0, latency_ps),)
            entries.append(Entry(env_id, OWN, seed, plan, latency_ps, evaluations, 0.0, curve))
    return Submission(meta, tuple(entries), computed=True)


@lru_cache(maxsize=1024)
def _played(env_id: str, name: str) -> _Played:
    """Return what a rule finds on an environment under its cost arrays."""
    solution = make_agent(name).solve(make_env(env_id), budget=ENDLESS)
    assert solution.plan is not None
    assert name in RULES[formulation_of_id(env_id)]
    return _Played(solution.plan, solution.evaluations)

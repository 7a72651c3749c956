"""Results of a submission on one instance: the one computation behind the tables and the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from memplace_agents.optimality import OPTIMAL_GAP
from memplace_env._lib.errors import LeaderboardError
from memplace_env._lib.logger import LOGGER
from memplace_env.envs.best_known import Known
from memplace_env.envs.registration import Formulation
from memplace_leaderboard.entry import Entry
from memplace_leaderboard.scores import Curve, area_under_curve, share
from memplace_leaderboard.submission import Submission
from memplace_leaderboard.suite import LEAST_GAIN, Budget, Suite

FIRST_SECOND: Final = 0.01
"""Seconds at which the area under a curve begins; one over evaluations begins with the first. Our choice."""

Latencies = Mapping[str, Mapping[str, int]]
"""Latency of the baseline in ps, by track and `Meta.place`."""
Knowledge = Mapping[str, Mapping[str, Known]]
"""Best known plan and bound of an instance, by track and `Meta.place`."""


@dataclass(frozen=True)
class Cell:
    """One submission, budget and instance.

    Attributes:
        submission, track, formulation, budget, env_id: names of the five; the budget is that of the runs.
        counts: whether there is enough to gain for the instance to count in means.
        shares: shares of the gain, one per seed, in their order.
        areas: areas under the curves of the shares, one per seed; None at the budget "own", which has no end.
        gap: latency, of at most the baseline's, over the bound, minus 1, geometric mean over the seeds; None where no
            bound is known.
        solved: fraction of the seeds whose plan is proven optimal, to 0.01 %; None where no bound is known.
        evaluations: plans, mean over the seeds.
        seconds: wall time, mean over the seeds.
        processor_seconds: mean over the seeds; None where no judge measured it.
    """

    submission: str
    track: str
    formulation: Formulation
    budget: str
    env_id: str
    counts: bool
    shares: tuple[float, ...]
    areas: tuple[float, ...] | None
    gap: float | None
    solved: float | None
    evaluations: float
    seconds: float
    processor_seconds: float | None


def cells(suite: Suite, submissions: Sequence[Submission], *, baselines: Latencies, known: Knowledge) -> list[Cell]:
    """Return all cells, in the order of the submissions, budgets and the suite's instances.

    Args:
        suite: the suite played.
        submissions: all to that suite.
        baselines: latencies of the baselines.
        known: best known plans and bounds; a `bound_ps` of 0 or less means no known bound. A bound above a plan of
            these submissions is false, and does not count.

    Raises:
        LeaderboardError: if a submission is to another suite, lacks a run, or has the name of another one; or if a
            baseline or the best known plan of an instance is missing.
    """
    table: list[Cell] = []
    known = _without_false_bounds(known, submissions)
    taken: set[tuple[str, str, Formulation]] = set()
    for submission in submissions:
        meta = submission.meta
        if meta.suite != suite.name:
            raise LeaderboardError(f"Submission {meta.name!r} is to suite {meta.suite!r}, not to {suite.name}.")
        for formulation in meta.formulations:
            if (meta.track, meta.name, formulation) in taken:
                raise LeaderboardError(f"Track {meta.track} has two submissions named {meta.name!r}; rename one.")
            taken.add((meta.track, meta.name, formulation))
        counting = counting_ids(baselines.get(meta.track, {}), known.get(meta.track, {}))
        for env_id, runs in _runs(suite, submission):
            places = [meta.place(env_id, run.seed) for run in runs]
            if any(place not in of.get(meta.track, {}) for of in (baselines, known) for place in places):
                raise LeaderboardError(f"{env_id} has no known baseline or best plan in track {meta.track}.")
            facts = [(baselines[meta.track][place], known[meta.track][place]) for place in places]
            table.append(_cell(suite, submission, runs, facts, env_id in counting))
    return table


def _without_false_bounds(known: Knowledge, submissions: Sequence[Submission]) -> Knowledge:
    """Return what is known, with 0 for bounds that are above a plan of a submission, and warn of each."""
    true: dict[str, dict[str, Known]] = {track: dict(table) for track, table in known.items()}
    for submission in submissions:
        meta = submission.meta
        for run in submission.entries:
            place = meta.place(run.env_id, run.seed)
            row = true.get(meta.track, {}).get(place)
            if row is not None and run.latency_ps < row.bound_ps:
                LOGGER.warning(
                    "%s: a plan of %r takes %d ps, so that the bound of %d ps is false and does not count. Please "
                    "report it at https://github.com/memplace/memplace/issues.",
                    *(place, meta.name, run.latency_ps, row.bound_ps),
                )
                true[meta.track][place] = replace(row, bound_ps=0)
    return true


def counting_ids(baselines: Mapping[str, int], known: Mapping[str, Known]) -> frozenset[str]:
    """Return the ids with enough to gain, in the mean over their machines if these were drawn.

    Args:
        baselines, known: those of one track, by `Meta.place`.
    """
    gains: dict[str, list[float]] = {}
    for place in baselines.keys() & known.keys():
        gains.setdefault(place.partition("@")[0], []).append(baselines[place] / known[place].best_ps - 1)
    return frozenset(env_id for env_id, gain in gains.items() if np.mean(gain) >= LEAST_GAIN)


def _runs(suite: Suite, submission: Submission) -> Iterator[tuple[str, list[Entry]]]:
    """Yield the environment id and its runs by seed, for each budget."""
    meta = submission.meta
    entries = {entry.key: entry for entry in submission.entries}
    for budget in meta.budgets:
        for env_id in suite.played(suite.track(meta.track), meta.formulations):
            missing = [seed for seed in meta.seeds if (env_id, budget, seed) not in entries]
            if missing or not meta.seeds:
                raise LeaderboardError(
                    f"Submission {meta.name!r} has no run of {env_id} at budget {budget}"
                    f" with seed {missing[0] if missing else 0}; run it again, it goes on where it stopped."
                )
            yield env_id, [entries[env_id, budget, seed] for seed in meta.seeds]


def _cell(
    suite: Suite, submission: Submission, runs: Sequence[Entry], facts: Sequence[tuple[int, Known]], counts: bool
) -> Cell:
    """Return a cell of runs whose baseline and best known results are `facts`."""
    budget, env_id = Budget(runs[0].budget), runs[0].env_id
    latencies, baselines = [run.latency_ps for run in runs], [baseline for baseline, _ in facts]
    best, bounds = [known.best_ps for _, known in facts], [known.bound_ps for _, known in facts]
    ratios = np.minimum(baselines, latencies) / np.array(bounds) if min(bounds) > 0 else None
    processor = [run.processor_seconds for run in runs if run.processor_seconds is not None]
    curves = [
        curve(run, baseline, known.best_ps, seconds=budget.plans is None)
        for run, (baseline, known) in zip(runs, facts, strict=True)
    ]
    return Cell(
        submission=submission.meta.name,
        track=submission.meta.track,
        formulation=suite.instances[env_id].formulation,
        budget=budget.text,
        env_id=env_id,
        counts=counts,
        shares=tuple(share(latencies, baselines, best, LEAST_GAIN).tolist()),
        areas=_areas(budget, curves),
        gap=None if ratios is None else float(np.exp(np.log(ratios).mean()) - 1),
        solved=None if ratios is None else float((ratios <= 1 + OPTIMAL_GAP).mean()),
        evaluations=float(np.mean([run.evaluations for run in runs])),
        seconds=float(np.mean([run.seconds for run in runs])),
        processor_seconds=float(np.mean(processor)) if len(processor) == len(runs) else None,
    )


def curve(run: Entry, baseline: int, best: int, *, seconds: bool = False) -> Curve:
    """Return the share of the gain reached so far, over plans or seconds."""
    at = [point.seconds if seconds else point.evaluations for point in run.curve]
    latencies = np.maximum([point.latency_ps for point in run.curve], run.latency_ps)  # luck with noise is no gain
    return np.array(at, dtype=np.float64), share(latencies, baseline, best, LEAST_GAIN)


def _areas(budget: Budget, curves: Sequence[Curve]) -> tuple[float, ...] | None:
    if budget.plans is not None:
        return tuple(area_under_curve(anytime, budget.plans) for anytime in curves)
    if budget.seconds is not None:
        return tuple(area_under_curve(anytime, budget.seconds, FIRST_SECOND) for anytime in curves)
    return None

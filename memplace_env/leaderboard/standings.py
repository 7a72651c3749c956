"""From submissions to the rows of the tables: pure functions, so that the same plans give the same figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from memplace_env.envs.registration import Formulation
from memplace_env.leaderboard.break_even import Player, break_even
from memplace_env.leaderboard.cells import Cell, Knowledge, Latencies, cells
from memplace_env.leaderboard.scores import Floats, interquartile_mean, probability_of_improvement, stratified_bootstrap
from memplace_env.leaderboard.submission import Meta, Submission
from memplace_env.leaderboard.suite import OWN, Budget, Suite

CHEAP: Final = ("native", "density-greedy", "greedy-player", "xla-msa")
"""Agents of this package that do not search."""


@dataclass(frozen=True)
class StandingsRow:
    """One submission in the table of one track, formulation and budget.

    Means, gap and solved are over the instances that count; evaluations and seconds over all.

    Attributes:
        submission, track, formulation: names of the three.
        budget: budget of the table that the row is in.
        played_budget: budget of the runs; differs from `budget` in a reference row.
        is_reference: whether it is shown for comparison: rows that decide themselves what they spend are in the tables
            of all budgets, and so is the longest time of those played for seconds only, such as exact solvers.
        instances, played: number of instances that count, and of all.
        left_out: ids of the others, which have too little to gain.
        runs: number of seeds.
        share: interquartile mean of the share of the gain.
        low, high: its 95 % interval by stratified bootstrap over the seeds; None with one seed.
        mean: mean share of the gain.
        solved: fraction of the runs that are proven optimal; None where bounds are missing.
        area: mean area under the anytime curve; None in reference rows.
        gap: geometric mean of latency over bound, minus 1; None where bounds are missing.
        cheap: the strongest rule that does not search, in this track and formulation; None if there is none.
        improvement, improvement_low, improvement_high: probability of improvement over it, and its 95 % interval; None
            in its own row, and the interval if both have one seed.
        evaluations, seconds: means per run; the seconds are declared.
        training_plans: plans evaluated in training, declared; None if nothing was trained.
        break_even: see `break_even.break_even`; None if never, or if nothing was trained.
    """

    submission: str
    track: str
    formulation: Formulation
    budget: str
    played_budget: str
    is_reference: bool
    instances: int
    played: int
    left_out: tuple[str, ...]
    runs: int
    share: float
    low: float | None
    high: float | None
    mean: float
    solved: float | None
    area: float | None
    gap: float | None
    cheap: str | None
    improvement: float | None
    improvement_low: float | None
    improvement_high: float | None
    evaluations: float
    seconds: float
    training_plans: int | None
    break_even: float | None


Group = dict[tuple[str, str], list[Cell]]
"""Cells of one track and formulation by submission and budget."""


def standings(
    suite: Suite, submissions: Sequence[Submission], *, baselines: Latencies, known: Knowledge, resamples: int = 2000
) -> list[StandingsRow]:
    """Return the rows of all tables.

    Rows are sorted by the suite's tracks, formulation, budget (plans, seconds, own) and falling share, those for
    comparison last.

    A track and formulation without an instance that counts has no rows. The budget "own" has a table only if no other
    budget was played there, as its rows are in all tables.

    Args:
        suite: the suite played.
        submissions: all to that suite, in any order.
        baselines: latencies of the baselines.
        known: best known plans and bounds; a `bound_ps` of 0 or less means no known bound.
        resamples: resamples of each bootstrap.

    Raises:
        LeaderboardError: as `cells` does.
    """
    groups: dict[tuple[str, Formulation], Group] = {}
    for cell in cells(suite, submissions, baselines=baselines, known=known):
        group = groups.setdefault((cell.track, cell.formulation), {})
        group.setdefault((cell.submission, cell.budget), []).append(cell)
    players = [Player(played, baselines[played.meta.track], known[played.meta.track]) for played in submissions]
    metas = {
        (played.meta.track, played.meta.name, kind): played.meta
        for played in submissions
        for kind in played.meta.formulations
    }
    rows = [
        row
        for (track, kind), group in groups.items()
        if any(cell.counts for cell in next(iter(group.values())))
        for row in _rows(suite, group, {name: metas[track, name, kind] for name, _ in group}, players, resamples)
    ]
    tracks = list(suite.tracks)
    return sorted(
        rows,
        key=lambda row: (
            *(tracks.index(row.track), row.formulation, *order(row.budget)),
            *(row.is_reference, -row.share, row.submission),
        ),
    )


def order(budget: str) -> tuple[int, float]:
    """Return the sorting key of a budget: plans come first, then seconds, then own."""
    spent = Budget(budget)
    if spent.plans is not None:
        return 0, spent.plans
    return (2, 0) if spent.seconds is None else (1, spent.seconds)


def _rows(
    suite: Suite, group: Group, metas: Mapping[str, Meta], players: Sequence[Player], resamples: int
) -> Iterable[StandingsRow]:
    """Yield the rows of one track and formulation."""
    cheap = _strongest_cheap(group, metas)
    single = {
        key: _row(of_row, metas[key[0]], cheap, group[cheap, OWN] if cheap else None, resamples)
        for key, of_row in group.items()
    }
    cheap_means = [row.mean for key, row in single.items() if _is_cheap(group[key], metas[key[0]])]
    for key, row in single.items():
        trained = metas[key[0]].training
        plans = Budget(row.played_budget).plans
        if trained is not None and plans is not None:
            counting = [cell.env_id for cell in group[key] if cell.counts]
            # Shares compare across tracks of one simulator: the cost arrays, or the black box at this noise.
            simulator = suite.track(row.track).simulator
            others = [player for player in players if player.track(suite).simulator == simulator]
            programs = break_even(row.mean, plans, trained.plans, counting, others, max(cheap_means, default=-np.inf))
            single[key] = replace(row, break_even=programs)
    budgets = {budget for _, budget in single if budget != OWN} or {OWN}
    for budget in sorted(budgets, key=order):
        for name, meta in metas.items():
            shown = _shown(meta, budget)
            if shown == budget:
                yield single[name, shown]
            elif shown:
                yield replace(single[name, shown], budget=budget, is_reference=True, area=None)


def _shown(meta: Meta, budget: str) -> str | None:
    """Return which of a submission's budgets is shown in the table of a budget; None if it is not in that table."""
    if budget in meta.budgets:
        return budget
    if OWN in meta.budgets:
        return OWN
    only_seconds = all(Budget(text).plans is None for text in meta.budgets)
    return max(meta.budgets, key=order) if only_seconds else None


def _is_cheap(row: Sequence[Cell], meta: Meta) -> bool:
    return row[0].budget == OWN and meta.agent in CHEAP


def _strongest_cheap(group: Group, metas: Mapping[str, Meta]) -> str | None:
    strength = {
        name: float(interquartile_mean(shares(row)))
        for (name, _), row in sorted(group.items())
        if _is_cheap(row, metas[name])
    }
    return max(strength, key=strength.__getitem__, default=None)


def shares(row: Sequence[Cell]) -> Floats:
    """Return the shares of the gain of the instances that count: float[runs, instances]."""
    return np.array([cell.shares for cell in row if cell.counts]).T


def _row(
    row: Sequence[Cell], meta: Meta, cheap: str | None, cheap_row: Sequence[Cell] | None, resamples: int
) -> StandingsRow:
    first, counting, scores = row[0], [cell for cell in row if cell.counts], shares(row)
    low, high = _ends(stratified_bootstrap(interquartile_mean, scores, resamples=resamples))
    improvement: float | None = None
    improved: tuple[float | None, float | None] = (None, None)
    if cheap_row is not None and cheap_row is not row:
        pair = scores, shares(cheap_row)
        improvement = float(probability_of_improvement(*pair))
        improved = _ends(stratified_bootstrap(probability_of_improvement, *pair, resamples=resamples))
    gap = _mean([None if cell.gap is None else float(np.log1p(cell.gap)) for cell in counting])
    return StandingsRow(
        submission=first.submission,
        track=first.track,
        formulation=first.formulation,
        budget=first.budget,
        played_budget=first.budget,
        is_reference=False,
        instances=len(counting),
        played=len(row),
        left_out=tuple(cell.env_id for cell in row if not cell.counts),
        runs=len(scores),
        share=float(interquartile_mean(scores)),
        low=low,
        high=high,
        mean=float(scores.mean()),
        solved=_mean([cell.solved for cell in counting]),
        area=_mean([None if cell.areas is None else float(np.mean(cell.areas)) for cell in counting]),
        gap=None if gap is None else float(np.expm1(gap)),
        cheap=cheap,
        improvement=improvement,
        improvement_low=improved[0],
        improvement_high=improved[1],
        evaluations=float(np.mean([cell.evaluations for cell in row])),
        seconds=float(np.mean([cell.seconds for cell in row])),
        training_plans=None if meta.training is None else meta.training.plans,
        break_even=None,
    )


def _ends(interval: tuple[Floats, Floats] | None) -> tuple[float, float] | tuple[None, None]:
    return (None, None) if interval is None else (float(interval[0]), float(interval[1]))


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean, or None if a value is missing: the mean of the others would be one over other instances."""
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if len(present) == len(values) else None

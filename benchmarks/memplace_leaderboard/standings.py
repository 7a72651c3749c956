"""From submissions to the rows of the tables: pure functions, so that the same plans give the same figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from memplace_env.envs.registration import Formulation
from memplace_leaderboard.break_even import Player, break_even
from memplace_leaderboard.cells import Cell, Knowledge, Latencies, cells
from memplace_leaderboard.scores import (
    Floats,
    interquartile_mean,
    mean_score,
    optimality_gap,
    probability_of_improvement,
    stratified_bootstrap,
)
from memplace_leaderboard.submission import Standing, Submission
from memplace_leaderboard.suite import OWN, Budget, Suite, Track

UNLIKE: Final = 5.0
"""Ratio of wall to processor time, or the other way, from which a row is marked. Our choice."""


@dataclass(frozen=True)
class StandingsRow:
    """One submission in the table of one track, formulation and budget.

    Means, gaps and solved are over the instances that count; evaluations and seconds over all.

    Attributes:
        submission, track, formulation: names of the three.
        standing: whether it was run again here, was played by the board, or is declared.
        budget: budget of the table that the row is in; rows that the board played are in one table, of the budget own.
        played_budget: budget of the runs; another one where a row took no more than the table's budget.
        instances, played: number of instances that count, and of all.
        left_out: ids of the others, which have too little to gain.
        runs: number of seeds.
        share: mean share of the gain, by which rows are ranked.
        low, high: its 95 % interval by stratified bootstrap over instances and seeds; None with one run in all.
        iqm: interquartile mean of the share of the gain.
        optimality_gap: mean amount by which shares miss 1.
        solved: fraction of the runs that are proven optimal; None where bounds are missing.
        area: mean area under the anytime curve; None at the budget own and for rows of another budget.
        gap: geometric mean of latency over bound, minus 1; None where bounds are missing.
        cheap: the strongest rule that does not search, in this track and formulation; None if there is none.
        improvement, improvement_low, improvement_high: probability of improvement over it, and its 95 % interval; None
            in its own row, and the interval if both have one run.
        evaluations: plans, mean per run.
        seconds, processor_seconds: wall and processor time, means per run, those of the rerun where they are known; the
            latter None where no judge measured it.
        training_plans: plans evaluated in training, declared; None if nothing was trained.
        break_even: see `break_even.break_even`; None if never, or if nothing was trained.
        mark: what a reader has to know of its times and machines; empty if there is nothing.
    """

    submission: str
    track: str
    formulation: Formulation
    standing: Standing
    budget: str
    played_budget: str
    instances: int
    played: int
    left_out: tuple[str, ...]
    runs: int
    share: float
    low: float | None
    high: float | None
    iqm: float
    optimality_gap: float
    solved: float | None
    area: float | None
    gap: float | None
    cheap: str | None
    improvement: float | None
    improvement_low: float | None
    improvement_high: float | None
    evaluations: float
    seconds: float
    processor_seconds: float | None
    training_plans: int | None
    break_even: float | None
    mark: str = ""

    @property
    def cost_s(self) -> float:
        """Processor seconds per run; wall time where no judge measured them."""
        return self.seconds if self.processor_seconds is None else self.processor_seconds


Group = dict[tuple[str, str], list[Cell]]
"""Cells of one track and formulation by submission and budget."""
Owners = Mapping[str, Submission]
"""Submissions to one track and formulation by name."""


def standings(
    suite: Suite, submissions: Sequence[Submission], *, baselines: Latencies, known: Knowledge, resamples: int = 2000
) -> list[StandingsRow]:
    """Return the rows of all tables.

    Rows are sorted by the suite's tracks, formulation and budget (plans, seconds, own); within a table those that were
    run again come before those that are declared, and each of both by falling share.

    A track and formulation without an instance that counts has no rows.

    Args:
        suite: the suite played.
        submissions: all to that suite, in any order, rules that the board played among them.
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
    owners = {
        (played.meta.track, played.meta.name, kind): played
        for played in submissions
        for kind in played.meta.formulations
    }
    rows = [
        row
        for (track, kind), group in groups.items()
        if any(cell.counts for cell in next(iter(group.values())))
        for row in _rows(suite, group, {name: owners[track, name, kind] for name, _ in group}, players, resamples)
    ]
    tracks = list(suite.tracks)
    return sorted(
        rows,
        key=lambda row: (
            *(tracks.index(row.track), row.formulation, *order(row.budget)),
            *(row.standing is Standing.DECLARED, -row.share, row.submission),
        ),
    )


def order(budget: str) -> tuple[int, float]:
    """Return the sorting key of a budget: plans come first, then seconds, then own."""
    spent = Budget(budget)
    if spent.plans is not None:
        return 0, spent.plans
    return (2, 0) if spent.seconds is None else (1, spent.seconds)


def _rows(
    suite: Suite, group: Group, owners: Owners, players: Sequence[Player], resamples: int
) -> Iterator[StandingsRow]:
    """Yield the rows of one track and formulation."""
    cheap = _strongest_rule(group, owners)
    single = {
        key: _row(of_row, owners[key[0]], cheap, group[cheap, OWN] if cheap else None, resamples)
        for key, of_row in group.items()
    }
    rules = [row.share for row in single.values() if row.standing is Standing.COMPUTED]
    for key, row in single.items():
        training, plans = owners[key[0]].meta.training, Budget(row.played_budget).plans
        if training is not None and plans is not None:
            counting = [cell.env_id for cell in group[key] if cell.counts]
            # Shares compare across tracks of one simulator: the cost arrays, or the black box at this noise.
            simulator = suite.track(row.track).simulator
            others = [player for player in players if player.track(suite).simulator == simulator]
            programs = break_even(row.share, plans, training.plans, counting, others, max(rules, default=-np.inf))
            single[key] = replace(row, break_even=programs)
    track = suite.track(next(iter(single.values())).track)
    by_name: dict[str, list[StandingsRow]] = {}
    for (name, _), row in single.items():
        if row.standing is Standing.COMPUTED:
            yield row
        else:
            by_name.setdefault(name, []).append(row)
    for budget in _budgets(track, list(by_name.values())):
        for name, played in by_name.items():
            shown = _shown(track, budget, owners[name].meta.nominal, played)
            if shown is not None:
                yield shown if shown.budget == budget else replace(shown, budget=budget, area=None)


def _budgets(track: Track, rows: Sequence[Sequence[StandingsRow]]) -> list[str]:
    """Return the budgets that have a table: those played, and where costs are public all in seconds."""
    played = {row.played_budget for of_name in rows for row in of_name}
    timed = {budget.text for budget in track.budgets if budget.seconds} if not track.is_black_box else set()
    return sorted(((played - {OWN}) | (timed if played else set())) or played, key=order)


def _shown(track: Track, budget: str, nominal: bool, rows: Sequence[StandingsRow]) -> StandingsRow | None:
    """Return which of a submission's rows is in the table of a budget; None if it is not in that table.

    In a table of seconds where costs are public, it is the best row that took no more processor time, whatever its
    budget: plans that an agent times on a copy of its own are seen by the clock alone. In a table of plans it is the
    row of that budget, or one that decided itself what it spends and spent no more; what is nominal measured nothing.
    """
    limit = Budget(budget)
    same = [row for row in rows if row.played_budget == budget]
    if limit.seconds is not None and not track.is_black_box:
        within = [row for row in rows if row.cost_s <= limit.seconds]
        return max((*same, *within), key=lambda row: (row.share, -row.cost_s), default=None)
    if same:
        return same[0]
    free = [row for row in rows if (nominal or row.played_budget == OWN) and _spent(row, limit, nominal)]
    return max(free, key=lambda row: (row.share, -row.cost_s), default=None)


def _spent(row: StandingsRow, limit: Budget, nominal: bool) -> bool:
    """Return whether a row spent no more than a limit."""
    if limit.plans is not None:
        return nominal or row.evaluations <= limit.plans
    return limit.seconds is None or row.cost_s <= limit.seconds


def _strongest_rule(group: Group, owners: Owners) -> str | None:
    strength = {
        name: float(mean_score(shares(row))) for (name, _), row in sorted(group.items()) if owners[name].computed
    }
    return max(strength, key=strength.__getitem__, default=None)


def shares(row: Sequence[Cell]) -> Floats:
    """Return the shares of the gain of the instances that count: float[runs, instances]."""
    return np.array([cell.shares for cell in row if cell.counts]).T


def _row(
    row: Sequence[Cell], owner: Submission, cheap: str | None, cheap_row: Sequence[Cell] | None, resamples: int
) -> StandingsRow:
    first, counting, scores = row[0], [cell for cell in row if cell.counts], shares(row)
    low, high = _ends(stratified_bootstrap(mean_score, scores, resamples=resamples))
    improvement: float | None = None
    improved: tuple[float | None, float | None] = (None, None)
    if cheap_row is not None and cheap_row is not row:
        pair = scores, shares(cheap_row)
        improvement = float(probability_of_improvement(*pair))
        improved = _ends(stratified_bootstrap(probability_of_improvement, *pair, resamples=resamples))
    gap = _mean([None if cell.gap is None else float(np.log1p(cell.gap)) for cell in counting])
    timed = owner.rerun_times(first.formulation, first.budget)
    claimed = float(np.mean([cell.seconds for cell in row])), _mean([cell.processor_seconds for cell in row])
    seconds, used = timed or claimed
    return StandingsRow(
        submission=first.submission,
        track=first.track,
        formulation=first.formulation,
        standing=owner.standing(first.budget),
        budget=first.budget,
        played_budget=first.budget,
        instances=len(counting),
        played=len(row),
        left_out=tuple(cell.env_id for cell in row if not cell.counts),
        runs=len(scores),
        share=float(mean_score(scores)),
        low=low,
        high=high,
        iqm=float(interquartile_mean(scores)),
        optimality_gap=float(optimality_gap(scores)),
        solved=_mean([cell.solved for cell in counting]),
        area=_mean([None if cell.areas is None else float(np.mean(cell.areas)) for cell in counting]),
        gap=None if gap is None else float(np.expm1(gap)),
        cheap=cheap,
        improvement=improvement,
        improvement_low=improved[0],
        improvement_high=improved[1],
        evaluations=float(np.mean([cell.evaluations for cell in row])),
        seconds=seconds,
        processor_seconds=used,
        training_plans=None if owner.meta.training is None else owner.meta.training.plans,
        break_even=None,
        mark=_mark(owner, first.budget, timed is None, seconds, used),
    )


def _mark(owner: Submission, budget: str, claimed: bool, seconds: float, used: float | None) -> str:
    said = []
    if owner.public_machines:
        said.append("on machines of another row, whose seeds it could read, so that it is not ranked")
    if claimed and owner.standing(budget) is Standing.RERUN:
        said.append("placed by claimed time, as the rerun recorded none")
    # On a machine that is measured, wall time is the judge's, too.
    if used and owner.meta.machine_seeds is None and not 1 / UNLIKE < seconds / used < UNLIKE:
        said.append(f"wall time, {seconds:.3g} s, is {seconds / used:.2g} times processor time")
    return "; ".join(said)


def _ends(interval: tuple[Floats, Floats] | None) -> tuple[float, float] | tuple[None, None]:
    return (None, None) if interval is None else (float(interval[0]), float(interval[1]))


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean, or None if a value is missing: the mean of the others would be one over other instances."""
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if len(present) == len(values) else None

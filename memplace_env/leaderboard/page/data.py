"""From a leaderboard's parts to what the page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from memplace_env import __version__
from memplace_env.leaderboard.cells import Knowledge, Latencies, curve
from memplace_env.leaderboard.entry import Entry
from memplace_env.leaderboard.page.content import PageData
from memplace_env.leaderboard.page.plans import block_legend, plan_document, plan_key
from memplace_env.leaderboard.scores import mean_curve, share
from memplace_env.leaderboard.standings import Row
from memplace_env.leaderboard.submission import Submission
from memplace_env.leaderboard.suite import LEAST_GAIN, Instance, Known, Suite, Track
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task

GRID: Final = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 4000)
"""Evaluations at which anytime curves are drawn."""


class PlayedSuite(Protocol):
    """A suite, its submissions and what their scores are against; `tracks` are those that were played."""

    @property
    def suite(self) -> Suite: ...
    @property
    def submissions(self) -> Sequence[Submission]: ...
    @property
    def tracks(self) -> Sequence[str]: ...
    @property
    def baselines(self) -> Latencies: ...
    @property
    def known(self) -> Knowledge: ...
    @property
    def rows(self) -> Sequence[Row]: ...


class Run(NamedTuple):
    """An entry, the number of its submission on the page, and what its score is against."""

    submission: int
    entry: Entry
    baseline_ps: int
    known: Known

    @property
    def counts(self) -> bool:
        """Whether there is enough to gain on the instance."""
        return self.baseline_ps / self.known.best_ps - 1 >= LEAST_GAIN


def page_data(
    title: str,
    boards: Sequence[PlayedSuite],
    task_of: Callable[[str], Task],
    *,
    versions: Mapping[str, str] | None = None,
    plan_seeds: int | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> PageData:
    """Contents of a page.

    Args:
        title: of the page.
        boards: a suite each.
        task_of: the task of an environment id, with cost arrays.
        versions: what the page is made by; memplace's own is added.
        plan_seeds: of how many seeds, from 0 on, a run's plan is on the page; None for all. A plan takes some 2 to
            50 kB.
        told: called with how many environments' plans are written, of how many.
    """
    submissions = [each for board in boards for each in board.submissions]
    runs = [
        Run(
            index, entry, board.baselines[each.meta.track][entry.env_id], board.known[each.meta.track][entry.env_id]
        )
        for index, (board, each) in enumerate((board, each) for board in boards for each in board.submissions)
        for entry in each.entries
    ]  # fmt: skip
    shown = [plan_seeds is None or run.entry.seed < plan_seeds for run in runs]
    return PageData(
        title=title,
        versions={"memplace": __version__, **(versions or {})},
        suites=[_suite(board) for board in boards],
        submissions=[_submission(each) for each in submissions],
        rows=list(_rows(boards)),
        cells=_cells(runs, shown),
        curves={"grid": list(GRID), "series": _curves(runs)},
        kinds=block_legend(),
        plans=_plans([run.entry for run, kept in zip(runs, shown, strict=True) if kept], task_of, told),
    )


def _suite(board: PlayedSuite) -> dict[str, Any]:
    suite = board.suite
    return {
        "name": suite.name,
        "summary": suite.summary,
        "sha256": suite.sha256,
        "seeds": suite.seeds,
        "tracks": [_track(board, suite.track(name)) for name in board.tracks],
    }


def _track(board: PlayedSuite, track: Track) -> dict[str, Any]:
    places = [each for each in board.suite.instances.values() if track.split in (None, each.split)]
    baselines, known = board.baselines[track.name], board.known[track.name]
    return {
        "name": track.name,
        "summary": track.summary,
        "budgets": [budget.text for budget in track.budgets],
        "noise": track.noise,
        "instances": [_instance(each, baselines.get(each.env_id), known.get(each.env_id)) for each in places],
    }


def _instance(instance: Instance, baseline_ps: int | None, known: Known | None) -> dict[str, Any]:
    return {
        "id": instance.env_id,
        "formulation": str(instance.formulation),
        "workload": instance.workload,
        "chip": instance.accelerator,
        "family": instance.family,
        "ops": instance.ops,
        "baseline_ps": baseline_ps,
        "cheap_ps": known and known.cheap_ps,
        "best_ps": known and known.best_ps,
        "bound_ps": known.bound_ps if known and known.bound_ps > 0 else None,
    }


def _submission(submission: Submission) -> dict[str, Any]:
    meta = submission.meta
    names = ("name", "agent", "link", "licence", "suite", "track", "memplace", "deterministic", "nominal")
    return {
        **{name: getattr(meta, name) for name in names},
        "authors": list(meta.authors),
        "hardware": {str(key): str(value) for key, value in meta.hardware.items()},
        "training": meta.training and {"plans": meta.training.plans, "seconds": meta.training.seconds},
    }


def _rows(boards: Sequence[PlayedSuite]) -> Iterator[dict[str, Any]]:
    """Each with the number of its submission; of one name there may be several, for other formulations."""
    names = ("budget", "played_budget", "is_reference", "share", "low", "high", "gap", "solved", "cheap", "improvement")
    before = 0
    for board in boards:
        index = {
            (each.meta.track, each.meta.name, formulation): before + number
            for number, each in enumerate(board.submissions)
            for formulation in each.meta.formulations
        }
        for row in board.rows:
            fields = {name: getattr(row, name) for name in names}
            number = index[row.track, row.submission, row.formulation]
            yield {"submission": number, "formulation": str(row.formulation), **fields}
        before += len(board.submissions)


def _cells(runs: Sequence[Run], shown: Sequence[bool]) -> dict[str, list[Any]]:
    entries = [run.entry for run in runs]
    return {
        "submission": [run.submission for run in runs],
        "budget": [entry.budget for entry in entries],
        "id": [entry.env_id for entry in entries],
        "seed": [entry.seed for entry in entries],
        "latency_ps": [min(run.entry.latency_ps, run.baseline_ps) for run in runs],
        "share": [_share(run) if run.counts else None for run in runs],
        "evaluations": [entry.evaluations for entry in entries],
        "seconds": [round(entry.seconds, 3) for entry in entries],
        "plan": [plan_key(entry.plan) if kept else "" for entry, kept in zip(entries, shown, strict=True)],
    }


def _share(run: Run) -> float:
    return round(float(share(run.entry.latency_ps, run.baseline_ps, run.known.best_ps)), 6)


def _curves(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Mean over seeds of the share at each point of the grid, to the first that the longest run does not go beyond."""
    groups: dict[tuple[int, str, str], list[Run]] = {}
    for run in runs:
        if run.counts:
            groups.setdefault((run.submission, run.entry.budget, run.entry.env_id), []).append(run)
    series = []
    for (submission, budget, env_id), group in groups.items():
        curves = [curve(run.entry, run.baseline_ps, run.known.best_ps) for run in group]
        mean = mean_curve(curves, np.array(GRID, dtype=np.float64)).round(4).tolist()
        end = int(np.searchsorted(GRID, max(run.entry.evaluations for run in group))) + 1
        values = [*mean[:end], *[None] * (len(GRID) - end)]
        series.append({"submission": submission, "budget": budget, "id": env_id, "share": values})
    return series


def _plans(
    entries: Sequence[Entry], task_of: Callable[[str], Task], told: Callable[[int, int], None]
) -> Iterator[tuple[str, dict[str, Any]]]:
    plans: dict[str, list[MemoryPlan]] = {}
    for entry in entries:
        plans.setdefault(entry.env_id, []).append(entry.plan)
    for done, (env_id, each) in enumerate(plans.items(), 1):
        yield env_id, plan_document(task_of(env_id), each)
        told(done, len(plans))

"""From the submissions to a suite to the contents of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from memplace_env._lib.version import __version__
from memplace_env.envs.best_known import Known
from memplace_env.placement.compiler import all_backing
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import time_plan
from memplace_env.placement.task import Task
from memplace_env.report.plan_page.plan_document import plan_document
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_leaderboard.board import SuiteBoard
from memplace_leaderboard.cells import counting_ids, curve
from memplace_leaderboard.checks import OnProgress
from memplace_leaderboard.entry import Entry
from memplace_leaderboard.leaderboard_tables import Remarks
from memplace_leaderboard.scores import mean_curve, share
from memplace_leaderboard.submission import Meta, Submission
from memplace_leaderboard.suite import LEAST_GAIN, REFERENCE, Instance, Track

GRID: Final = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 4000)
"""Evaluations at which anytime curves are drawn."""


@dataclass(frozen=True)
class PageData:
    """The contents of a page; every value can be written as JSON.

    Attributes:
        title: title of the page.
        versions: versions of the software that made it, by name.
        suites: each with name, summary, sha256, seeds and tracks; a track has name, summary, meaning, budgets,
            main_budget, noise (None where the cost arrays give latencies) and instances; an instance has id,
            formulation, workload, chip, family, ops, baseline_ps, cheap_ps, best_ps and bound_ps (the last three None
            where unknown).
        submissions: each with name, agent, authors, link, licence, suite, track, memplace, hardware, training,
            nominal, deterministic, made (a day, or ""), computed (whether the board played it), rerun and same_plans
            (sentences, or None) and mine.
        rows: each with submission (index), formulation, seconds (of processors in the rerun, or None) and the fields of
            a `StandingsRow` that the page shows.
        cells: runs as columns of one length: submission (index), budget, id, seed, latency_ps (of the entry or the
            baseline, whichever is faster), share (None where too little can be gained), evaluations, seconds (of
            processors where a judge measured them, else wall time; None for rules), plan
            (a key in that id's document, or "" if its plan is not on the page).
        curves: "grid", evaluations; "series", each with submission (index), budget, id and share: at each point of
            the grid the mean over seeds, None after the run ended.
        plans: environment ids and their documents, see `plan_document`; read once, one document at a time.
    """

    title: str
    versions: Mapping[str, str]
    suites: Sequence[Mapping[str, Any]]
    submissions: Sequence[Mapping[str, Any]]
    rows: Sequence[Mapping[str, Any]]
    cells: Mapping[str, Sequence[Any]]
    curves: Mapping[str, Sequence[Any]]
    plans: Iterable[tuple[str, Mapping[str, Any]]] = field(default=(), repr=False)

    def tables(self) -> dict[str, Any]:
        """Return everything but the plans."""
        return {key: getattr(self, key) for key in self.__dataclass_fields__ if key != "plans"}


class PageRun(NamedTuple):
    """An entry, the number of its submission on the page, the references of its score, and whether it counts."""

    submission: int
    entry: Entry
    baseline_ps: int
    known: Known
    counts: bool


def page_data(
    title: str,
    boards: Sequence[SuiteBoard],
    task_of: Callable[[str], Task],
    *,
    plan_seeds: int | None = None,
    mine: Meta | None = None,
    on_progress: OnProgress = lambda done, of: None,
) -> PageData:
    """Return the contents of a page.

    Args:
        title: title of the page.
        boards: one per suite.
        task_of: returns the task of an environment id, with cost arrays.
        plan_seeds: number of seeds, from 0 on, whose plans are on the page; None for all. A plan takes some 2 to 50 kB.
        mine: the submission whose row is marked.
        on_progress: called with the number of environments whose plans are written, and of all.
    """
    submissions = [(board, submission) for board in boards for submission in board.submissions]
    remarks = {board.suite.name: board.remarks() for board in boards}
    runs: list[PageRun] = []
    for index, (board, submission) in enumerate(submissions):
        runs += _runs(index, board, submission)
    shown = [plan_seeds is None or run.entry.seed < plan_seeds for run in runs]
    return PageData(
        title=title,
        versions={"memplace": __version__},
        suites=[_suite(board) for board in boards],
        submissions=[_submission(submission, remarks[board.suite.name], mine) for board, submission in submissions],
        rows=list(_rows(boards)),
        cells=_cells(runs, shown),
        curves={"grid": list(GRID), "series": _curves(runs)},
        plans=_plans([run.entry for run, kept in zip(runs, shown, strict=True) if kept], task_of, on_progress),
    )


def _runs(index: int, board: SuiteBoard, submission: Submission) -> Iterator[PageRun]:
    """Yield the agent's runs; the judge's references are no runs of the submission."""
    meta = submission.meta
    baselines, known = board.baselines[meta.track], board.known[meta.track]
    counting = counting_ids(baselines, known)
    for run in submission.entries:
        if run.budget != REFERENCE:
            place = meta.place(run.env_id, run.seed)
            yield PageRun(index, run, baselines[place], known[place], run.env_id in counting)


def _suite(board: SuiteBoard) -> dict[str, Any]:
    suite = board.suite
    return {
        "name": suite.name,
        "summary": suite.summary,
        "sha256": suite.sha256,
        "seeds": suite.seeds,
        "tracks": [_track(board, suite.track(name)) for name in board.tracks],
    }


def _track(board: SuiteBoard, track: Track) -> dict[str, Any]:
    instances = [instance for instance in board.suite.instances.values() if track.split in (None, instance.split)]
    baselines, known = board.baselines[track.name], board.known[track.name]
    return {
        "name": track.name,
        "summary": track.summary,
        "meaning": track.meaning,
        "main_budget": track.main_budget,
        "budgets": [budget.text for budget in track.budgets],
        "noise": track.noise,
        "instances": [_instance(row, baselines.get(row.env_id), known.get(row.env_id)) for row in instances],
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


def _submission(submission: Submission, remarks: Remarks, mine: Meta | None) -> dict[str, Any]:
    meta = submission.meta
    names = ("name", "agent", "link", "licence", "suite", "track", "memplace", "deterministic", "nominal", "made")
    return {
        "computed": submission.computed,
        "rerun": submission.rerun and submission.rerun.text,
        "same_plans": remarks.same_plans.get((meta.track, meta.name)),
        "mine": mine is not None and (mine.suite, mine.track, mine.name) == (meta.suite, meta.track, meta.name),
        **{name: getattr(meta, name) for name in names},
        "authors": list(meta.authors),
        "hardware": {str(key): str(value) for key, value in meta.hardware.items()},
        "training": meta.training and {"plans": meta.training.plans, "seconds": meta.training.seconds},
    }


def _rows(boards: Sequence[SuiteBoard]) -> Iterator[dict[str, Any]]:
    """Yield the rows with the number of their submission; one name may have several, for different formulations."""
    names = ("budget", "played_budget", "standing", "share", "low", "high", "iqm", "optimality_gap")
    more = ("gap", "solved", "cheap", "improvement", "mark")
    before = 0
    for board in boards:
        index = {
            (submission.meta.track, submission.meta.name, formulation): before + number
            for number, submission in enumerate(board.submissions)
            for formulation in submission.meta.formulations
        }
        for row in board.rows:
            fields = {name: getattr(row, name) for name in (*names, *more)}
            number = index[row.track, row.submission, row.formulation]
            timed = board.submissions[number - before].rerun_times(row.formulation, row.played_budget)
            fields["seconds"] = timed and timed[1]
            yield {"submission": number, "formulation": str(row.formulation), **fields}
        before += len(board.submissions)


def _cells(runs: Sequence[PageRun], shown: Sequence[bool]) -> dict[str, list[Any]]:
    entries = [run.entry for run in runs]
    return {
        "submission": [run.submission for run in runs],
        "budget": [entry.budget for entry in entries],
        "id": [entry.env_id for entry in entries],
        "seed": [entry.seed for entry in entries],
        "latency_ps": [min(run.entry.latency_ps, run.baseline_ps) for run in runs],
        "share": [_share(run) if run.counts else None for run in runs],
        "evaluations": [entry.evaluations for entry in entries],
        "seconds": [
            round(entry.seconds if entry.processor_seconds is None else entry.processor_seconds, 3) or None
            for entry in entries
        ],
        "plan": [entry.plan.key if kept else "" for entry, kept in zip(entries, shown, strict=True)],
    }


def _share(run: PageRun) -> float:
    return round(float(share(run.entry.latency_ps, run.baseline_ps, run.known.best_ps, LEAST_GAIN)), 6)


def _curves(runs: Sequence[PageRun]) -> list[dict[str, Any]]:
    """Return the mean over seeds of the share at each point of the grid, up to the first beyond the longest run."""
    groups: dict[tuple[int, str, str], list[PageRun]] = {}
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
    entries: Sequence[Entry], task_of: Callable[[str], Task], on_progress: OnProgress
) -> Iterator[tuple[str, dict[str, Any]]]:
    plans: dict[str, list[MemoryPlan]] = {}
    for entry in entries:
        plans.setdefault(entry.env_id, []).append(entry.plan)
    for done, (env_id, distinct) in enumerate(plans.items(), 1):
        yield env_id, _document(task_of(env_id), distinct)
        on_progress(done, len(plans))


def _document(task: Task, plans: Sequence[MemoryPlan]) -> dict[str, Any]:
    """Return the document of plans whose ops take the times of the cost arrays."""
    baseline, *timed = (EvaluatedPlan(plan, time_plan(task, plan)) for plan in (all_backing(task), *plans))
    return plan_document(task, baseline, timed)

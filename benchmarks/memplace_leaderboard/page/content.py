"""The contents of the page as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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

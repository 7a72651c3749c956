"""Standings as Markdown."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from memplace_env.report import tables
from memplace_env.report.markdown import markdown_table
from memplace_leaderboard.rerun_record import RerunRecord
from memplace_leaderboard.standings import StandingsRow
from memplace_leaderboard.submission import Standing
from memplace_leaderboard.suite import LEAST_GAIN, OWN, Suite

TICK = "✓"
"""Mark of rows that were run again."""


@dataclass(frozen=True)
class Remarks:
    """Remarks on rows beside their figures, by (track, name).

    Attributes:
        reruns: records of those who ran a submission again.
        same_plans: sentences on submissions with the plans of another one, see `same_plans`.
        mine: the row of the user who asked.
    """

    reruns: Mapping[tuple[str, str], RerunRecord] = field(default_factory=dict)
    same_plans: Mapping[tuple[str, str], str] = field(default_factory=dict)
    mine: tuple[str, str] | None = None


def markdown(rows: Sequence[StandingsRow], suite: Suite, remarks: Remarks = Remarks()) -> str:
    """Return the tables of the rows, in their order: for each track and formulation one for each budget.

    Rules that the board played are in the table if there is one budget, else in a table of their own.
    """
    parts: list[str] = []
    for _, group in groupby(rows, key=lambda row: (row.track, row.formulation)):
        of_track = list(group)
        rules = [row for row in of_track if row.standing is Standing.COMPUTED]
        budgets = [list(each) for _, each in groupby((row for row in of_track if row not in rules), lambda r: r.budget)]
        if len(budgets) == 1:
            parts.append(_section(suite, [*budgets[0], *rules], remarks, budgets[0][0].budget))
        else:
            parts += [_section(suite, each, remarks, each[0].budget) for each in budgets]
            parts += [_section(suite, rules, remarks, OWN)] if rules else []
    return "\n\n".join(parts) + "\n" if parts else f"No instance of {suite.name} that counts was played.\n"


def budget_text(budget: str) -> str:
    """Return a budget for people: "10 s", "100 plans", "rules without a search"."""
    if budget == OWN:
        return "own choice"
    return f"{budget[:-1]} s" if budget.endswith("s") else f"{int(budget):,} plans"


def _section(suite: Suite, rows: Sequence[StandingsRow], remarks: Remarks, budget: str) -> str:
    first, track = rows[0], suite.track(rows[0].track)
    ranked = sorted((row for row in rows if row.standing is not Standing.DECLARED), key=lambda row: -row.share)
    declared = [row for row in rows if row.standing is Standing.DECLARED]
    only_rules = all(row.standing is Standing.COMPUTED for row in rows)
    title = "rules without a search" if only_rules else budget_text(budget)
    parts = [f"### {suite.name}, {first.track}, {first.formulation}, {title}", f"{track.summary}. {track.meaning}"]
    trains = any(row.training_plans is not None for row in rows)
    if ranked:
        parts.append(_table(ranked, trains, remarks))
    if declared:
        parts += ["Declared: their authors say so, and nobody ran them again.", _table(declared, trains, remarks)]
    return "\n\n".join([*parts, _note(rows, remarks)])


def _table(rows: Sequence[StandingsRow], trains: bool, remarks: Remarks) -> str:
    better = [] if rows[0].cheap is None else [f"P(better than {_text(rows[0].cheap)})"]
    headers = ["row", "share of gain [95 %]", "IQM", "optimality gap", "gap to bound", *better, "plans", "processor s"]
    return markdown_table(
        [*headers, *(["break-even after"] if trains else [])], [_cells(r, trains, remarks) for r in rows]
    )


def _cells(row: StandingsRow, trains: bool, remarks: Remarks) -> list[str]:
    spent = (f"{row.cost_s:,.3g}" if row.cost_s < 1000 else f"{row.cost_s:,.0f}") if row.cost_s else tables.NONE
    wall = "" if row.processor_seconds is not None or not row.cost_s else " (wall)"
    better = _percent(row.improvement, 0) + _interval(row.improvement_low, row.improvement_high, 0)
    return [
        _name(row, remarks),
        _percent(row.share) + _interval(row.low, row.high),
        _percent(row.iqm),
        _percent(row.optimality_gap),
        _percent(row.gap, 2),
        *([] if row.cheap is None else [better]),
        f"{row.evaluations:,.4g}" if row.evaluations < 1000 else f"{row.evaluations:,.0f}",
        spent + wall,
        *([_break_even(row)] if trains else []),
    ]


def _name(row: StandingsRow, remarks: Remarks) -> str:
    name = _text(row.submission)
    if row.standing is Standing.COMPUTED:
        return f"*{name}*"
    spent = "" if row.played_budget in (OWN, row.budget) else f" ({budget_text(row.played_budget)})"
    name = f"**{name}** (yours)" if (row.track, row.submission) == remarks.mine else name
    return f"{TICK} {name}{spent}" if row.standing is Standing.RERUN else f"{name}{spent}"


def _break_even(row: StandingsRow) -> str:
    if row.training_plans is None or row.played_budget != row.budget:
        return tables.NONE
    return "never" if row.break_even is None else f"{row.break_even:,.0f} programs"


def _note(rows: Sequence[StandingsRow], remarks: Remarks) -> str:
    row = rows[0]
    left_out = f": {', '.join(row.left_out)}" if 0 < len(row.left_out) <= 10 else ""
    lines = [
        f"{row.instances} of {row.played} instances count; {len(row.left_out)} have less than {LEAST_GAIN:.0%} to gain"
        f" over the baseline{left_out}.",
        "Intervals are over instances and seeds. Plans and seconds are means per run.",
        "Rows in italics are rules without a search, which this command played itself.",
    ]
    keys = list(dict.fromkeys((row.track, row.submission) for row in rows))
    lines += _listed(f"{TICK} {{}}: {{}}.", keys, {key: record.text for key, record in remarks.reruns.items()})
    lines += _listed("{}: {}", keys, remarks.same_plans)
    for mark in dict.fromkeys(each.mark for each in rows if each.mark):
        lines.append(f"{', '.join(_text(each.submission) for each in rows if each.mark == mark)}: {_text(mark)}.")
    if any(row.training_plans is not None for row in rows):
        lines.append(
            "Break-even: programs until training has saved more plans, against the best untrained search, than it cost;"
            " never: a rule without search is as good, or no search needs more plans. Training is declared."
        )
    return " ".join(lines)


def _listed(form: str, keys: Iterable[tuple[str, str]], said: Mapping[tuple[str, str], str]) -> list[str]:
    return [form.format(_text(key[1]), _text(said[key])) for key in keys if key in said]


def _percent(value: float | None, digits: int = 1) -> str:
    return tables.NONE if value is None else f"{100 * value:.{digits}f} %"


def _interval(low: float | None, high: float | None, digits: int = 1) -> str:
    return "" if low is None or high is None else f" [{100 * low:.{digits}f}, {100 * high:.{digits}f}]"


def _text(name: str) -> str:
    """Escape an untrusted name: it ends no cell early and is no markup."""
    return html.escape(" ".join(name.split()), quote=False).replace("|", "&#124;").replace("*", "&#42;")

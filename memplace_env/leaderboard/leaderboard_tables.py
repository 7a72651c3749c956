"""Standings as Markdown."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import groupby

from memplace_env.leaderboard.standings import StandingsRow
from memplace_env.leaderboard.suite import LEAST_GAIN, OWN, Suite
from memplace_env.report import tables
from memplace_env.report.markdown import markdown_table


def markdown(rows: Sequence[StandingsRow], suite: Suite) -> str:
    """Return a heading, a table and a note for each track and formulation of the rows, in their order."""
    parts = [_section(suite, list(group)) for _, group in groupby(rows, key=lambda row: (row.track, row.formulation))]
    return "\n\n".join(parts) + "\n" if parts else f"No instance of {suite.name} that counts was played.\n"


def _section(suite: Suite, rows: Sequence[StandingsRow]) -> str:
    first = rows[0]
    trains = any(row.training_plans is not None for row in rows)
    better = [] if first.cheap is None else [f"P(better than {_text(first.cheap)})"]
    headers = ["row", "budget", "IQM share of gain [95 %]", "mean", "area", "gap to bound", "solved", *better]
    headers += ["plans", "seconds (declared)", *(["break-even after (declared)"] if trains else [])]
    return "\n\n".join(
        [
            f"#### {suite.name}, {first.track}, {first.formulation}",
            suite.track(first.track).summary,
            markdown_table(headers, [_cells(row, trains) for row in rows]),
            _note(first, trains),
        ]
    )


def _cells(row: StandingsRow, trains: bool) -> list[str]:
    spent = "" if row.played_budget == OWN else f" ({row.played_budget})"
    name = _text(row.submission)
    return [
        f"*{name}{spent}*" if row.is_reference else name,
        row.budget,
        _percent(row.share) + _interval(row.low, row.high),
        _percent(row.mean),
        _percent(row.area),
        _percent(row.gap, 2),
        _percent(row.solved, 0),
        *(
            []
            if row.cheap is None
            else [_percent(row.improvement, 0) + _interval(row.improvement_low, row.improvement_high, 0)]
        ),
        f"{row.evaluations:,.4g}" if row.evaluations < 1000 else f"{row.evaluations:,.0f}",
        f"{row.seconds:,.3g}" if row.seconds < 1000 else f"{row.seconds:,.0f}",
        *([_break_even(row)] if trains else []),
    ]


def _break_even(row: StandingsRow) -> str:
    if row.training_plans is None or row.is_reference:
        return tables.NONE
    return "never" if row.break_even is None else f"{row.break_even:,.0f} programs"


def _note(row: StandingsRow, trains: bool) -> str:
    left_out = f": {', '.join(row.left_out)}" if row.left_out else ""
    lines = [
        f"{row.instances} of {row.played} instances count; {len(row.left_out)} have less than {LEAST_GAIN:.0%} to gain"
        f" over the baseline and are left out of all means{left_out}.",
        "Rows in italics are shown for comparison: they spend what they decide themselves, or the time in brackets.",
        "Intervals are over seeds only, not over what other instances would do. Plans and seconds are means over all"
        " instances; plans are counted when a submission is made, seconds are declared.",
    ]
    if trains:
        lines.append(
            "Break-even: programs until training has saved more plans, against the best untrained search, than it cost;"
            " never: a rule without search is as good, or no search needs more plans. Training is declared."
        )
    return " ".join(lines)


def _percent(value: float | None, digits: int = 1) -> str:
    return tables.NONE if value is None else f"{100 * value:.{digits}f} %"


def _interval(low: float | None, high: float | None, digits: int = 1) -> str:
    return "" if low is None or high is None else f" [{100 * low:.{digits}f}, {100 * high:.{digits}f}]"


def _text(name: str) -> str:
    """Escape an untrusted name: it ends no cell early and is no markup."""
    return html.escape(" ".join(name.split()), quote=False).replace("|", "&#124;").replace("*", "&#42;")

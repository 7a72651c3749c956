"""Standings as Markdown and JSON."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby

from memplace_env.leaderboard.standings import Row
from memplace_env.leaderboard.suite import LEAST_GAIN, OWN, Suite
from memplace_env.views.tables import base, markup


def to_json(rows: Sequence[Row]) -> str:
    """The rows as JSON, one a line; names as in `Row`."""
    return "[\n" + ",\n".join(json.dumps(asdict(row), allow_nan=False) for row in rows) + "\n]\n"


def markdown(rows: Sequence[Row], suite: Suite) -> str:
    """A heading, a table and what it leaves out, for each track and formulation of the rows, in their order."""
    parts = [_section(suite, list(group)) for _, group in groupby(rows, key=lambda row: (row.track, row.formulation))]
    return "\n\n".join(parts) + "\n" if parts else f"No instance of {suite.name} that counts was played.\n"


def _section(suite: Suite, rows: Sequence[Row]) -> str:
    first = rows[0]
    trains = any(row.training_plans is not None for row in rows)
    better = [] if first.cheap is None else [f"P(better than {_text(first.cheap)})"]
    headers = ["row", "budget", "IQM share of gain [95 %]", "mean", "area", "gap to bound", "solved", *better]
    headers += ["plans", "seconds (declared)", *(["pays off after (declared)"] if trains else [])]
    return "\n\n".join(
        [
            f"#### {suite.name}, {first.track}, {first.formulation}",
            suite.track(first.track).summary,
            markup.markdown(headers, [_cells(row, trains) for row in rows]),
            _note(first, trains),
        ]
    )


def _cells(row: Row, trains: bool) -> list[str]:
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
        *([_paying(row)] if trains else []),
    ]


def _paying(row: Row) -> str:
    if row.training_plans is None or row.is_reference:
        return base.NONE
    return "never" if row.pays_off is None else f"{row.pays_off:,.0f} programs"


def _note(row: Row, trains: bool) -> str:
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
            "Pays off: programs until training has cost fewer plans than it saves against the best untrained search;"
            " never: a row without search is as good, or no search needs more plans. Training is declared."
        )
    return " ".join(lines)


def _percent(value: float | None, digits: int = 1) -> str:
    return base.NONE if value is None else f"{100 * value:.{digits}f} %"


def _interval(low: float | None, high: float | None, digits: int = 1) -> str:
    return "" if low is None or high is None else f" [{100 * low:.{digits}f}, {100 * high:.{digits}f}]"


def _text(name: str) -> str:
    """A name as it is, whatever a stranger wrote in it: no cell ends early, no markup."""
    return html.escape(" ".join(name.split()), quote=False).replace("|", "&#124;").replace("*", "&#42;")

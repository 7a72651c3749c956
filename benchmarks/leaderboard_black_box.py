"""Our rows of the suite black-box-v2, and their table, which `benchmarks.leaderboard` prints.

python -m benchmarks.leaderboard_black_box exact-nominal calibrated    # makes the submissions of rows that are missing
python -m benchmarks.leaderboard --suites black-box-v2

The rows of one kind of machine are on the same five machines, those that the first of them drew. So they are compared
on equal ground, and the judge's references are made once. Rules have no rows here: the board plays them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.tables import markdown_table
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS
from memplace_leaderboard import running
from memplace_leaderboard.folder import RUNS
from memplace_leaderboard.standings import StandingsRow
from memplace_leaderboard.submission import Submission
from memplace_leaderboard.suite import Track, load_suite
from memplace_leaderboard.verifying import read

SUITE = load_suite("black-box-v2")
SUBMISSIONS = Path(__file__).parent / "submissions"
NAMES = {Formulation.ONE_SHOT: "Maps", Formulation.GAME: "Games"}
OURS = {"authors": ("MemPlace",), "link": "https://github.com/memplace/memplace", "licence": "Apache-2.0"}


@dataclass(frozen=True)
class BoxRow:
    """A row: an agent, its options, and its budgets if it has any; a nominal one measures nothing."""

    agent: str
    options: dict[str, Any] = field(default_factory=dict)
    budgets: tuple[str, ...] = ()
    nominal: bool = True


ROWS = {
    "exact-nominal": BoxRow("exact", {}, ("60s",)),
    "local-search": BoxRow("local-search", {}, ("100", "500"), nominal=False),
    "game-local-search": BoxRow("game-local-search", {}, ("100", "500"), nominal=False),
    "calibrated": BoxRow("calibrated", {}, ("10", "100"), nominal=False),
    "cross-entropy": BoxRow("cross-entropy", {}, ("100", "500"), nominal=False),
    "egrl": BoxRow("egrl", {}, ("100", "500"), nominal=False),
    "ppo": BoxRow("plan-gradient", {}, ("100", "500"), nominal=False),
    "muzero": BoxRow("muzero", {}, ("100", "500"), nominal=False),
}


def folder(track: Track, name: str) -> Path:
    """Return the folder of a row's submission to a track."""
    return SUBMISSIONS / f"{SUITE.name}-{track.name}-{name}"


def machines(track: Track) -> Submission | None:
    """Return a submission of ours on this kind of machine; None if there is none yet."""
    for other in SUITE.tracks.values():
        for name in ROWS:
            if other.machine == track.machine and (folder(other, name) / RUNS).exists():
                return read(folder(other, name))
    return None


def make(name: str) -> None:
    """Make the submissions of a row that are missing, a track after the other."""
    row = ROWS[name]
    for track in SUITE.tracks.values():
        out, drawn = folder(track, name), machines(track)
        if not (out / RUNS).exists():
            meta = running.describe(
                *(SUITE, track, row.agent, row.options, row.budgets),
                **{"machines": drawn, "name": name, "nominal": row.nominal, "deterministic": row.nominal, **OURS},
            )
            running.run(meta, out, machines=drawn, on_progress=lambda done, of, out=out: print(out.name, done, of))


def shares_table(rows: Sequence[StandingsRow]) -> str:
    """Return the shares of the gain of all rows, a table for each formulation and a column for each track."""
    parts = []
    for kind in FORMULATIONS:
        shown = {(row.submission, row.played_budget): row.share for row in rows if row.formulation is kind}
        cells = [
            [_label(*key), *(_share(rows, kind, track, *key) for track in SUITE.tracks)]
            for key in sorted(shown, key=lambda key: shown[key])
        ]
        if cells:
            parts += [f"{NAMES[kind]}, share of the gain in percent:", markdown_table(["row", *SUITE.tracks], cells)]
    return "\n\n".join(parts)


def _label(name: str, budget: str) -> str:
    return name if budget == "own" else f"{name}, {budget}"


def _share(rows: Sequence[StandingsRow], kind: Formulation, track: str, name: str, budget: str) -> str:
    """Return the share of a row in a track."""
    of = [row for row in rows if (row.formulation, row.track, row.submission) == (kind, track, name)]
    for row in of:
        if row.played_budget == budget:
            interval = "" if row.low is None or row.high is None else f" [{100 * row.low:.0f}, {100 * row.high:.0f}]"
            return f"{100 * row.share:.1f}{interval}"
    return "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", choices=ROWS, nargs="+", help="rows whose missing submissions are made")
    for name in parser.parse_args().rows:
        make(name)


if __name__ == "__main__":
    main()

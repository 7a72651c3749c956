"""The record of reruns: a file of those who keep a leaderboard, beside the submissions and never inside one.

Each line says that whoever keeps the file ran a submission again and what came out. It names the submission by the hash
of its files, so that it is void once one of them changes. It is trusted because of where it is: `table` and `page` read
the file that their user names, and nothing in a submitter's folder.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from memplace_env._lib.errors import LeaderboardError
from memplace_env._lib.files import write_atomically
from memplace_env._lib.foreign import parse_json

Times = Mapping[str, tuple[float, float]]
"""Wall and processor seconds, means per run, by formulation and budget, such as "one-shot 10s"."""
BYTES: Final = 2**24
"""Largest record that is read."""


@dataclass(frozen=True)
class RerunRecord:
    """One submission that was run again.

    Attributes:
        sha256: hash of the submission's files.
        name, suite, track: of the submission, for people who read the file.
        budgets: budgets that were run again.
        runs: number of runs.
        method: "equal" if every run gave the same plan, "two-sample" if other seeds were tested.
        p_value: of the test, see `rerunning.p_value`; None if the runs were equal.
        change: mean share of the gain of the new runs less that of the submission's.
        date: day, as 2026-01-31.
        memplace: version of the code.
        machine: cpu and number of cores.
        times: of the new runs, by which the row is placed; empty in old records.
        rule_s: `free_rules.rule_seconds` of the machine.
    """

    sha256: str
    name: str
    suite: str
    track: str
    budgets: tuple[str, ...]
    runs: int
    method: str
    p_value: float | None
    change: float
    date: str
    memplace: str
    machine: str
    times: Times = field(default_factory=dict)
    rule_s: float | None = None

    @property
    def text(self) -> str:
        """Text for tables: the test, the day, the version and the machine."""
        test = "the same plans" if self.p_value is None else f"p = {self.p_value:.2f}"
        return f"{test}; {self.date}, memplace {self.memplace}, {self.machine}"


def read_records(path: Path) -> Mapping[str, RerunRecord]:
    """Return the records of a file by the hash of the submission; the last line about one holds.

    Raises:
        LeaderboardError: if the file is missing, too large, or a line is no record; names the line.
    """
    try:
        if path.stat().st_size > BYTES:
            raise LeaderboardError(f"{path} has more than {BYTES:,} bytes; pass a record of reruns.")
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LeaderboardError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    records = {}
    for number, line in enumerate(lines, 1):
        try:
            record = _record(parse_json(line))
        except (ValueError, TypeError) as error:
            raise LeaderboardError(f"{path}, line {number} is no record of a rerun ({error}).") from None
        records[record.sha256] = record
    return records


def add_record(path: Path, record: RerunRecord) -> None:
    """Add a record to a file, in place of an older one about the same row; the file is replaced as a whole."""
    records = list(read_records(path).values()) if path.exists() else []
    row = record.name, record.suite, record.track
    kept = [other for other in records if (other.name, other.suite, other.track) != row]
    lines = [json.dumps(asdict(each)) + "\n" for each in (*kept, record)]
    write_atomically(path, "".join(sorted(lines, key=_row_of)))


def _row_of(line: str) -> tuple[str, ...]:
    document = json.loads(line)
    return document["suite"], document["track"], document["name"]


def _record(document: Any) -> RerunRecord:
    if not isinstance(document, dict):
        raise TypeError("it is no object")
    times = {key: (float(wall), float(used)) for key, (wall, used) in document.get("times", {}).items()}
    record = RerunRecord(**{**document, "budgets": tuple(document.get("budgets", ())), "times": times})
    texts = (record.sha256, record.name, record.suite, record.track, record.method, record.date, record.memplace)
    if not all(isinstance(text, str) for text in (*texts, record.machine, *record.budgets)):
        raise TypeError("a text is missing")
    if record.p_value is not None and not 0 <= record.p_value <= 1:
        raise ValueError("p_value is not from 0 to 1")
    if not all(0 < each < math.inf for pair in times.values() for each in pair):
        raise ValueError("a time is none")
    return record

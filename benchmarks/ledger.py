"""Measurements that go on where they were stopped: a file with a JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import Any

from rich.progress import track

Record = dict[str, Any]


class Ledger:
    """What has been measured.

    Args:
        path: the file; it need not exist.
        fields: what tells measurements apart; a record or a setting may lack some.

    Attributes:
        records: in the order in which they were measured.
    """

    def __init__(self, path: Path, fields: Sequence[str]) -> None:
        self._path, self._fields = path, fields
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.records: list[Record] = [json.loads(line) for line in lines]

    def of(self, settings: Iterable[Record]) -> list[Record]:
        """The records of these settings, in their order; those that were not measured are left out."""
        known = {self._key(record): record for record in self.records}
        keys = [self._key(setting) for setting in settings]
        return [known[key] for key in keys if key in known]

    def missing(
        self, settings: Sequence[Record], finished: Callable[[Record], bool] = lambda record: True
    ) -> list[Record]:
        """The settings, in their order, that have no record, or none that is `finished`."""
        known = {self._key(record) for record in self.of(settings) if finished(record)}
        return [setting for setting in settings if self._key(setting) not in known]

    def add(self, record: Record) -> None:
        """Write a record, at once; it counts instead of an earlier one of its setting."""
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record) + "\n")
        self.records.append(record)

    def complete(
        self,
        settings: Sequence[Record],
        measure: Callable[[Record], Record],
        pool: Executor,
        finished: Callable[[Record], bool] = lambda record: True,
    ) -> list[Record]:
        """The records of these settings; what is missing is measured, and each record written as soon as it is there.

        Args:
            settings: plain JSON values.
            measure: makes a record of a setting, with all the setting's fields; must be picklable.
            pool: where it runs.
            finished: whether a record is whole; one that is not is measured anew, and the later record counts.
        """
        runs = [pool.submit(measure, setting) for setting in self.missing(settings, finished)]
        try:
            for run in track(as_completed(runs), "measuring", len(runs)):
                self.add(run.result())
        finally:
            for run in runs:
                run.cancel()
        return self.of(settings)

    def _key(self, record: Record) -> str:
        return json.dumps({field: record[field] for field in self._fields if field in record}, sort_keys=True)

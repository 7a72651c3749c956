"""Measurements that continue where they were stopped: a file with one JSON object per line.

Each line says with which commit, on which day and on which processor it was measured; older lines may not.
"""

from __future__ import annotations

import json
import lzma
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from rich.progress import track

from memplace_env._lib.files import write_atomically
from memplace_leaderboard.running import hardware

Record = dict[str, Any]
SETTING = ("workload", "accelerator", "batch", "dtype", "dims")
"""Fields of a record that are arguments of an environment."""
PROVENANCE = ("commit", "date", "cpu")
"""Fields that say where a record comes from; no setting has a field of such a name."""


class Ledger:
    """The records of a file, and the runs that are missing in it.

    Args:
        path: the file; it need not exist. One that ends in `.xz` is an archive, and new records are added to a plain
            file beside it until they are packed.
        fields: the fields that identify a measurement; a record or a setting may lack some.

    Attributes:
        records: the records in the order in which they were measured.
    """

    def __init__(self, path: Path, fields: Sequence[str]) -> None:
        assert not set(fields) & set(PROVENANCE), "a setting's field has the name of one of the record's own"
        self._archive, self._fields, self._commit = path, fields, _commit()
        self._path = path.with_suffix("") if path.suffix == ".xz" else path
        self.records: list[Record] = [json.loads(line) for line in self._text().splitlines()]

    def of(self, settings: Iterable[Record]) -> list[Record]:
        """Return the records of these settings, in their order; settings without a record are left out."""
        by_key = {self._key(record): record for record in self.records}
        keys = [self._key(setting) for setting in settings]
        return [by_key[key] for key in keys if key in by_key]

    def missing(
        self, settings: Sequence[Record], finished: Callable[[Record], bool] = lambda record: True
    ) -> list[Record]:
        """Return the settings, in their order, that have no record or none that is `finished`."""
        done = {self._key(record) for record in self.of(settings) if finished(record)}
        return [setting for setting in settings if self._key(setting) not in done]

    def add(self, record: Record) -> None:
        """Append a record to the file, and where it comes from; it replaces an earlier one of its setting."""
        where = (self._commit, datetime.now(UTC).date().isoformat(), hardware()["cpu"])
        record = record | dict(zip(PROVENANCE, where, strict=True))
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record) + "\n")
        self.records.append(record)

    def pack(self) -> None:
        """Put the records that were added since into the archive."""
        if self._archive != self._path and self._path.exists():
            write_atomically(self._archive, lzma.compress(self._text().encode()))
            self._path.unlink()

    def complete(
        self,
        settings: Sequence[Record],
        measure: Callable[[Record], Record],
        pool: Executor,
        finished: Callable[[Record], bool] = lambda record: True,
    ) -> list[Record]:
        """Return the records of these settings; measure what is missing, and write each record as soon as it is there.

        Args:
            settings: plain JSON values.
            measure: returns a setting's record, with all the setting's fields; must be picklable.
            pool: where it runs.
            finished: returns False for a record that is to be measured again; the later record counts.
        """
        runs = [pool.submit(measure, setting) for setting in self.missing(settings, finished)]
        try:
            for run in track(as_completed(runs), "measuring", len(runs)):
                self.add(run.result())
        finally:
            for run in runs:
                run.cancel()
        return self.of(settings)

    def _text(self) -> str:
        archive = self._archive if self._archive != self._path else None
        packed = lzma.decompress(archive.read_bytes()).decode() if archive and archive.exists() else ""
        return packed + (self._path.read_text("utf-8") if self._path.exists() else "")

    def _key(self, record: Record) -> str:
        return json.dumps({field: record[field] for field in self._fields if field in record}, sort_keys=True)


@cache
def _commit() -> str:
    """Return the commit with which this process began; "unknown" without git."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"
    return "unknown"

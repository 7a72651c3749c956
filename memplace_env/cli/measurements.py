"""Measured latencies in a CSV file: what each row is of, and where it is wrong."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from memplace_env import foreign
from memplace_env.cli.model_flags import ModelFlags, parsed_dims
from memplace_env.errors import CalibrationError, MemPlaceError
from memplace_env.hints import nearest

if TYPE_CHECKING:
    from memplace_env.analysis.calibration import Measurement

FILE_BYTES: Final = 2**20
MOST_ROWS: Final = 1_000
"""Of a file, above which it is not read: each row is a program to be built. Our choice."""
NEEDED = ("model", "latency_ms")
COLUMNS = (*NEEDED, "batch", "dtype", "dims", "plan")
_MODEL_COLUMNS = ("model", "batch", "dtype", "dims")


class Row(NamedTuple):
    """A row that is not empty: the number of its line, the first being 1, and its cells by column."""

    line: int
    cells: dict[str, str]


def read_measurements(path: Path, flags: ModelFlags) -> list[Measurement]:
    """What the rows of a file say, with the programs loaded for the chip of the flags.

    Raises:
        CalibrationError: naming the file and, where they are to blame, line and column.
    """
    try:
        rows = _rows(path)
        return [_measurement(row, flags) for row in rows]
    except CalibrationError as error:
        raise CalibrationError(f"{path}{error}") from None


def _rows(path: Path) -> list[Row]:
    try:
        text = foreign.read(path, FILE_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a null character in the path
        why = getattr(error, "strerror", None) or error
        raise CalibrationError(f": it cannot be read, {why}; pass a CSV file in UTF-8.") from None
    reader = csv.reader(StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header)
        rows: list[Row] = []
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise CalibrationError(
                    f", line {reader.line_num}: it has {len(cells)} cells for {len(header)} columns; put texts with "
                    "commas in quotes."
                )
            if len(rows) == MOST_ROWS:
                raise CalibrationError(f", line {reader.line_num}: {MOST_ROWS:,} measurements are the most; drop some.")
            named = zip(header, cells, strict=True)
            rows.append(Row(reader.line_num, {name: cell.strip() for name, cell in named}))
    except csv.Error as error:
        raise CalibrationError(f", line {reader.line_num}: it is no CSV, {error}; correct the line.") from None
    if not rows:
        raise CalibrationError(": it has no measurements; write one below the header for each latency.")
    return rows


def _check_header(header: list[str]) -> None:
    for name in NEEDED:
        if name not in header:
            raise CalibrationError(f", line 1: there is no column {name}; the header is {','.join(COLUMNS)} or less.")
    for name in header:
        if name not in COLUMNS:
            close = nearest(name, COLUMNS)
            hint = f"did you mean {close}?" if close else f"remove it, or use one of {', '.join(COLUMNS)}."
            raise CalibrationError(f", line 1: {name!r} is no column; {hint}")
        if header.count(name) > 1:
            raise CalibrationError(f", line 1: the column {name} is there twice; remove one.")


def _measurement(row: Row, flags: ModelFlags) -> Measurement:
    from memplace_env.analysis.calibration import Measurement
    from memplace_env.plan import MemoryPlan, require_valid

    said = {column: row.cells.get(column, "") for column in COLUMNS}
    with _blaming(row, "latency_ms"):
        latency_s = _milliseconds(said["latency_ms"]) / 1000
    with _blaming(row, "model"):
        if not said["model"]:
            raise CalibrationError("it is empty; write a model as 'memplace solve' takes it.")
    with _blaming(row, "batch"):
        batch = _count(said["batch"]) if said["batch"] else None
    with _blaming(row, "dims"):
        dims = parsed_dims(said["dims"].split(), "it") or None
    asked = replace(flags, batch=batch, dims=dims, dtype=said["dtype"] or None)
    with _blaming(row, *(column for column in _MODEL_COLUMNS if said[column])):
        task = asked.task(said["model"])
    plan = None
    if said["plan"]:
        with _blaming(row, "plan"):
            plan = MemoryPlan.load(said["plan"])
            require_valid(task, plan)
    shown = [said["model"], *(f"{column} {said[column]}" for column in COLUMNS[2:] if said[column])]
    return Measurement(foreign.shown(", ".join(shown), foreign.WORD), task, latency_s, plan)


@contextmanager
def _blaming(row: Row, *columns: str) -> Iterator[None]:
    """Say in which line and column an error is."""
    try:
        yield
    except MemPlaceError as error:
        named = f"column{'s' if len(columns) > 1 else ''} {', '.join(columns)}"
        raise CalibrationError(f", line {row.line}, {named}: {error}") from None


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1e-9 <= value <= 1e9:
        raise CalibrationError(f"{text!r} is no latency; write the milliseconds that were measured, such as 12.5.")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 10 or not 0 < int(text) < 2**31:
        raise CalibrationError(f"{text!r} is no batch size; write a whole number, or nothing for the default.")
    return int(text)

"""Measured latencies in a CSV file: their tasks, and errors by line and column."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from memplace_env._lib import foreign
from memplace_env._lib.errors import CalibrationError, MemPlaceError
from memplace_env._lib.hints import nearest
from memplace_env.cli.model_flags import ModelFlags, parsed_dims

if TYPE_CHECKING:
    from memplace_env.report.calibration import Measurement

FILE_BYTES: Final = 2**20
MOST_ROWS: Final = 1_000
"""Most rows of a file, each of which is a program to be built. Our choice."""
NEEDED = ("model", "latency_ms")
COLUMNS = (*NEEDED, "batch", "dtype", "dims", "plan")
_MODEL_COLUMNS = ("model", "batch", "dtype", "dims")


class MeasurementRow(NamedTuple):
    """A row that is not empty: the number of its line, the first being 1, and its cells by column."""

    line: int
    cells: dict[str, str]


def read_measurements(path: Path, flags: ModelFlags) -> list[Measurement]:
    """Return the measurements of a file, with the programs loaded for the chip of the flags.

    Raises:
        CalibrationError: naming the file and, where they are known, line and column.
    """
    try:
        rows = _rows(path)
        return [_measurement(row, flags) for row in rows]
    except CalibrationError as error:
        raise CalibrationError(f"{path}{error}") from None


def _rows(path: Path) -> list[MeasurementRow]:
    try:
        text = foreign.read(path, FILE_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a null character in the path
        reason = getattr(error, "strerror", None) or error
        raise CalibrationError(f": it cannot be read, {reason}; pass a CSV file in UTF-8.") from None
    reader = csv.reader(StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header)
        rows: list[MeasurementRow] = []
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise CalibrationError(
                    f", line {reader.line_num}: it has {len(cells)} cells for {len(header)} columns; put texts with "
                    "commas in quotes."
                )
            if len(rows) == MOST_ROWS:
                raise CalibrationError(f", line {reader.line_num}: the limit is {MOST_ROWS:,} measurements; drop some.")
            named = zip(header, cells, strict=True)
            rows.append(MeasurementRow(reader.line_num, {name: cell.strip() for name, cell in named}))
    except csv.Error as error:
        raise CalibrationError(f", line {reader.line_num}: it is not CSV, {error}; correct the line.") from None
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
            raise CalibrationError(f", line 1: {name!r} is not a column; {hint}")
        if header.count(name) > 1:
            raise CalibrationError(f", line 1: the column {name} is there twice; remove one.")


def _measurement(row: MeasurementRow, flags: ModelFlags) -> Measurement:
    from memplace_env.placement.memory_plan import MemoryPlan
    from memplace_env.placement.validation import require_valid
    from memplace_env.report.calibration import Measurement

    values = {column: row.cells.get(column, "") for column in COLUMNS}
    with _located(row, "latency_ms"):
        latency_s = _milliseconds(values["latency_ms"]) / 1000
    with _located(row, "model"):
        if not values["model"]:
            raise CalibrationError("it is empty; write a model as 'memplace solve' takes it.")
    with _located(row, "batch"):
        batch = _count(values["batch"]) if values["batch"] else None
    with _located(row, "dims"):
        dims = parsed_dims(values["dims"].split(), "it") or None
    flags = replace(flags, batch=batch, dims=dims, dtype=values["dtype"] or None)
    with _located(row, *(column for column in _MODEL_COLUMNS if values[column])):
        task = flags.task(values["model"])
    plan = None
    if values["plan"]:
        with _located(row, "plan"):
            plan = MemoryPlan.load(values["plan"])
            require_valid(task, plan)
    shown = [values["model"], *(f"{column} {values[column]}" for column in COLUMNS[2:] if values[column])]
    return Measurement(foreign.shown(", ".join(shown), foreign.WORD), task, latency_s, plan)


@contextmanager
def _located(row: MeasurementRow, *columns: str) -> Iterator[None]:
    """Name line and columns in errors of the block."""
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
        raise CalibrationError(f"{text!r} is not a latency; write the milliseconds that were measured, such as 12.5.")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 10 or not 0 < int(text) < 2**31:
        raise CalibrationError(f"{text!r} is not a batch size; write a whole number, or nothing for the default.")
    return int(text)

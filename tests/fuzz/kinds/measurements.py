"""Files of measured latencies, changed: accepted rows belong to requested programs, and are possible."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from memplace_env.cli.measurements import COLUMNS, MOST_ROWS, read_measurements
from memplace_env.cli.model_flags import ModelFlags
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.validation import violations
from tests.fuzz import Wrong
from tests.fuzz.documents import damaged, mutated

NAME = "measurements"
CASES = 3_000
MODELS = (
    "synthetic:chain?ops=4&seed=1",
    "synthetic:random?ops=5&seed=2",
    "synthetic:matmul?factorisation=strassen&size=64&dtype=int8",
)


def prepare(folder: Path) -> list[list[str]]:
    """Return a header and rows, one of them with a plan."""
    plan = native_plan(resolve_task(MODELS[0])).save(folder / "measured.json")
    rows = [[model, f"{number + 1}.5", "", "", "", ""] for number, model in enumerate(MODELS)]
    return [list(COLUMNS), *rows, [MODELS[0], "1e-3", "", "", "", str(plan)]]


def case(rows: list[list[str]], rng: np.random.Generator, folder: Path) -> bool:
    """Read a file as `memplace calibrate` does."""
    table: Any = mutated(rows, rng) if rng.random() < 0.7 else rows
    text = io.StringIO()
    writer = csv.writer(text)
    for row in table if isinstance(table, list) else [table]:
        writer.writerow([_cell(each) for each in row] if isinstance(row, list) else [_cell(row)])
    content = text.getvalue().encode(errors="replace")
    path = folder / "measured.csv"
    path.write_bytes(content if rng.random() < 0.75 else damaged(content, rng))
    measured = read_measurements(path, ModelFlags(accelerator="nnp-i"))
    if not 0 < len(measured) <= MOST_ROWS:
        raise Wrong(f"{len(measured)} measurements")
    for each in measured:
        if not 0 < each.latency_s < math.inf or not each.name.isprintable() or len(each.name) > 2_000:
            raise Wrong(f"{each.name!r} takes {each.latency_s} s")
        if each.plan is not None and violations(each.task, each.plan):
            raise Wrong("a plan that is not valid")
    return True


def _cell(value: Any) -> str:
    return hex(value) if isinstance(value, int) and abs(value) > 10**50 else str(value)

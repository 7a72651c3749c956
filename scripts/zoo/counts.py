"""The independent counts that the tests hold the zoo against."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

COUNTS: Final = Path(__file__).resolve().parents[2] / "tests" / "workload" / "zoo_counts.json"


def update_counts(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes what was counted, a program a line; what the file says of others stays."""
    counts = json.loads(COUNTS.read_text("utf-8")) | dict(found)
    lines = (f"  {json.dumps(name)}: {json.dumps(counts[name])}" for name in sorted(counts, key=str.lower))
    COUNTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")

"""Independent counts to which the tests compare the zoo."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

COUNTS: Final = Path(__file__).resolve().parents[2] / "tests" / "program" / "zoo_counts.json"


def update_counts(changed: Mapping[str, Mapping[str, Any]]) -> None:
    """Write counts, one program per line; those of other programs stay."""
    counts = json.loads(COUNTS.read_text("utf-8")) | dict(changed)
    lines = (f"  {json.dumps(name)}: {json.dumps(counts[name])}" for name in sorted(counts, key=str.lower))
    COUNTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")

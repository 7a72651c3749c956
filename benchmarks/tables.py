"""Markdown tables and results files, as the benchmark scripts write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memplace_env.files import write_atomically
from memplace_env.views.tables.markup import markdown

__all__ = ["markdown", "save_results", "setting_text", "write_between_markers"]


def setting_text(record: Mapping[str, Any]) -> str:
    """What of an environment's arguments says how its program is made, for people: "int8, batch 4, sequence 128"."""
    dims = [f"{key} {value}" for key, value in record.get("dims", {}).items()]
    batch = [f"batch {record['batch']}"] if "batch" in record else []
    return ", ".join([*([record["dtype"]] if "dtype" in record else []), *batch, *dims])


def write_between_markers(path: Path, name: str, content: str) -> None:
    """Replace what stands between `<!-- name:begin -->` and `<!-- name:end -->` in a document."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    text = path.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        raise SystemExit(f"{path} has no markers {begin} ... {end}.")
    head, tail = text.split(begin)[0], text.split(end)[1]
    write_atomically(path, f"{head}{begin}\n{content}\n{end}{tail}")


def save_results(path: Path, results: Sequence[Any]) -> None:
    """Write a list as JSON, one item a line, whole or not at all."""
    write_atomically(path, "[\n" + ",\n".join(map(json.dumps, results)) + "\n]\n")

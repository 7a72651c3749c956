"""The file of registered ids, `memplace_env/envs/ids.json`: settings by formulation and name, and their variants."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.harness import ROOT

IDS: Final = "memplace_env/envs/ids.json"
"""The file, from the root."""


def with_ids(table: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the file with other settings of names by formulation; variants stay as far as their names do."""
    variants = _registered()["variants"]
    for variant in variants.values():
        for formulation, entries in table.items():
            if isinstance(variant[formulation], list):
                variant[formulation] = [name for name in variant[formulation] if name in entries]
    return _text({**table, "variants": variants})


def with_variant(end: str, settings: Mapping[str, Any], names: Mapping[str, Sequence[str] | Mapping[str, Any]]) -> str:
    """Return the file with another variant: what it adds to settings, and of which names, by formulation.

    Names with settings of their own need not be registered without the variant.
    """
    table = _registered()
    table["variants"][end] = {"settings": settings, **names}
    return _text(table)


def _registered() -> dict[str, Any]:
    return dict(json.loads((ROOT / IDS).read_text("utf-8")))


def _text(table: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the file: an id or a variant a line."""
    parts = [
        f'"{part}": {{\n'
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        + "\n}"
        for part, entries in table.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"

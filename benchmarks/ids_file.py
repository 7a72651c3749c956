"""The file of registered ids, `memplace_env/envs/ids.json`: settings by formulation and name, and their variants."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from memplace_env._lib.files import write_atomically

IDS: Final = Path(__file__).parents[1] / "memplace_env" / "envs" / "ids.json"


def registered() -> dict[str, Any]:
    """Return the contents of the file."""
    return dict(json.loads(IDS.read_text("utf-8")))


def register(table: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the settings of names by formulation; variants of such settings stay as far as their names do."""
    variants = registered()["variants"]
    for variant in variants.values():
        for formulation, entries in table.items():
            if isinstance(variant[formulation], list):
                variant[formulation] = [name for name in variant[formulation] if name in entries]
    _write({**table, "variants": variants})


def register_variant(
    end: str, settings: Mapping[str, Any], names: Mapping[str, Sequence[str] | Mapping[str, Any]]
) -> None:
    """Write a variant: what it adds to settings, and of which names, by formulation.

    Names with settings of their own need not be registered without the variant.
    """
    table = registered()
    table["variants"][end] = {"settings": settings, **names}
    _write(table)


def _write(table: Mapping[str, Mapping[str, Any]]) -> None:
    """Write an id or a variant a line."""
    parts = [
        f'"{part}": {{\n'
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        + "\n}"
        for part, entries in table.items()
    ]
    write_atomically(IDS, "{\n" + ",\n".join(parts) + "\n}\n")

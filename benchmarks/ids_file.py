"""The file of registered ids, `memplace_env/envs/ids.json`, in two parts: ids of whole programs, and of sliced ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from memplace_env._lib.files import write_atomically
from memplace_env.envs.registration import Formulation

IDS: Final = Path(__file__).parents[1] / "memplace_env" / "envs" / "ids.json"
SLICED: Final = "-Sliced"
"""End of the name of a setting with slices."""

Table = dict[str, dict[str, dict[str, Any]]]
"""Settings by formulation and name."""


def register_whole(table: Table) -> None:
    """Write the ids of whole programs; those of sliced ones stay, as far as their settings are there."""
    before: Table = json.loads(IDS.read_text("utf-8"))
    sliced = {kind: [name for name in entries if name.endswith(SLICED)] for kind, entries in before.items()}
    kept = {
        kind: {name: before[kind][name] for name in names if name.removesuffix(SLICED) in table[kind]}
        for kind, names in sliced.items()
    }
    _write({kind: {**entries, **kept.get(kind, {})} for kind, entries in table.items()})


def register_sliced(names: Mapping[str, Sequence[str]], share: float) -> None:
    """Write the ids of sliced programs: the settings of these names, by formulation, with slices of this share."""
    before: Table = json.loads(IDS.read_text("utf-8"))
    table = {
        kind: {name: entry for name, entry in entries.items() if not name.endswith(SLICED)}
        for kind, entries in before.items()
    }
    for kind, chosen in names.items():
        home = Formulation(kind).traits.accelerator
        for name in chosen:
            entry = {"workload": name, "accelerator": home} | table[kind][name]
            if entry["accelerator"] == home:
                del entry["accelerator"]
            table[kind][name + SLICED] = {**entry, "slices": share}
    _write(table)


def _write(table: Table) -> None:
    """Write an id a line."""
    parts = [
        f'"{formulation}": {{\n'
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        + "\n}"
        for formulation, entries in table.items()
    ]
    write_atomically(IDS, "{\n" + ",\n".join(parts) + "\n}\n")

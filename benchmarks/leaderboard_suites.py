"""The leaderboard's suites as data: the pinned properties of each instance.

    python -m benchmarks.leaderboard_suites    # writes suites that do not exist; existing ones never change

`one-shot-v1` and `game-v1` are all ids registered when the suites were written. The rule of `quick-v1`, fixed before
anything was run on it: an id counts if it leaves `LEAST_GAIN` over the baseline; of each
formulation the four chips with most ids (ties by name) of which any counts, and of each of these the one with the
fewest ops that does.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import tomlkit
from rich.progress import track as progress

from benchmarks import suite as grid
from benchmarks.ledger import Ledger
from memplace_env._lib.files import write_atomically
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS
from memplace_env.leaderboard.pinned import pinned
from memplace_env.leaderboard.suite import LEAST_GAIN

FOLDER = Path(str(files("memplace_env.leaderboard"))) / "suites"
SEEDS = 5
TRACKS: dict[str, dict[str, Any]] = {
    "search": {
        "summary": "each environment by itself; the cost arrays may be read",
        "budgets": ["10", "100", "1000", "4000", "1s", "10s", "60s"],
    },
    "black-box-2": {
        "summary": "a machine that only measuring tells anything of, with 2 % noise; budgets are measurements",
        "budgets": ["20", "100", "500", "10s"],
        "noise": 0.02,
    },
    "black-box-5": {
        "summary": "the same machine with 5 % noise",
        "budgets": ["20", "100", "500", "10s"],
        "noise": 0.05,
    },
    "zero-shot": {
        "summary": "trained on the train split only, played on the test split",
        "budgets": ["1", "10", "100", "10s"],
        "split": "test",
    },
}
SUMMARIES = {
    "one-shot-v1": "all maps that are registered",
    "game-v1": "all games that are registered",
    "quick-v1": "four maps and four games on the chips that have most: minutes",
}
NOT_BOXED = ("game-v1",)
"""Suites without black-box tracks: best plans of their instances on that machine are unknown."""
FIRST_LINE = "Pinned: never edit. Written by `python -m benchmarks.leaderboard_suites`, see there for the rules."


def measured() -> dict[str, dict[str, Any]]:
    """Return the results of `benchmarks.suite` by id: cheap, best and bound in ps, and the chip."""
    records = Ledger(grid.RESULTS, grid.FIELDS).of(grid.candidates())
    table = {}
    for record in grid.chosen(records):
        formulation = Formulation(record["formulation"])
        cheap = record["cheap_s"]
        table[formulation.traits.env_id(grid.id_name(record))] = {
            "formulation": formulation,
            "accelerator": record["accelerator"],
            "cheap_ps": round(cheap / PS),
            "best_ps": round(float(record.get("plan_s", cheap)) / PS),
            "bound_ps": round(record["bound_s"] / PS),
        }
    return table


def quick(table: dict[str, dict[str, Any]], facts: dict[str, dict[str, Any]]) -> list[str]:
    """Return the ids of quick-v1, by its rule."""
    ids = []
    for formulation in FORMULATIONS:
        rows = {env_id: row for env_id, row in table.items() if row["formulation"] is formulation}
        count = Counter(row["accelerator"] for row in rows.values())
        candidates: dict[str, list[str]] = {chip: [] for chip in sorted(count, key=lambda chip: (-count[chip], chip))}
        for env_id, row in rows.items():
            if facts[env_id]["baseline_ps"] >= (1 + LEAST_GAIN) * row["best_ps"]:
                candidates[row["accelerator"]].append(env_id)
        chips = [chip for chip in candidates if candidates[chip]][:4]
        ids += [min(candidates[chip], key=lambda env_id: (facts[env_id]["ops"], env_id)) for chip in chips]
    return ids


def write(name: str, ids: Iterable[str], facts: dict[str, dict[str, Any]]) -> None:
    """Write a suite's file."""
    document = tomlkit.document()
    document.add(tomlkit.comment(FIRST_LINE))
    tracks = {track: fields for track, fields in TRACKS.items() if name not in NOT_BOXED or "noise" not in fields}
    for key, value in {"name": name, "summary": SUMMARIES[name], "seeds": SEEDS, "tracks": tracks}.items():
        document[key] = value
    document["instances"] = {env_id: facts[env_id] for env_id in ids}
    write_atomically(FOLDER / f"{name}.toml", tomlkit.dumps(document))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    table = measured()
    if not all((FOLDER / f"{name}.toml").exists() for name in SUMMARIES):
        facts = {env_id: pinned(env_id) for env_id in progress(table, "pinning")}
        chosen = {f"{kind}-v1": [i for i, row in table.items() if row["formulation"] is kind] for kind in FORMULATIONS}
        for name, ids in {**chosen, "quick-v1": quick(table, facts)}.items():
            if not (FOLDER / f"{name}.toml").exists():
                write(name, ids, facts)


if __name__ == "__main__":
    main()

"""The leaderboard's suites as data: what is pinned of each instance, and what is known of it.

    python -m benchmarks.leaderboard_suites    # writes suites that do not exist yet; those that do never change

`one-shot-v1` and `game-v1` are all ids that were registered when the suites were written. The rule of `quick-v1`,
written down before anything was run on it: an id counts if it leaves `LEAST_GAIN` over the baseline; of each
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
from memplace_env.files import write_atomically
from memplace_env.leaderboard.pinned import pinned
from memplace_env.leaderboard.splits import FORMULATIONS
from memplace_env.leaderboard.suite import LEAST_GAIN
from memplace_env.registration import Formulation
from memplace_env.units import PS

FOLDER = Path(str(files("memplace_env.leaderboard"))) / "suites"
SEEDS = 5
TRACKS = {
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
"""Suites without black-box tracks, as nobody looked for the best plans of their instances on that machine."""
FIRST_LINE = "Pinned: never edit. Written by `python -m benchmarks.leaderboard_suites`, see there for the rules."


def measured() -> dict[str, dict[str, Any]]:
    """What `benchmarks.suite` found of each id: cheap, best and bound in ps, and the chip."""
    records = Ledger(grid.RESULTS, grid.FIELDS).of(grid.places())
    table = {}
    for record in grid.chosen(records):
        formulation = Formulation(record["formulation"])
        cheap = record["cheap_s"]
        table[formulation.traits.env_id(grid.id_name(record))] = {
            "formulation": formulation,
            "accelerator": record["accelerator"],
            "cheap_ps": round(cheap / PS),
            "best_ps": round(record.get("plan_s", cheap) / PS),
            "bound_ps": round(record["bound_s"] / PS),
        }
    return table


def quick(table: dict[str, dict[str, Any]], facts: dict[str, dict[str, Any]]) -> list[str]:
    """Ids of quick-v1, by its rule."""
    ids = []
    for formulation in FORMULATIONS:
        mine = {env_id: each for env_id, each in table.items() if each["formulation"] is formulation}
        count = Counter(each["accelerator"] for each in mine.values())
        able: dict[str, list[str]] = {chip: [] for chip in sorted(count, key=lambda chip: (-count[chip], chip))}
        for env_id, each in mine.items():
            if facts[env_id]["baseline_ps"] >= (1 + LEAST_GAIN) * each["best_ps"]:
                able[each["accelerator"]].append(env_id)
        chips = [chip for chip in able if able[chip]][:4]
        ids += [min(able[chip], key=lambda env_id: (facts[env_id]["ops"], env_id)) for chip in chips]
    return ids


def write(name: str, ids: Iterable[str], facts: dict[str, dict[str, Any]]) -> None:
    """A suite's file."""
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
        chosen = {f"{each}-v1": [i for i, row in table.items() if row["formulation"] is each] for each in FORMULATIONS}
        for name, ids in {**chosen, "quick-v1": quick(table, facts)}.items():
            if not (FOLDER / f"{name}.toml").exists():
                write(name, ids, facts)


if __name__ == "__main__":
    main()

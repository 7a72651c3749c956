"""The leaderboard's suites as data: the pinned properties of each instance.

    python -m benchmarks.leaderboard_suites    # writes suites that do not exist; existing ones never change

`one-shot-v1` and `game-v1` are all ids registered when the suites were written. The rule of `quick-v1`, fixed before
anything was run on it: an id counts if it leaves `LEAST_GAIN` over the baseline; of each formulation the four chips
with most ids (ties by the ops of their smallest program) of which any counts, and of each of these the one with the
fewest ops that does. `sliced-v1` is chosen likewise among the sliced ids: of each chip two, of different groups.
`quick-v2` is chosen as quick-v1 from as many chips as it takes, of each four of different groups, until there are
twelve of each formulation; its facts are those that the whole suites pinned. `black-box-v2` has the instances of
`quick-v1` and a track for each machine of `drawn_machines` and each noise.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import tomlkit
from rich.progress import track as progress

from benchmarks.experiments import sliced_ids
from benchmarks.experiments import suite as grid
from memplace_env._lib.files import write_atomically
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS, group_of
from memplace_env.machine.accelerator import accelerator_names
from memplace_leaderboard.pinned import PINNED, pinned
from memplace_leaderboard.suite import LEAST_GAIN, load_suite

FOLDER = Path(str(files("memplace_leaderboard"))) / "suites"
SEEDS = 5
MOST = 12
"""Most instances of a formulation in a quick suite."""
TRACKS: dict[str, dict[str, Any]] = {
    "search": {
        "summary": "each environment by itself; the cost arrays may be read",
        "budgets": ["10", "100", "1000", "4000", "1s", "10s", "60s"],
    },
    "zero-shot": {
        "summary": "trained on the train split only, played on the test split",
        "budgets": ["1", "10", "100", "10s"],
        "split": "test",
    },
}
DRAWN = "black-box-v2"
SUMMARIES = {
    "one-shot-v1": "all maps that are registered",
    "game-v1": "all games that are registered",
    "quick-v2": "twelve maps and twelve games, up to four on each chip",
    "quick-v1": "four maps and four games on the chips that have most: minutes",
    "sliced-v1": "maps and games in slices, two on each of the chips that have most",
    DRAWN: "the environments of quick-v1 on machines that are drawn when a run is judged, and only measured",
}
MACHINE_SUMMARIES = {
    "event-1": "a machine of events with one tile buffer",
    "event-2": "a machine of events with two tile buffers",
    "factors": "a machine that adds costs and waits up",
}
BOX_TRACKS = {
    f"{machine}-{percent}": {
        "summary": f"{summary}, measured {'with 5 %' if percent else 'without'} noise; budgets are measurements",
        "budgets": ["1", "10", "100", "500", "60s"],
        "noise": percent / 100,
        "machine": machine,
    }
    for machine, summary in MACHINE_SUMMARIES.items()
    for percent in (0, 5)
}
FIRST_LINE = "Pinned: never edit. Written by `python -m benchmarks.leaderboard_suites`, see there for the rules."


def measured() -> dict[str, dict[str, Any]]:
    """Return the results of the experiment `suite` by id: cheap, best and bound in ps, and the chip."""
    records = grid.EXPERIMENTS[0].recorded()
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


def measured_slices() -> dict[str, dict[str, Any]]:
    """Return the same of `sliced-ids`."""
    table = {}
    for record in filter(sliced_ids.has_id, sliced_ids.EXPERIMENTS[0].recorded()):
        formulation = Formulation(record["formulation"])
        traits, name = formulation.traits, f"{record['name']}-{sliced_ids.END}"
        settings = traits.variants[name]
        table[traits.env_id(name)] = {
            "formulation": formulation,
            "accelerator": settings.get("accelerator", traits.accelerator),
            "group": group_of(name, settings),
            "cheap_ps": round(record["cheap_s"] / PS),
            "best_ps": round(sliced_ids.best_s(record) / PS),
            "bound_ps": round(record["bound_s"] / PS),
        }
    return table


def quick(
    table: dict[str, dict[str, Any]], facts: dict[str, dict[str, Any]], of_each: int = 1, chips: int = 4
) -> list[str]:
    """Return the ids of quick-v1 by its rule, with so many of each chip, from so many chips."""
    ids = []
    for formulation in FORMULATIONS:
        rows = {env_id: row for env_id, row in table.items() if row["formulation"] is formulation}
        count = Counter(row["accelerator"] for row in rows.values())
        least = dict.fromkeys(count, math.inf)
        for env_id, row in rows.items():
            least[row["accelerator"]] = min(least[row["accelerator"]], facts[env_id]["ops"])
        candidates: dict[str, list[str]] = {chip: [] for chip in sorted(count, key=lambda c: (-count[c], least[c], c))}
        for env_id, row in rows.items():
            if facts[env_id]["baseline_ps"] >= (1 + LEAST_GAIN) * row["best_ps"]:
                candidates[row["accelerator"]].append(env_id)
        found: list[str] = []
        for chip in [chip for chip in candidates if candidates[chip]][:chips]:
            by_group: dict[str, str] = {}
            for env_id in sorted(candidates[chip], key=lambda env_id: (facts[env_id]["ops"], env_id)):
                by_group.setdefault(rows[env_id].get("group", env_id), env_id)
            found += list(by_group.values())[:of_each]
        ids += found[:MOST]
    return ids


def pinned_before() -> dict[str, dict[str, Any]]:
    """Return the facts that the whole suites pinned."""
    instances = {**load_suite("one-shot-v1").instances, **load_suite("game-v1").instances}
    return {env_id: {field: getattr(row, field) for field in PINNED} for env_id, row in instances.items()}


def with_groups(table: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the rows of the whole suites' ids, each with the group of its program."""
    instances = {**load_suite("one-shot-v1").instances, **load_suite("game-v1").instances}
    rows = {}
    for env_id, row in table.items():
        if env_id in instances:
            traits = instances[env_id].formulation.traits
            name = env_id.removeprefix(f"{traits.prefix}-").removesuffix("-v0")
            rows[env_id] = {**row, "group": group_of(name, traits.named[name])}
    return rows


def write(name: str, ids: Iterable[str], facts: dict[str, dict[str, Any]]) -> None:
    """Write a suite's file."""
    document = tomlkit.document()
    document.add(tomlkit.comment(FIRST_LINE))
    tracks = BOX_TRACKS if name == DRAWN else TRACKS
    if name == "quick-v2":
        tracks = {"search": TRACKS["search"]}
    for key, value in {"name": name, "summary": SUMMARIES[name], "seeds": SEEDS, "tracks": tracks}.items():
        document[key] = value
    document["instances"] = {env_id: facts[env_id] for env_id in ids}
    write_atomically(FOLDER / f"{name}.toml", tomlkit.dumps(document))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    table, sliced = measured(), measured_slices()
    missing = [name for name in SUMMARIES if not (FOLDER / f"{name}.toml").exists()]
    whole = set(missing) - {"sliced-v1", "quick-v2", DRAWN}
    counted = {**(table if whole else {}), **(sliced if "sliced-v1" in missing else {})}
    facts = {env_id: pinned(env_id) for env_id in progress(counted, "pinning")}
    for name in missing:
        kind = name.removesuffix("-v1")
        if kind in FORMULATIONS:
            write(name, [env_id for env_id, row in table.items() if row["formulation"] == kind], facts)
        elif name == "quick-v2":
            before = pinned_before()
            write(name, quick(with_groups(table), before, of_each=4, chips=len(accelerator_names())), before)
        elif name == DRAWN:
            ids = load_suite("quick-v1").instances
            write(name, ids, {env_id: pinned(env_id) for env_id in ids})
        else:
            write(name, quick(table, facts) if kind == "quick" else quick(sliced, facts, of_each=2), facts)


if __name__ == "__main__":
    main()

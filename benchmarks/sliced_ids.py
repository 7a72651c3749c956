"""Measure what slices gain in the settings of registered ids, and register those of suite sliced-v1 in slices.

    python -m benchmarks.sliced_ids                 # measures what is missing, and prints the selection as a table
    python -m benchmarks.sliced_ids --register      # and writes memplace_env/envs/ids.json
    python -m benchmarks.sliced_ids --write docs/slices.md    # and docs/data/sliced-ids.csv

The rule. Each registered id's setting is cut at `SHARE`. Its best sliced plan is the fastest of density-greedy's and
the exact agent's for maps, as `benchmarks.slices` measures them, and of XLA's public option sets', the greedy player's
and the exact agent's for games, which stops after `SECONDS`. If that is faster by `LEAST` or more than the plan without
slices that was the best known when it was measured, the setting may be in suite sliced-v1, whose settings have ids.
Programs of more than `MOST_TENSORS` slices are left out, which is our choice. A run that was stopped continues with
what is missing in results/sliced_ids.jsonl.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import gymnasium as gym

import memplace_agents
from benchmarks import slices
from benchmarks.cores import single_cores
from benchmarks.ids_file import register_variant
from benchmarks.ledger import Ledger, Record
from benchmarks.suite import ENDLESS, best_cheap
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, milliseconds, publish
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS
from memplace_env.leaderboard.suite import best_known, load_suite
from memplace_env.placement.compiler import all_backing_report

RESULTS: Final = Path(__file__).parent / "results" / "sliced_ids.jsonl"
FIELDS: Final = ("formulation", "name")
END: Final = "Sliced"
SHARE: Final = slices.SHARE
SECONDS: Final = 10.0
LEAST: Final = slices.LEAST
MOST_TENSORS: Final = 20_000


def measure(run: Record) -> Record:
    """Return the record of a setting: its best known plan without slices as of now, and what slices give."""
    env_id = Formulation(run["formulation"]).traits.env_id(run["name"])
    found = {**run, "whole_s": best_known()[env_id].best_ps * PS}
    return found | (of_map(run["name"]) if run["formulation"] == Formulation.ONE_SHOT else of_game(run["name"]))


def of_game(name: str) -> Record:
    """Return what slices give to a game, measured."""
    env = gym.make(Formulation.GAME.traits.env_id(name), slices=SHARE).unwrapped
    assert isinstance(env, MallocGameEnv)
    found: Record = {"tensors": env.task.program.num_tensors, "ops": env.task.program.num_ops}
    if found["tensors"] > MOST_TENSORS:
        return found
    cheap, cheap_s = best_cheap(env)
    found |= {"baseline_s": all_backing_report(env.task).latency_s, "cheap_s": cheap_s, "cheap": cheap}
    exact = memplace_agents.Exact().solve(env, budget=ENDLESS, time_limit=SECONDS)
    assert exact.report is not None
    return found | {"plan_s": exact.report.latency_s, "bound_s": exact.bound_s, "seconds": round(exact.seconds, 3)}


def of_map(name: str) -> Record:
    """Return what slices give to a map, as recorded by `benchmarks.slices`."""
    rows = {(r["name"], r["slices"]): r for r in Ledger(slices.RESULTS, slices.FIELDS).records if r["table"] == "gains"}
    row = rows[name, SHARE]  # of `python -m benchmarks.slices`, which comes first
    if row["tensors"] > MOST_TENSORS:
        return {}
    plan = {"plan_s": row["exact_s"], "bound_s": row["exact_bound_s"], "seconds": row["exact_took_s"]}
    cheap = {"baseline_s": row["native_s"], "cheap_s": row["density_s"], "cheap": "density-greedy"}
    return {"tensors": row["tensors"]} | cheap | plan


def best_s(record: Record) -> float:
    """Return the latency of the best sliced plan; infinite if there is none."""
    return min(record.get("cheap_s", math.inf), record.get("plan_s", math.inf))


def gain(record: Record) -> float:
    """Return the latency of the best plan without slices over that of the best sliced plan."""
    return float(record["whole_s"] / best_s(record))


def passes(record: Record) -> bool:
    """Return True if slices gain enough."""
    return gain(record) >= LEAST


def has_id(record: Record) -> bool:
    """Return True if the setting is in suite sliced-v1, which gives it an id."""
    return (
        Formulation(record["formulation"]).traits.env_id(f"{record['name']}-{END}") in load_suite("sliced-v1").instances
    )


def measured() -> list[Record]:
    """Return the records of all ids that are there, maps first."""
    return Ledger(RESULTS, FIELDS).of(settings())


def settings() -> list[Record]:
    """Return the runs of all registered settings, maps first."""
    return [{"formulation": kind.value, "name": name} for kind in FORMULATIONS for name in kind.traits.settings]


def chosen(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the names of the settings that have an id with slices, by formulation."""
    return {kind.value: [r["name"] for r in records if r["formulation"] == kind and has_id(r)] for kind in FORMULATIONS}


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table with a row for each formulation and chip: how many ids gain from slices, and how much."""
    rows = []
    for kind in FORMULATIONS:
        by_chip: dict[str, list[Record]] = {}
        for record in (r for r in records if r["formulation"] == kind):
            chip = kind.traits.settings[record["name"]].get("accelerator", kind.traits.accelerator)
            by_chip.setdefault(chip, []).append(record)
        for chip, found in by_chip.items():
            passed = [r for r in found if passes(r)]
            gains = [gain(r) for r in passed]
            mean = math.exp(sum(map(math.log, gains)) / len(gains)) - 1 if gains else None
            best = max(passed, key=gain, default=None)
            shown = "" if best is None else f"{best['name']}: {milliseconds(best['whole_s'], 3)} → "
            shown += "" if best is None else f"{milliseconds(best_s(best), 3)} ms, {gain(best) - 1:+.1%}"
            rows.append(
                [kind.value, chip, str(len(found)), str(len(passed)), "" if mean is None else f"{mean:+.1%}", shown]
            )
    return markdown_table(["formulation", "chip", "ids", "that gain", "their mean gain", "most"], rows)


def ids_file(records: Sequence[Record]) -> DataFile:
    """Return all registered settings, their ids with slices where they have one, and their best plans, in ms."""
    heads = ("id", "sliced id", "best ms", "sliced: tensors", "best cheap ms", "best plan ms", "bound ms", "s", "gain")
    rows = []
    for record in records:
        traits = Formulation(record["formulation"]).traits
        own = traits.env_id(f"{record['name']}-{END}") if has_id(record) else ""
        row = [traits.env_id(record["name"]), own, milliseconds(record["whole_s"], 6)]
        if "plan_s" in record:
            latencies = [record["cheap_s"], record["plan_s"], record["bound_s"]]
            row += [str(record["tensors"]), *(milliseconds(each, 6) for each in latencies)]
            row += [f"{record['seconds']:.1f}", f"{gain(record):.4f}"]
        rows.append(row + [""] * (len(heads) - len(row)))
    return DataFile(heads, rows)


def main() -> None:
    parser: Any = benchmark_parser(__doc__)
    parser.add_argument("--register", action="store_true", help="write memplace_env/envs/ids.json")
    parser.add_argument("--jobs", type=int, default=1, help="programs side by side (default 1)")
    options = parser.parse_args()
    with single_cores(options.jobs) as pool:
        Ledger(RESULTS, FIELDS).complete(settings(), measure, pool)
    records = measured()
    if options.register:
        register_variant(END, {"slices": SHARE}, chosen(records))
    publish({"sliced ids": table(records)}, options.write, {"sliced-ids.csv": ids_file(records)})


if __name__ == "__main__":
    main()

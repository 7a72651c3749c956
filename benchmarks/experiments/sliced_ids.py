"""Gain by slices in the settings of registered ids; those of suite sliced-v1 have ids `...-Sliced-v0`.

The rule. Each registered id's setting is cut at `SHARE`. Its best sliced plan is the fastest of density-greedy's and
the exact agent's for maps, as the experiment `slices` measures them, and of XLA's public option sets', the greedy
player's and the exact agent's for games, which stops after `SECONDS`. If that is faster by 2 % or more than the
plan without slices that was the best known when it was measured, the setting may be in suite sliced-v1, whose settings
have ids. Programs of more than `MOST_TENSORS` slices are left out, which is our choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import gymnasium as gym

import memplace_agents
from benchmarks.experiments import slices
from benchmarks.experiments.suite import ENDLESS, IDS, best_cheap, with_variant
from benchmarks.harness import Experiment, Records, data, field
from benchmarks.ledger import Record
from memplace_env._lib.units import PS
from memplace_env.envs.best_known import known_results
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS
from memplace_env.placement.compiler import all_backing_report
from memplace_leaderboard.suite import load_suite

END: Final = "Sliced"
SHARE: Final = slices.SHARE
SECONDS: Final = 10.0
MOST_TENSORS: Final = 20_000


def measure(run: Record) -> Record:
    """Return the record of a setting: its best known plan without slices as of now, and what slices give."""
    env_id = Formulation(run["formulation"]).traits.env_id(run["name"])
    found = {**run, "whole_s": known_results()[env_id].best_ps * PS}
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
    """Return what slices give to a map, as recorded by the experiment `slices`."""
    recorded = (record for one in slices.EXPERIMENTS for record in one.recorded())
    rows = {(r["name"], r["slices"]): r for r in recorded if r["table"] == "gains"}
    row = rows[name, SHARE]  # `python -m benchmarks run slices` comes first
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


def has_id(record: Record) -> bool:
    """Return True if the setting is in suite sliced-v1, which gives it an id."""
    return env_id(record, f"-{END}") in load_suite("sliced-v1").instances


def settings(records: Records = ()) -> list[Record]:
    """Return the runs of all registered settings, maps first."""
    return [{"formulation": kind.value, "name": name} for kind in FORMULATIONS for name in kind.traits.settings]


def chosen(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the names of the settings that have an id with slices, by formulation."""
    return {kind.value: [r["name"] for r in records if r["formulation"] == kind and has_id(r)] for kind in FORMULATIONS}


def env_id(record: Record, end: str = "") -> str:
    """Return the id of a setting."""
    return Formulation(record["formulation"]).traits.env_id(record["name"] + end)


def of_plan(cell: Callable[[Record], str]) -> Callable[[Record], str]:
    """Return a cell that is empty for a setting of too many tensors."""
    return lambda record: cell(record) if "plan_s" in record else ""


EXPERIMENTS = [
    Experiment(
        "sliced-ids",
        __doc__,
        {
            IDS: lambda records: with_variant(END, {"slices": SHARE}, chosen(records)),
            "docs/data/sliced-ids.csv": data(
                {
                    "id": env_id,
                    "sliced id": lambda record: env_id(record, f"-{END}") if has_id(record) else "",
                    "best ms": field("whole_s", ".6f", 1e3),
                    "sliced: tensors": of_plan(field("tensors")),
                    "best cheap ms": of_plan(field("cheap_s", ".6f", 1e3)),
                    "best plan ms": of_plan(field("plan_s", ".6f", 1e3)),
                    "bound ms": of_plan(field("bound_s", ".6f", 1e3)),
                    "s": of_plan(field("seconds", ".1f")),
                    "gain": of_plan(lambda record: f"{gain(record):.4f}"),
                }
            ),
        },
        settings,
        measure,
        key=("formulation", "name"),
    )
]

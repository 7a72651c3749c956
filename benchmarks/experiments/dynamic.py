"""Gain of copies between memories during the run over plans without them, on one-shot ids with three levels.

With two levels, plans that move tensors are those of the game.
"""

from __future__ import annotations

from collections.abc import Callable
from math import expm1, log
from statistics import fmean
from textwrap import fill
from typing import Final

import memplace_agents
from benchmarks.harness import SHOWN, Columns, Experiment, Records, data, field, milliseconds, setting_text
from benchmarks.ledger import SETTING, Record
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import ONE_SHOT, Formulation
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.program.model_file import as_written

PROOF_SECONDS: Final = 20.0
"""Time limit of each static optimum."""
SECONDS: Final = 60.0
"""Time limit of each plan with copies."""
LEVELS: Final = 3
BETWEEN: Final = ("ResNet50", "BERT", "MobileNetV2", "AlexNet")
"""Ids on which copies between fast memories are tried."""


def settings(records: Records = ()) -> list[Record]:
    """Return a setting for each id, those that the table shows first."""
    home = Formulation.ONE_SHOT.traits.accelerator
    runs = [
        {"name": name, "workload": name, "accelerator": home, **setting, "seconds": SECONDS}
        for name, setting in ONE_SHOT.items()
    ]
    runs = [run for run in runs if load_accelerator(run["accelerator"]).num_levels == LEVELS]
    return sorted(runs, key=lambda run: run["name"] not in SHOWN)


def measure(run: Record) -> Record:
    """Return a run's setting with latencies in seconds: native, the static optimum and the plan with copies."""
    env = OneShotEnv(**{key: run[key] for key in SETTING if key in run}, **as_written(run["accelerator"]))
    static = memplace_agents.Exact().solve(env, time_limit=PROOF_SECONDS)
    dynamic = memplace_agents.ExactDynamic().solve(env, time_limit=run["seconds"])
    assert static.report is not None
    assert dynamic.report is not None
    return {
        **run,
        "native_s": static.native_latency_s,
        "static_s": static.report.latency_s,
        "static_outcome": static.outcome,
        "dynamic_s": dynamic.report.latency_s,
        "bound_s": dynamic.bound_s,
        "outcome": dynamic.outcome,
        "took_s": dynamic.seconds,
    }


def measure_between(run: Record) -> Record:
    """Return a run's setting with latencies in seconds of plans without and with copies between fast memories."""
    found: Record = {}
    for copies, name in (("backing", "without"), ("all", "with")):
        options = {key: run[key] for key in SETTING if key in run}
        env = OneShotEnv(**options, **as_written(run["accelerator"]), copies=copies)
        solution = memplace_agents.ExactDynamic().solve(env, time_limit=run["seconds"])
        assert solution.report is not None
        assert solution.plan is not None
        between = int((solution.plan.transfers[:, 1:3] < env.task.backing).all(axis=1).sum())
        found |= {f"{name}_s": solution.report.latency_s, f"{name}_bound_s": solution.bound_s}
        found |= {f"{name}_outcome": solution.outcome, f"{name}_between": between}
    return {**run, **found}


def paragraph(records: Records) -> str:
    """Return how many of the ids gain, and how many of the plans with copies are proven."""
    gains = sorted(record["static_s"] / record["dynamic_s"] - 1 for record in records)
    proven, static = (sum(r[key] == "optimal" for r in records) for key in ("outcome", "static_outcome"))
    mean = expm1(fmean(log(1 + gain) for gain in gains))
    return fill(
        f"Of the {len(gains)} ids {sum(gain >= 0.01 for gain in gains)} gain 1 % or more, "
        f"{sum(gain >= 0.1 for gain in gains)} 10 % or more; the mean gain is {mean:.1%}, the largest {gains[-1]:.0%}. "
        f"{proven} of the plans with copies are proven optimal, {static} of those without.",
        120,
    )


def gain(over: str) -> Callable[[Record], str]:
    """Return a cell: the static optimum's latency over another one, minus 1."""
    return lambda record: f"{record['static_s'] / record[over] - 1:.2%}"


COLUMNS: Final[Columns] = {
    "program": field("name"),
    "native ms": field("native_s", ".4f", 1e3),
    "static optimum ms": lambda r: (
        milliseconds(r["static_s"], 4) + ("" if r["static_outcome"] == "optimal" else " (not proven)")
    ),
    "with copies ms": field("dynamic_s", ".4f", 1e3),
    "gain": gain("dynamic_s"),
    "at most": gain("bound_s"),
    "exact-dynamic": lambda r: f"{r['outcome']}, {r['took_s']:.0f} s",
}

EXPERIMENTS = [
    Experiment(
        "dynamic",
        __doc__,
        {
            "docs/how-it-is-solved.md#dynamic": paragraph,
            "docs/data/dynamic.csv": data({"setting": setting_text} | COLUMNS),
        },
        settings,
        measure,
        key=("name", *SETTING, "seconds"),
    ),
    Experiment(
        "copies-between",
        "Gain of copies between fast memories on some ids.",
        {
            "docs/data/copies-between.csv": data(
                {
                    "program": field("name"),
                    "without ms": field("without_s", ".4f", 1e3),
                    "at least ms": field("without_bound_s", ".4f", 1e3),
                    "with ms": field("with_s", ".4f", 1e3),
                    "with, at least ms": field("with_bound_s", ".4f", 1e3),
                    "such copies": field("with_between"),
                    "gain": lambda r: f"{r['without_s'] / r['with_s'] - 1:.2%}",
                }
            )
        },
        lambda records=(): [run for run in settings() if run["name"] in BETWEEN],
        measure_between,
        key=("name", *SETTING, "seconds"),
    ),
]

"""Measure what copies between memories during the run gain over plans without them, on registered one-shot settings.

    python -m benchmarks.dynamic                             # all one-shot ids on chips with three levels
    python -m benchmarks.dynamic --names AlexNet ResNet50
    python -m benchmarks.dynamic --write docs/agents.md      # ten rows, and docs/data/dynamic.csv with all

A run that was stopped continues with what is missing in results/dynamic.jsonl. Each program has one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import expm1, log
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Final

import memplace_agents
from benchmarks.cores import single_cores
from benchmarks.ledger import SETTING, Ledger, Record
from benchmarks.tables import SHOWN, DataFile, benchmark_parser, markdown_table, milliseconds, publish, setting_text
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import ONE_SHOT, Formulation
from memplace_env.machine.accelerator import load_accelerator

RESULTS: Final = Path(__file__).parent / "results" / "dynamic.jsonl"
FIELDS: Final = ("name", *SETTING, "seconds")
HEADS: Final = (
    "program", "native ms", "static optimum ms", "with copies ms", "gain", "at most", "exact-dynamic",
)  # fmt: skip
PROOF_SECONDS: Final = 20.0
"""Time limit of each static optimum."""
LEVELS: Final = 3
"""Levels of the chips: with two, plans that move tensors are those of the game."""


def names() -> list[str]:
    """Return the names of all one-shot ids on chips with three levels, those that tables show first."""
    home = Formulation.ONE_SHOT.traits.accelerator
    chips = {name: load_accelerator(setting.get("accelerator", home)) for name, setting in ONE_SHOT.items()}
    return sorted((name for name in chips if chips[name].num_levels == LEVELS), key=lambda name: name not in SHOWN)


def runs(names: Sequence[str], seconds: float) -> list[Record]:
    """Return the settings of the ids with these names."""
    home = Formulation.ONE_SHOT.traits.accelerator
    return [
        {"name": name, "workload": name, "accelerator": home, **ONE_SHOT[name], "seconds": seconds} for name in names
    ]


def measure(run: Record) -> Record:
    """Return a run's setting with latencies in seconds: native, the static optimum and the plan with copies."""
    env = OneShotEnv(**{key: run[key] for key in SETTING if key in run})
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


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table with a row for each id that tables show: latencies in ms, gains over the static optimum.

    Those are all, if none of them is.
    """
    shown = [record for record in records if record["name"] in SHOWN]
    return markdown_table(HEADS, [_row(record) for record in shown or records])


def paragraph(records: Sequence[Record]) -> str:
    """Return how many of the ids gain, and how many of the plans with copies are proven."""
    gains = sorted(record["static_s"] / record["dynamic_s"] - 1 for record in records)
    proven = sum(record["outcome"] == "optimal" for record in records)
    static = sum(record["static_outcome"] == "optimal" for record in records)
    mean = expm1(fmean(log(1 + gain) for gain in gains))
    return fill(
        f"Of the {len(gains)} ids {sum(gain >= 0.01 for gain in gains)} gain 1 % or more, "
        f"{sum(gain >= 0.1 for gain in gains)} 10 % or more; the mean gain is {mean:.1%}, the largest {gains[-1]:.0%}. "
        f"{proven} of the plans with copies are proven optimal, {static} of those without.",
        120,
    )


def data(records: Sequence[Record]) -> DataFile:
    """Return a row for each id."""
    return DataFile(["setting", *HEADS], [[setting_text(record), *_row(record)] for record in records])


def _row(record: Record) -> list[str]:
    static_s, proven = record["static_s"], record["static_outcome"] == "optimal"
    row = [record["name"], milliseconds(record["native_s"], 4)]
    row += [milliseconds(static_s, 4) + ("" if proven else " (not proven)"), milliseconds(record["dynamic_s"], 4)]
    row += [f"{static_s / latency_s - 1:.2%}" for latency_s in (record["dynamic_s"], record["bound_s"])]
    return [*row, f"{record['outcome']}, {record['took_s']:.0f} s"]


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--names", nargs="+", choices=ONE_SHOT, default=names(), metavar="NAME", help="one-shot ids")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of each plan with copies (default 60)")
    parser.add_argument("--jobs", type=int, default=1, help="programs side by side (default 1)")
    options = parser.parse_args()
    if options.write and set(options.names) != set(names()):
        parser.error("the tables are of all ids; leave out --names, or --write")
    with single_cores(options.jobs) as pool:
        records = Ledger(RESULTS, FIELDS).complete(runs(options.names, options.seconds), measure, pool)
    tables = {"dynamic": table(records), "dynamic counts": paragraph(records)}
    publish(tables, options.write, {"dynamic.csv": data(records)})


if __name__ == "__main__":
    main()

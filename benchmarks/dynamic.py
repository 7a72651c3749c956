"""Measure what copies between memories during the run gain over plans without them, on registered one-shot settings.

    python -m benchmarks.dynamic                             # the settings of ten programs on nnp-i, as a table
    python -m benchmarks.dynamic --names AlexNet ResNet50
    python -m benchmarks.dynamic --seconds 600 --write docs/agents.md

A run that was stopped continues with what is missing in results/dynamic.jsonl. Each program has one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import memplace_agents
from benchmarks.cores import single_cores
from benchmarks.ledger import SETTING, Ledger, Record
from benchmarks.tables import SHOWN, benchmark_parser, markdown_table, milliseconds, publish
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import ONE_SHOT, Formulation

RESULTS = Path(__file__).parent / "results" / "dynamic.jsonl"
FIELDS = ("name", *SETTING, "seconds")


def runs(names: Sequence[str], seconds: float) -> list[Record]:
    """Return the settings of the ids with these names."""
    home = Formulation.ONE_SHOT.traits.accelerator
    return [
        {"name": name, "workload": name, "accelerator": home, **ONE_SHOT[name], "seconds": seconds} for name in names
    ]


def measure(run: Record, proof_seconds: float) -> Record:
    """Return a run's setting with latencies in seconds: native, the static optimum and the plan with copies."""
    env = OneShotEnv(**{key: run[key] for key in SETTING if key in run})
    static = memplace_agents.Exact().solve(env, time_limit=proof_seconds)
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
    """Return a Markdown table with a row for each id: latencies in ms, and gains over the static optimum."""
    heads = ["program", "native ms", "static optimum ms", "with copies ms", "gain", "at most", "exact-dynamic"]
    return markdown_table(heads, [_row(record) for record in records])


def _row(record: Record) -> list[str]:
    static_s, proven = record["static_s"], record["static_outcome"] == "optimal"
    row = [record["name"], milliseconds(record["native_s"], 4)]
    row += [milliseconds(static_s, 4) + ("" if proven else " (not proven)"), milliseconds(record["dynamic_s"], 4)]
    row += [f"{static_s / latency_s - 1:.2%}" for latency_s in (record["dynamic_s"], record["bound_s"])]
    return [*row, f"{record['outcome']}, {record['took_s']:.0f} s"]


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--names", nargs="+", choices=ONE_SHOT, default=SHOWN, metavar="NAME", help="one-shot ids")
    parser.add_argument("--seconds", type=float, default=120, help="time limit of each plan with copies (default 120)")
    parser.add_argument("--proof-seconds", type=float, default=120, help="of each static optimum (default 120)")
    parser.add_argument("--jobs", type=int, default=1, help="programs side by side (default 1)")
    options = parser.parse_args()
    run = partial(measure, proof_seconds=options.proof_seconds)
    with single_cores(options.jobs) as pool:
        records = Ledger(RESULTS, FIELDS).complete(runs(options.names, options.seconds), run, pool)
    publish({"dynamic": table(records)}, options.write)


if __name__ == "__main__":
    main()

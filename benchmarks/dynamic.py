"""What tensors gain that move while the program runs, on every registered one-shot setting.

    python -m benchmarks.dynamic                             # every registered setting, as a table
    python -m benchmarks.dynamic AlexNet ResNet50            # these only
    python -m benchmarks.dynamic --seconds 600 --write docs/headroom.md

Goes on where it was stopped, from results/dynamic.jsonl; without that file, anew. One core.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import agents
from benchmarks.as_measured import ONE_SHOT, as_measured
from benchmarks.cores import single_cores
from benchmarks.headroom import FIELDS as SETTING
from benchmarks.headroom import HOME
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import markdown, write_between_markers
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.registration import Formulation

RESULTS = Path(__file__).parent / "results" / "dynamic.jsonl"
FIELDS = ("name", *SETTING, "seconds")


def runs(names: Sequence[str], seconds: float) -> list[Record]:
    """What is measured of the ids with these names."""
    return [
        {"name": name, "workload": name, "accelerator": HOME, **ONE_SHOT[name], "seconds": seconds} for name in names
    ]


def measure(run: Record, proof_seconds: float) -> Record:
    """Native, the static optimum and the dynamic plan, latencies in seconds."""
    env = OneShotEnv(**as_measured({key: run[key] for key in SETTING if key in run}, Formulation.ONE_SHOT))
    static = agents.Exact().solve(env, time_limit=proof_seconds)
    dynamic = agents.ExactDynamic().solve(env, time_limit=run["seconds"])
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
    """One line an id; latencies in ms, gains over the static optimum."""
    heads = ["environment", "chip", "native ms", "static optimum ms", "dynamic ms", "gain", "bound ms", "at most"]
    return markdown([*heads, "dynamic says"], [_row(record) for record in records])


def _row(record: Record) -> list[str]:
    static_s, proven = record["static_s"], record["static_outcome"] == "optimal"
    row = [record["name"], record["accelerator"], _ms(record["native_s"])]
    row += [_ms(static_s) + ("" if proven else " (not proven)"), _ms(record["dynamic_s"])]
    row += [f"{static_s / record['dynamic_s'] - 1:.2%}", _ms(record["bound_s"])]
    return [*row, f"{static_s / record['bound_s'] - 1:.2%}", f"{record['outcome']}, {record['took_s']:.0f} s"]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ONE_SHOT)}; default all")
    parser.add_argument("--seconds", type=float, default=120, help="for the dynamic plan of each (default 120)")
    parser.add_argument("--proof-seconds", type=float, default=120, help="for the static optimum of each (default 120)")
    parser.add_argument("--jobs", type=int, default=1, help="programs side by side (default 1)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into this document")
    wanted = parser.parse_args()
    unknown = set(wanted.names) - set(ONE_SHOT)
    if unknown:
        parser.error(f"nothing is called {', '.join(sorted(unknown))}; known: {', '.join(ONE_SHOT)}")
    settings = runs(wanted.names or list(ONE_SHOT), wanted.seconds)
    with single_cores(wanted.jobs) as pool:
        records = Ledger(RESULTS, FIELDS).complete(settings, partial(measure, proof_seconds=wanted.proof_seconds), pool)
    found = table(records)
    print(found)
    if wanted.write:
        write_between_markers(wanted.write, "dynamic", found)


if __name__ == "__main__":
    main()

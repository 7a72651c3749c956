"""What there is to gain: native, weaker rules, search and the proven optimum for many settings of every workload.

    python -m benchmarks.headroom                            # the registered settings, as a table
    python -m benchmarks.headroom --all                      # every setting of the grid
    python -m benchmarks.headroom --all --write docs/headroom.md

The registered settings (`memplace_env.registration.ONE_SHOT`) were chosen from the whole grid: for each workload the
setting with the largest speed-up of the best known plan over native.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from rich.progress import track

import agents
from benchmarks.tables import markdown, save_results, write_between_markers
from memplace_env.compiler import HEURISTICS
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.registration import ONE_SHOT
from memplace_env.simulator import judge_plan

RESULTS = Path(__file__).parent / "results" / "headroom.json"
TEXT = [{"sequence": 128}, {"sequence": 384}]
DIMS: dict[str, list[dict[str, int]]] = {
    "BERT": TEXT,
    "BERT-Large": TEXT,
    "GPT2": TEXT,
    "T5-small": [{"sequence": 128, "decoder_sequence": 32}, {"sequence": 384, "decoder_sequence": 128}],
    "Whisper-tiny": [{"decoder_sequence": 32}, {"decoder_sequence": 128}],
}
BATCHES = (1, 2, 4, 6, 8, 10, 16, 32)
DTYPES = ("int8", "float16")


def grid() -> list[dict[str, Any]]:
    """Every setting that is measured."""
    return [
        {"workload": workload, "batch": batch, "dtype": dtype} | ({"dims": dims} if dims else {})
        for workload in ONE_SHOT
        for dims, batch, dtype in product(DIMS.get(workload, [{}]), BATCHES, DTYPES)
    ]


def registered() -> list[dict[str, Any]]:
    """The settings behind the environments' ids."""
    return [{"workload": workload, **settings} for workload, settings in ONE_SHOT.items()]


def measure(setting: dict[str, Any], time_limit: float) -> dict[str, Any]:
    """All figures of one setting; latencies in seconds."""
    env = OneShotEnv(**setting)
    native = env.problem.native_report
    heuristics = {name: judge_plan(env.task, heuristic(env.task)).latency_s for name, heuristic in HEURISTICS.items()}
    search = agents.make_agent("local-search").solve(env, budget=4000, seed=0)
    exact = agents.make_agent("exact").solve(env, time_limit=time_limit)
    best = min(search.report.latency_s, exact.report.latency_s)
    return {
        **setting,
        "ops": env.program.num_ops,
        "latency_s": heuristics | {"local-search": search.report.latency_s, "exact": exact.report.latency_s},
        "bound_s": exact.bound_s,
        "any_plan_bound_s": native.lower_bound_s,
        "outcome": exact.outcome,
        "speedup": native.latency_s / best,
    }


def table(results: list[dict[str, Any]]) -> str:
    """One line a setting: native's latency, then speed-ups over native."""
    headers = ["workload", "setting", "ops", "native ms", "all-backing", "weights-first", "local search", "exact"]
    headers += ["bound, mappings", "bound, any plan", "exact says"]
    rows = []
    for r in results:
        dims = [f"{key} {value}" for key, value in r.get("dims", {}).items()]
        native = r["latency_s"]["native"]
        row = [
            r["workload"],
            ", ".join([r["dtype"], f"batch {r['batch']}", *dims]),
            str(r["ops"]),
            f"{native * 1e3:.3f}",
        ]
        row += [f"{native / r['latency_s'][k]:.3f}" for k in ("all-backing", "weights-first", "local-search", "exact")]
        row += [f"{native / r['bound_s']:.3f}", f"{native / r['any_plan_bound_s']:.3f}", r["outcome"]]
        rows.append(row)
    return markdown(headers, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--all", action="store_true", help="the whole grid, not only registered settings; saves the results"
    )
    parser.add_argument("--workload", help="only this one")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for the exact solver, per setting")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    options = parser.parse_args()
    settings = [s for s in (grid() if options.all else registered()) if options.workload in (None, s["workload"])]
    with ProcessPoolExecutor(options.jobs) as pool:
        runs = pool.map(measure, settings, [options.time_limit] * len(settings))
        results = list(track(runs, "measuring", total=len(settings)))
    results.sort(key=lambda r: (list(ONE_SHOT).index(r["workload"]), -r["speedup"]))
    print(table(results))
    if options.all and not options.workload:
        save_results(RESULTS, results)
    if options.write:
        write_between_markers(options.write, "grid" if options.all else "registered", table(results))


if __name__ == "__main__":
    main()

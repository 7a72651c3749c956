"""What there is to gain beyond rules that cost nothing: every setting of every program on every chip, and the choice.

    python -m benchmarks.headroom                            # the registered settings, as a table
    python -m benchmarks.headroom --all                      # every setting of the grid; goes on where it was stopped,
                                                             # anew without results/headroom.jsonl
    python -m benchmarks.headroom --all --write docs/headroom.md
    python -m benchmarks.headroom --choose                   # the settings that the rule chooses, from the saved grid

The rule, written down before the grid was measured. A setting's gain is the latency of its best cheap plan over the
proven optimum among maps, where cheap plans are native's, all-fastest's and density-greedy's ten; settings whose
optimum is not proven to 0.01 % do not count. Every program of the zoo has an id on nnp-i, at its setting with the
largest gain there, whatever that is. A program has an id on another chip if its largest gain there is at least 2 %.
Of equal gains the smaller batch, then the first in the grid.
"""

from __future__ import annotations

import argparse
import statistics
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import agents
from benchmarks.as_measured import ONE_SHOT, PROGRAMS, as_measured
from benchmarks.ledger import Ledger
from benchmarks.tables import markdown, setting_text, write_between_markers
from memplace_env.accelerator import accelerator_names, load_accelerator
from memplace_env.compiler import place_mapping
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.registration import Formulation

RESULTS = Path(__file__).parent / "results" / "headroom.jsonl"
FIELDS = ("workload", "accelerator", "batch", "dtype", "dims")
HOME = "nnp-i"
LEAST_GAIN = 1.02
"""On other chips."""
TEXT = [{"sequence": 128}, {"sequence": 384}]
DIMS: dict[str, list[dict[str, int]]] = {
    "BERT": TEXT,
    "BERT-Large": TEXT,
    "GPT2": TEXT,
    "T5-small": [{"sequence": 128, "decoder_sequence": 32}, {"sequence": 384, "decoder_sequence": 128}],
    "Whisper-tiny": [{"decoder_sequence": 32}, {"decoder_sequence": 128}],
}
BATCHES = (1, 2, 4, 8, 16, 32)
DTYPES = {HOME: ("int8", "float16")}
"""Where a chip is not deployed with one dtype only, its own."""
CHEAP = ("native", "all-fastest", "density-greedy 10")
RULES = ("all-backing", "all-fastest")


def grid() -> list[dict[str, Any]]:
    """Every setting that is measured."""
    return [
        {"workload": workload, "accelerator": chip, "batch": batch, "dtype": dtype} | ({"dims": dims} if dims else {})
        for chip in accelerator_names()
        for workload in PROGRAMS
        for dims, batch in product(DIMS.get(workload, [{}]), BATCHES)
        for dtype in DTYPES.get(chip, (load_accelerator(chip).dtype,))
    ]


def registered() -> list[dict[str, Any]]:
    """The settings behind the environments' ids."""
    return [{"workload": name, "accelerator": HOME, **settings} for name, settings in ONE_SHOT.items()]


def measure(setting: dict[str, Any], time_limit: float, searches: int = 0) -> dict[str, Any]:
    """All figures of one setting; latencies in seconds; with the local search from that many seeds."""
    from memplace_env.compiler import HEURISTICS
    from memplace_env.errors import AcceleratorError
    from memplace_env.simulator import judge_plan

    try:
        env = OneShotEnv(**as_measured(setting, Formulation.ONE_SHOT))
    except AcceleratorError as error:
        return {**setting, "refused": str(error)}
    latency = {name: judge_plan(env.task, HEURISTICS[name](env.task)).latency_s for name in ("native", *RULES)}
    for variants in (1, 10):
        greedy = agents.DensityGreedy(variants).solve(env)
        latency[f"density-greedy {variants}"] = greedy.report.latency_s
    exact = agents.Exact().solve(env, time_limit=time_limit)
    latency["exact"] = exact.report.latency_s
    if searches:
        found = [agents.LocalSearch().solve(env, budget=4000, seed=seed).report.latency_s for seed in range(searches)]
        latency["local search"] = statistics.mean(found)
    mapping = np.full(env.program.num_tensors, env.task.backing)
    mapping[env.program.use_tensor] = exact.plan.use_level
    return {
        **setting,
        "ops": env.program.num_ops,
        "latency_s": latency,
        "compiled_s": judge_plan(env.task, place_mapping(env.task, mapping).plan).latency_s,
        "bound_s": exact.bound_s,
        "traffic_bound_s": exact.report.traffic_bound_s,
        "outcome": exact.outcome,
        "seconds": exact.seconds,
        "gain": min(latency[name] for name in CHEAP) / latency["exact"],
    }


def choose(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings that the rule registers, by chip and program."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for result in sorted((r for r in results if r.get("outcome") == "optimal"), key=lambda r: r["batch"]):
        place = result["accelerator"], result["workload"]
        if place not in best or round(result["gain"], 6) > round(best[place]["gain"], 6):
            best[place] = result
    chips = [HOME, *(chip for chip in accelerator_names() if chip != HOME)]
    ordered = sorted(best.items(), key=lambda item: (chips.index(item[0][0]), PROGRAMS.index(item[0][1])))
    return [result for (chip, _), result in ordered if chip == HOME or result["gain"] >= LEAST_GAIN]


def table(results: list[dict[str, Any]]) -> str:
    """One line a setting: native's latency, then speed-ups over native, then the gain over what is cheap."""
    columns = [*RULES, "density-greedy 1", "density-greedy 10", "local search", "exact"]
    columns = [name for name in columns if all(name in r["latency_s"] for r in results)]
    headers = ["program", "chip", "setting", "ops", "native ms", *columns]
    headers += ["bound, mappings", "traffic bound", "gain over cheap", "kept", "exact says"]
    rows = []
    for r in results:
        native = r["latency_s"]["native"]
        row = [r["workload"], r["accelerator"], setting_text(r)]
        row += [str(r["ops"]), f"{native * 1e3:.3f}"]
        row += [f"{native / r['latency_s'][name]:.3f}" for name in columns]
        row += [f"{native / r['bound_s']:.3f}", f"{native / r['traffic_bound_s']:.3f}", f"{r['gain'] - 1:.1%}"]
        row += [kept(r), f"{r['outcome']}, {r['seconds']:.1f} s"]
        rows.append(row)
    return markdown(headers, rows)


def kept(result: dict[str, Any]) -> str:
    """Share of the exact plan's gain over native that is left when the compiler makes a plan of its levels."""
    gain = result["latency_s"]["native"] / result["latency_s"]["exact"] - 1
    return "–" if gain < 1e-4 else f"{(result['latency_s']['native'] / result['compiled_s'] - 1) / gain:.3f}"


def summary(results: list[dict[str, Any]]) -> str:
    """How many settings leave anything over what is cheap."""
    proven = [result for result in results if result["outcome"] == "optimal"]
    left = sum(result["gain"] >= LEAST_GAIN for result in proven)
    return (
        f"The optimum of {len(proven)} of {len(results)} settings is proven; {left} of them leave {LEAST_GAIN - 1:.0%} "
        "or more over what is cheap.\n"
    )


def saved() -> list[dict[str, Any]]:
    """What has been measured of the grid."""
    return Ledger(RESULTS, FIELDS).records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="the whole grid, not only registered settings")
    parser.add_argument("--choose", action="store_true", help="only print what the rule chooses from the saved grid")
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds for the exact solver, per setting")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    options = parser.parse_args()
    if options.choose:
        print(table(choose(saved())))
        return
    settings = grid() if options.all else registered()
    run = partial(measure, time_limit=options.time_limit, searches=0 if options.all else 3)
    with ProcessPoolExecutor(options.jobs) as pool:
        if options.all:
            done = Ledger(RESULTS, FIELDS).complete(settings, run, pool)
        else:
            done = [*track(pool.map(run, settings), "measuring", total=len(settings))]
    measured = [result for result in done if "refused" not in result]
    if options.all:
        measured.sort(key=lambda r: (accelerator_names().index(r["accelerator"]), r["workload"], -r["gain"]))
    content = f"{summary(measured)}\n{table(measured)}" if options.all else table(measured)
    print(content)
    if options.write:
        write_between_markers(options.write, "grid" if options.all else "registered", content)


if __name__ == "__main__":
    main()

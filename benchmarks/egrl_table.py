"""EGRL, its ablations and the other learners on the three paper workloads at the paper's budget.

python -m benchmarks.egrl_table                    # measures what results/egrl.json lacks, prints the table
python -m benchmarks.egrl_table --agents egrl local-search --seeds 2
python -m benchmarks.egrl_table --write docs/egrl.md   # also draws the learning curves into docs/pictures
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track
from scipy.stats import bootstrap, trim_mean

import agents
from agents.base import Agent
from benchmarks.tables import markdown, save_results, write_between_markers
from memplace_env.registration import one_shot_id

RESULTS = Path(__file__).parent / "results" / "egrl.json"
PAPER = ("ResNet50", "ResNet101", "BERT")


def _egrl(**changes: Any) -> Callable[[], Agent]:
    return lambda: agents.EGRL(replace(agents.EGRLConfig(), **changes))


def _paper(**changes: Any) -> Callable[[], Agent]:
    return lambda: agents.EGRL(replace(agents.EGRLConfig.paper(), **changes))


COMPETITORS: dict[str, Callable[[], Agent]] = {
    "egrl": _egrl(),
    "egrl, refinement only": _egrl(evolution=False, gradient=False),
    "egrl without refinement": _egrl(refine=0.0),
    "paper": _paper(),
    "paper, EA only": _paper(gradient=False),
    "paper, PG only": _paper(evolution=False),
    "paper without Boltzmann": _paper(boltzmann=0.0),
    "paper, EA only, without Boltzmann": _paper(gradient=False, boltzmann=0.0),
    "paper + repaired": _paper(repaired=True),
    "paper + repaired + write-back": _paper(repaired=True, write_back=True),
    "paper + heuristics": _paper(heuristics=True),
    "local-search": agents.LocalSearch,
    "greedy-dp": agents.GreedyDP,
    "random": agents.RandomSearch,
    "ppo": lambda: agents.make_agent("ppo"),
    "a2c": lambda: agents.make_agent("a2c"),
}
"""Who competes, by the name in the table."""


def measure(agent: str, workload: str, seed: int, budget: int) -> dict[str, Any]:
    """One run, as plain values; `curve` holds evaluations and speed-up of each improvement."""
    solution = COMPETITORS[agent]().solve(one_shot_id(workload), budget=budget, seed=seed)
    return {
        "agent": agent,
        "workload": workload,
        "seed": seed,
        "budget": budget,
        "speedup": solution.speedup,
        "seconds": round(solution.seconds, 1),
        "curve": [[p.evaluations, round(solution.native_latency_s / p.latency_s, 4)] for p in solution.history],
    }


def recorded() -> dict[tuple[str, str, int, int], dict[str, Any]]:
    """Runs on file, by agent, workload, seed and budget."""
    runs = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    return {(run["agent"], run["workload"], run["seed"], run["budget"]): run for run in runs}


def optima() -> dict[str, float]:
    """Proven best speed-up of each workload among maps with one level for each tensor."""
    proven = {workload: agents.Exact().solve(one_shot_id(workload)) for workload in PAPER}
    return {workload: solution.native_latency_s / (solution.bound_s or np.nan) for workload, solution in proven.items()}


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Interquartile mean and its 95 % bootstrap interval (Agarwal et al., 2021)."""
    data = np.array(values)
    middle = float(trim_mean(data, 0.25))
    if len(data) < 2 or np.ptp(data) == 0:
        return middle, middle, middle
    drawn = bootstrap((data,), lambda x, axis: trim_mean(x, 0.25, axis=axis), method="percentile", rng=0)
    return middle, float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)


def table(results: Sequence[dict[str, Any]], best: dict[str, float]) -> str:
    """A line for each competitor and three columns for each workload."""
    rows = []
    for agent in COMPETITORS:
        cells = []
        for workload in PAPER:
            runs = [r for r in results if r["agent"] == agent and r["workload"] == workload]
            values = [r["speedup"] for r in runs]
            if not values:
                cells += ["", "", ""]
                continue
            middle, low, high = interval(values)
            spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
            share = (np.mean(values) - 1) / (best[workload] - 1)
            count = "" if len(values) == 5 else f" ({len(values)} seed{'s' * (len(values) > 1)})"
            cells += [f"{np.mean(values):.3f}{spread}{count}", f"{middle:.3f} [{low:.3f}, {high:.3f}]", f"{share:.0%}"]
        if any(cells):
            rows.append([agent, *cells])
    rows.append(["proven optimum", *(cell for w in PAPER for cell in (f"{best[w]:.3f}", "", "100%"))])
    heads = [head for workload in PAPER for head in (f"{workload}: mean", "IQM [95 %]", "share of gain")]
    return markdown(["speed-up over native", *heads], rows)


def times(results: Sequence[dict[str, Any]]) -> str:
    """Seconds of a run, median over the seeds."""
    rows = []
    for agent in COMPETITORS:
        runs = [[r["seconds"] for r in results if (r["agent"], r["workload"]) == (agent, w)] for w in PAPER]
        if any(runs):
            rows.append([agent, *(f"{np.median(seconds):.0f}" if seconds else "" for seconds in runs)])
    return markdown(["seconds for 4,000 maps", *PAPER], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", nargs="+", choices=COMPETITORS, default=list(COMPETITORS), metavar="NAME")
    parser.add_argument("--workloads", nargs="+", choices=PAPER, default=list(PAPER))
    parser.add_argument("--budget", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--again", action="store_true", help="measure also what has been measured")
    parser.add_argument("--only-print", action="store_true", help="measure nothing")
    parser.add_argument("--write", type=Path, nargs="+", help="documents whose tables are replaced; draws the curves")
    options = parser.parse_args()
    known = recorded()
    wanted = [
        (agent, workload, seed, options.budget)
        for agent in options.agents
        for workload in options.workloads
        for seed in range(options.seeds)
        if not options.only_print and (options.again or (agent, workload, seed, options.budget) not in known)
    ]
    for key in track(wanted, "measuring"):
        run = measure(*key)
        known = recorded() | {key: run}  # another process may have measured meanwhile
        save_results(RESULTS, [known[k] for k in sorted(known)])
    results = [r for key, r in known.items() if key[3] == options.budget]
    best = optima()
    print(table(results, best), times(results), sep="\n\n")
    if options.write:
        from benchmarks.curves import draw

        for document in options.write:
            write_between_markers(document, "egrl", table(results, best))
            write_between_markers(document, "egrl-times", times(results))
        measured = {r["agent"] for r in results}
        draw(results, best, [agent for agent in COMPETITORS if agent in measured])


if __name__ == "__main__":
    main()

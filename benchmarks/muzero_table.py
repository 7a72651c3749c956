"""MuZero and the portfolio on every MallocGame id, beside XLA's solver, its autotuner and the searches, at equal time.

python -m benchmarks.muzero_table                      # measures what results/muzero.json lacks, prints the tables
python -m benchmarks.muzero_table --agents portfolio --workloads GPT2 --seeds 1
python -m benchmarks.muzero_table --ablations          # MuZero's settings on two programs instead
python -m benchmarks.muzero_table --only-print --write docs/muzero.md    # also draws the learning curves

Each run has one core: two runs side by side use two, so times compare whatever uses threads.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import numpy as np
from rich.progress import track

import agents
from agents.learning.training import CURVES
from agents.muzero.config import CONFIGS
from agents.xla_msa import PUBLIC_SETS, MsaOptions
from benchmarks.as_measured import GAME
from benchmarks.cores import single_cores
from benchmarks.tables import markdown, save_results, write_between_markers
from memplace_env.registration import game_id

RESULTS = Path(__file__).parent / "results" / "muzero.json"
SEVERAL = ("GPT2", "BERT", "Swin-tiny", "MatMul-strassen2")
"""Programs with more than one seed, whose learning curves are drawn."""
ABLATED = ("GPT2", "Swin-tiny")
ENDLESS = 10**9

Make = Callable[[Path], agents.Agent]
"""Makes an agent that may write curves to a folder."""


def _muzero(**changes: Any) -> Make:
    return lambda folder: agents.MuZero(replace(agents.MuZeroConfig(), **changes), out=folder, every=ENDLESS)


TRUE_RULES = asdict(CONFIGS["true-rules"])


def _xla(options: MsaOptions) -> Make:
    return lambda _: agents.XlaMsa(options)


XLA: dict[str, Make] = {f"xla-msa {each.name}": _xla(each.options) for each in PUBLIC_SETS}
AT_ONCE: dict[str, Make] = XLA | {"greedy-player": lambda _: agents.GreedyPlayer()}
TIMED: dict[str, Make] = {
    "xla-autotune": lambda _: agents.XlaAutotune(),
    "beam-search": lambda _: agents.BeamSearch(),
    "game-local-search": lambda _: agents.GameLocalSearch(),
    "muzero, true rules": _muzero(**TRUE_RULES),
    "muzero": _muzero(),
    "portfolio": lambda _: agents.Portfolio(),
}
ABLATIONS: dict[str, Make] = {
    "default": _muzero(),
    "8 simulations": _muzero(simulations=8),
    "32 simulations": _muzero(simulations=32),
    "50 simulations": _muzero(simulations=50),
    "reanalyse": _muzero(reanalyse=0.5),
    "no lookahead": _muzero(lookahead=False),
    "no deviations": _muzero(deviations=0.0),
    "no demonstrations": _muzero(demonstrations=False, deviations=0.0),
    "true rules": _muzero(**TRUE_RULES),
}
"""What competes, by the name in the table; every ablation differs from the default in one respect."""

BEST_SET = "best of xla-msa"
"""The faster of XLA's public option sets, program by program."""

RANDOM = (TIMED.keys() | ABLATIONS.keys()) - {"beam-search"}
"""Those whose result depends on the seed."""

Key = tuple[str, str, int, float]


def measure(agent: str, workload: str, seed: int, seconds: float) -> dict[str, Any]:
    """One run, as plain values.

    `curve` holds games, seconds and latency of each improvement; `rounds`, of MuZero only, decisions, seconds, and
    the mean latency of each round's games.
    """
    make = (AT_ONCE | TIMED | ABLATIONS)[agent]
    env = gym.make(game_id(workload)).unwrapped
    with TemporaryDirectory() as name:
        make(Path(name) / "warm").solve(env, budget=1)  # loads compiled code
        folder = Path(name) / "run"
        limit = None if agent in AT_ONCE else seconds
        solution = make(folder).solve(env, budget=ENDLESS, seed=seed, time_limit=limit)
        rounds = _rounds(folder / CURVES)
    return {
        "agent": agent,
        "workload": workload,
        "seed": seed,
        "seconds": 0.0 if agent in AT_ONCE else seconds,
        "latency_s": solution.report.latency_s if solution.report else None,
        "bound_s": solution.bound_s,
        "games": solution.evaluations,
        "curve": [[p.evaluations, round(p.seconds, 2), p.latency_s] for p in solution.history],
        "rounds": rounds,
    }


def _rounds(folder: Path) -> list[list[float]]:
    """Decisions, seconds and mean latency of each round, from TensorBoard's file."""
    if not folder.exists():
        return []
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    scalars = {tag: events.Scalars(tag) for tag in ("decisions/0", "seconds/0", "latency/mean/0")}
    return [[round(event.value, 9) for event in row] for row in zip(*scalars.values(), strict=True)]


def recorded() -> dict[Key, dict[str, Any]]:
    """Runs on file, by agent, workload, seed and seconds."""
    runs = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    return {(run["agent"], run["workload"], run["seed"], run["seconds"]): run for run in runs}


def measure_all(keys: Sequence[Key], jobs: int) -> None:
    """Measure and save, a process for each core."""
    with single_cores(jobs) as pool:
        runs = [pool.submit(measure, *key) for key in keys]
        for run in track(as_completed(runs), "measuring", len(runs)):
            result = run.result()
            known = recorded() | {
                (result["agent"], result["workload"], result["seed"], result["seconds"]): result,
            }
            save_results(RESULTS, [known[key] for key in sorted(known)])


@lru_cache
def traffic_bound_s(workload: str) -> float:
    """Seconds that no plan of any kind can beat."""
    report = agents.GreedyPlayer().solve(game_id(workload)).report
    assert report is not None
    return report.traffic_bound_s


class Results:
    """Runs of one time limit."""

    def __init__(self, runs: Sequence[dict[str, Any]]) -> None:
        self.runs = runs

    def latencies(self, agent: str, workload: str) -> list[float]:
        """In seconds, by seed."""
        return [r["latency_s"] for r in self.runs if (r["agent"], r["workload"]) == (agent, workload)]

    def mean(self, agent: str, workload: str) -> float:
        """Mean latency in seconds over the seeds; nan without any."""
        if agent == BEST_SET:
            return min(self.mean(name, workload) for name in XLA)
        return float(np.mean(self.latencies(agent, workload) or np.nan))

    def speedups(self, agent: str, over: str) -> dict[str, float]:
        """Of each program that both have played."""
        both = {workload: self.mean(over, workload) / self.mean(agent, workload) for workload in GAME}
        return {workload: speedup for workload, speedup in both.items() if not np.isnan(speedup)}


def table(results: Results) -> str:
    """One line a program: the latency of the best of XLA's public sets, speed-ups over it, the traffic bound."""
    names = [*AT_ONCE, *TIMED]
    rows = []
    for workload in GAME:
        reference = results.mean(BEST_SET, workload)
        cells = []
        for name in names:
            values = [reference / latency for latency in results.latencies(name, workload)]
            spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.3f}{spread}" if values else "")
        gap = results.mean("portfolio", workload) / traffic_bound_s(workload) - 1
        shown = "" if np.isnan(gap) else f"{gap:.1%}"
        bound = f"{reference / traffic_bound_s(workload):.3f}"
        rows.append([workload, f"{reference * 1e3:.3f}", *cells, bound, shown])
    return markdown(["program", f"{BEST_SET} ms", *names, "traffic bound", "portfolio above it"], rows)


def summary(results: Results) -> str:
    """How often and by how much one beats another, over all programs."""
    rows = []
    for agent in TIMED:
        for over in (BEST_SET, "xla-autotune", "greedy-player", "beam-search", "game-local-search"):
            speedups = results.speedups(agent, over)
            if agent == over or not speedups:
                continue
            values = np.array([*speedups.values()])
            faster, slower = int((values > 1 + 1e-6).sum()), int((values < 1 - 1e-6).sum())
            mean = f"{values.mean() - 1:+.2%}"
            rows.append([f"{agent} over {over}", f"{faster} of {len(values)}", str(slower), mean])
    return markdown(["", "faster", "slower", "mean gain"], rows)


def ablation_table(results: Results) -> str:
    """Latency in ms and games, a line for each setting."""
    rows = []
    for name in ABLATIONS:
        cells = []
        for workload in ABLATED:
            runs = [r for r in results.runs if (r["agent"], r["workload"]) == (name, workload)]
            values = [r["latency_s"] * 1e3 for r in runs]
            spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.3f}{spread}" if values else "")
            cells.append(f"{np.mean([r['games'] for r in runs]):.0f}" if runs else "")
        rows.append([name, *cells])
    heads = [head for workload in ABLATED for head in (f"{workload} ms", "games")]
    return markdown(["", *heads], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", nargs="+", choices=[*AT_ONCE, *TIMED, *ABLATIONS], metavar="NAME")
    parser.add_argument("--workloads", nargs="+", choices=GAME, metavar="NAME")
    parser.add_argument("--seconds", type=float, default=60.0, help="wall time of each run")
    parser.add_argument("--seeds", type=int, default=3, help=f"on {', '.join(SEVERAL)}, and of ablations; else one")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, each on its own core")
    parser.add_argument("--ablations", action="store_true", help="MuZero's settings instead of the agents")
    parser.add_argument("--again", action="store_true", help="measure also what has been measured")
    parser.add_argument("--only-print", action="store_true", help="measure nothing")
    parser.add_argument("--write", type=Path, help="document whose tables are replaced; draws the curves")
    options = parser.parse_args()
    names = options.agents or [*(ABLATIONS if options.ablations else AT_ONCE | TIMED)]
    workloads = options.workloads or [*(ABLATED if options.ablations else GAME)]
    wanted = [
        (name, workload, seed, 0.0 if name in AT_ONCE else options.seconds)
        for workload in workloads
        for name in names
        for seed in range(options.seeds if name in RANDOM and (options.ablations or workload in SEVERAL) else 1)
    ]
    known = recorded()
    if not options.only_print:
        measure_all([key for key in wanted if options.again or key not in known], options.jobs)
    results = Results([r for r in recorded().values() if r["seconds"] in (0.0, options.seconds)])
    printed = {"ablations": ablation_table} if options.ablations else {"muzero": table, "muzero-summary": summary}
    for marker, draw in printed.items():
        print(draw(results), end="\n\n")
        if options.write:
            write_between_markers(options.write, marker, draw(results))
    if options.write and not options.ablations:
        from benchmarks.muzero_curves import draw_curves

        draw_curves(results.runs, SEVERAL)


if __name__ == "__main__":
    main()

"""mallocGame: searches beside XLA's memory-space assignment and its autotuner, at equal wall time.

    python -m benchmarks.game                              # every registered MallocGame id, as a table
    python -m benchmarks.game --seconds 60 --write docs/game.md
    python -m benchmarks.game --grid                       # other settings, cheaply, those with most to gain first

Each search has one core: two side by side use two, so times compare whatever uses threads. The registered settings
(`memplace_env.registration.GAME`) are those of the first build, chosen for what was then won over XLA's solver.
"""

from __future__ import annotations

import argparse
import statistics
from itertools import product
from pathlib import Path
from typing import Any

from rich.progress import track

import agents
from agents.xla_msa import PUBLIC_SETS
from benchmarks.cores import single_cores
from benchmarks.headroom import DIMS
from benchmarks.tables import markdown, save_results, write_between_markers
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.registration import GAME
from memplace_env.views.text.headlines import stall_note
from memplace_env.workload.zoo import zoo_names

RESULTS = Path(__file__).parent / "results"
XLA = {f"xla-msa {each.name}": each.options for each in PUBLIC_SETS}
SEARCHES = ("greedy-player", "beam-search", "game-local-search")
TIMED = ("xla-autotune", *SEARCHES, "solver-order")
BATCHES = (4, 16, 64)
DTYPES = ("bfloat16", "int8")
SMALL_CHIPS = ("edge-tpu", "ethos-u65")
ENDLESS = 10**9
GRID_GAMES = 2000


def grid() -> list[dict[str, Any]]:
    """Every setting that is measured cheaply."""
    large = [
        {"workload": workload, "batch": batch, "dtype": dtype} | ({"dims": dims} if dims else {})
        for workload in zoo_names()
        for dims, batch, dtype in product(DIMS.get(workload, [{}]), BATCHES, DTYPES)
    ]
    small = [{"workload": "MobileNetV2", "accelerator": chip, "batch": 1, "dtype": "int8"} for chip in SMALL_CHIPS]
    return large + small


def registered() -> list[dict[str, Any]]:
    """The settings behind the environments' ids, and the ids' own names."""
    return [{"name": name, "workload": name, **settings} for name, settings in GAME.items()]


def measure(
    setting: dict[str, Any], solvers: tuple[str, ...], games: int, seconds: float | None, seeds: int
) -> dict[str, Any]:
    """Latencies in seconds by solver, within a number of games or wall time, and notes on those that stall much.

    Of several seeds the mean counts, and the notes are on the first.
    """
    env = MallocGameEnv(**{key: value for key, value in setting.items() if key != "name"})
    makers = {name: agents.XlaMsa(options) for name, options in XLA.items()}
    makers |= {name: agents.make_agent(name) for name in solvers}
    runs = {name: _solve(agent, env, games, seconds, seeds) for name, agent in makers.items()}
    found = {name: [run.report for run in each if run.report is not None] for name, each in runs.items()}
    latency = {name: statistics.mean(report.latency_s for report in each) for name, each in found.items() if each}
    spread = {name: max(each) - min(each) for name in found if (each := [r.latency_s for r in found[name]])}
    some = next(iter(runs.values()))[0]
    return {
        **setting,
        "accelerator": env.accelerator.name,
        "decisions": env.problem.num_decisions,
        "seconds": seconds,
        "latency_s": {"all-backing": some.native_latency_s} | latency,
        "spread": max(spread[name] / latency[name] for name in latency),
        "stalls": {name: note for name, each in found.items() if each and (note := stall_note(each[0]))},
        "bound_s": some.bound_s,
        "speedup": _best_set_s(latency) / min(latency.values()),
    }


def _solve(
    agent: agents.Agent, env: MallocGameEnv, games: int, seconds: float | None, seeds: int
) -> list[agents.Solution]:
    agent.solve(env, budget=1)  # loads compiled code
    deterministic = agent.name in ("xla-msa", "greedy-player")
    return [
        agent.solve(env, budget=games, time_limit=seconds, seed=seed) for seed in range(1 if deterministic else seeds)
    ]


def _best_set_s(latency: dict[str, float]) -> float:
    """Latency of the fastest of XLA's public option sets."""
    return min(latency[name] for name in XLA)


def table(results: list[dict[str, Any]]) -> str:
    """One line a setting: the latency of the best of XLA's public option sets, then speed-ups over it."""
    solvers = [*results[0]["latency_s"]]
    rows = []
    for r in results:
        reference = _best_set_s(r["latency_s"])
        dims = [f"{key} {value}" for key, value in r.get("dims", {}).items()]
        dtype = [r["dtype"]] if "dtype" in r else []
        batch = [f"batch {r['batch']}"] if "batch" in r else []
        setting = ", ".join([r["accelerator"], *dtype, *batch, *dims])
        row = [r.get("name", r["workload"]), setting, str(r["decisions"]), f"{r['latency_s']['all-backing'] * 1e3:.3f}"]
        row.append(f"{reference * 1e3:.3f}")
        row += [f"{reference / r['latency_s'][name]:.3f}{r['stalls'].get(name, '')}" for name in solvers]
        rows.append([*row, f"{reference / r['bound_s']:.3f}", f"{r['spread']:.1%}"])
    heads = [
        "workload",
        "setting",
        "decisions",
        "all-backing ms",
        "best of xla-msa ms",
        *solvers,
        "bound",
        "widest range",
    ]
    return markdown(heads, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="wall time of each search")
    parser.add_argument("--seeds", type=int, default=3, help="of each search; not for the grid")
    parser.add_argument("--grid", action="store_true", help=f"all settings, {GRID_GAMES} games a search")
    parser.add_argument("--workload", help="only this one")
    parser.add_argument("--jobs", type=int, default=2, help="searches side by side, each on its own core")
    parser.add_argument("--write", type=Path, help="document whose table is replaced; saves the results")
    options = parser.parse_args()
    settings = [
        s
        for s in (grid() if options.grid else registered())
        if options.workload in (None, s["workload"], s.get("name"))
    ]
    solvers, games, seconds = (SEARCHES, GRID_GAMES, None) if options.grid else (TIMED, ENDLESS, options.seconds)
    seeds = 1 if options.grid else options.seeds
    with single_cores(options.jobs) as pool:
        runs = [pool.submit(measure, setting, solvers, games, seconds, seeds) for setting in settings]
        results = [run.result() for run in track(runs, "measuring")]
    if options.grid:
        results.sort(key=lambda r: (zoo_names().index(r["workload"]), -r["speedup"]))
    print(table(results))
    if options.write:
        name = "grid" if options.grid else "game"
        save_results(RESULTS / ("game_grid.json" if options.grid else "game.json"), results)
        write_between_markers(options.write, name, table(results))


if __name__ == "__main__":
    main()

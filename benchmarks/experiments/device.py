"""Simulated and measured latencies of plans on a GPU, and searches by either.

The chip is benchmarks/records/device/cuda.toml, which `memplace calibrate --device cuda --capacity 32 --model ResNet50
--model BERT --model MobileNetV2 --out benchmarks/records/device/cuda.toml` makes. A chip that is calibrated anew is
another one, without records.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import gymnasium as gym
import numpy as np
from scipy.stats import spearmanr

from benchmarks.harness import RECORDS, Columns, Experiment, Records, Row, table
from benchmarks.ledger import Record
from memplace_agents.registry import agent_specs
from memplace_env.backends.cuda.bench import Bench
from memplace_env.backends.cuda.cuda import open_cuda
from memplace_env.backends.cuda.device_protocol import Device
from memplace_env.backends.cuda.simulator import DeviceSimulator, report_of
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import native_plan, place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task
from memplace_env.report.style import new_figure, to_png

CHIP: Final = RECORDS / "device" / "cuda.toml"
CAPACITY_MIB: Final = 32
NETWORKS: Final = ("ResNet50", "BERT", "MobileNetV2")
"""A network of convolutions and one of attention, both of EGRL's paper, and one whose ops are small."""
PLANS: Final = 50
RULE, MODEL, CLOCK = SEARCHES = "greedy player", "best by the cost model", "best by the clock"
SECONDS: Final = 60.0
"""Time limit of each search."""
MEASUREMENTS: Final = 200
"""Plans after which the search by the clock ends, too."""


def settings(records: Records = ()) -> list[Record]:
    """Return the settings of all plans, those of searches last."""
    chip = load_accelerator(CHIP).sha256
    plans = (*range(PLANS), *SEARCHES)
    return [{"network": network, "chip": chip, "plan": plan} for network in NETWORKS for plan in plans]


@cache
def device() -> Device:
    """Return the GPU, opened once."""
    return open_cuda()


@cache
def bench_of(network: str) -> tuple[Bench, DeviceSimulator]:
    """Return what times a network's plans, and the simulator of the same GPU."""
    task = resolve_task(network, CHIP, patterns="off")
    simulator = DeviceSimulator(device, task=task)
    return simulator.bench(task.program, task.accelerator, native_plan(task)), simulator


def measure(setting: Record) -> Record:
    """Return a plan's latency by the cost model and by the clock, and the spread of the clock's runs."""
    bench, simulator = bench_of(setting["network"])
    plan = plan_of(bench.task, simulator, setting["plan"])
    timing = bench.measure(plan)
    low, high = np.quantile(timing.inference_s, [0.1, 0.9])
    return {
        **setting,
        "device": device().name,
        "simulated_s": evaluate_plan(bench.task, plan).latency_s,
        "measured_s": report_of(bench.task, plan, timing).latency_s,
        "spread": float((high - low) / np.median(timing.inference_s)),
        "captured": timing.captured,
    }


def plan_of(task: Task, simulator: DeviceSimulator, name: int | str) -> MemoryPlan:
    """Return a plan: 0 is native's, then compiled random levels and games of random legal moves take turns.

    Random levels put a random fraction of the tensors into fast memory. Plans of one fraction are much alike; with
    fractions from 0 to 1 they spread from the slowest plans to those that a search would visit.
    """
    if name == RULE:
        return solved(task, "greedy-player", 1)
    if name == MODEL:
        return solved(task, "portfolio", 10**6)
    if name == CLOCK:
        return solved(task.with_simulator(simulator), "game-local-search", MEASUREMENTS)
    assert isinstance(name, int)
    if name == 0:
        return native_plan(task)
    if name % 2:
        rng = np.random.default_rng(name)
        return place_levels(task, (rng.random(task.program.num_tensors) < rng.random()).astype(np.int64)).plan
    problem = MallocGameProblem(task)
    states = problem.new_states(1)
    problem.finish_randomly(states, name)
    return problem.plan(states[0])


def solved(task: Task, agent: str, budget: int) -> MemoryPlan:
    """Return an agent's plan of the task's game."""
    env = gym.make("memplace_env:MallocGame-v0", workload=task).unwrapped
    plan: MemoryPlan = agent_specs()[agent].make().solve(env, budget=budget, seed=0, time_limit=SECONDS).plan
    return plan


def by_network(records: Records) -> Iterator[dict[int | str, Record]]:
    """Yield the records of each network by plan."""
    for network in NETWORKS:
        yield {record["plan"]: record for record in records if record["network"] == network}


def drawn(row: Row) -> list[Record]:
    """Return the records of native's plan and of random ones."""
    return [record for plan, record in row.items() if isinstance(plan, int)]


def correlation(row: Row) -> str:
    """Return a cell: Spearman's correlation of simulated and measured times, over all plans and over each kind."""
    kinds = (lambda plan: True, lambda plan: plan % 2 == 1, lambda plan: plan > 0 and plan % 2 == 0)
    found = []
    for kind in kinds:
        plans = [record for record in drawn(row) if kind(record["plan"])]
        times = ([record[key] for record in plans] for key in ("simulated_s", "measured_s"))
        found.append(f"{float(spearmanr(*times).statistic):.3f}")
    return " / ".join(found)


def ms(plan: int | str) -> Callable[[Row], str]:
    """Return a cell: the measured milliseconds of a plan; a dash if they are missing."""
    return lambda row: f"{1e3 * row[plan]['measured_s']:.2f} ms" if plan in row else "–"


COLUMNS: Final[Columns] = {
    "network": lambda row: row[0]["network"],
    "rank correlation: all / levels / games": correlation,
    "simulated / measured": lambda row: (
        f"{statistics.median(record['simulated_s'] / record['measured_s'] for record in drawn(row)):.2f}"
    ),
    "native": ms(0),
    "greedy player": ms(RULE),
    "best by cost model": ms(MODEL),
    "best by measured search": ms(CLOCK),
}


def shown(records: Records) -> str:
    """Return the table under the device's name."""
    return f"On {records[0]['device']}, {CAPACITY_MIB} MiB of it.\n\n{table(COLUMNS, by_network)(records)!s}"


def picture(records: Records) -> bytes:
    """Return a PNG of simulated against measured times: a panel for each network, a point for each plan."""
    networks = list(dict.fromkeys(record["network"] for record in records))
    figure = new_figure(560 * len(networks), 620)
    panels = figure.subplots(1, len(networks), squeeze=False)[0]
    for panel, network in zip(panels, networks, strict=True):
        mine = [record for record in records if record["network"] == network]
        for colour, label, odd in (("#1f6fb4", "random levels", 1), ("#d1495b", "random games", 0)):
            points = [
                (1e3 * record["simulated_s"], 1e3 * record["measured_s"])
                for record in mine
                if isinstance(record["plan"], int) and record["plan"] and record["plan"] % 2 == odd
            ]
            if points:
                panel.scatter(*zip(*points, strict=True), s=14, color=colour, label=label, alpha=0.7, linewidths=0)
        for marker, size, plan in (("D", 60, 0), ("s", 110, RULE), ("o", 170, MODEL), ("^", 260, CLOCK)):
            for record in (record for record in mine if record["plan"] == plan):
                at = 1e3 * record["simulated_s"], 1e3 * record["measured_s"]
                style = {"s": size, "marker": marker, "facecolors": "none", "edgecolors": "#222222", "zorder": 3}
                panel.scatter(*at, label=plan or "native", **style)
        both = [1e3 * record[key] for record in mine for key in ("simulated_s", "measured_s")]
        ends = 0.9 * min(both), 1.1 * max(both)
        panel.plot(ends, ends, color="#999999", linewidth=0.8, zorder=0)
        panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="simulated, ms", title=network)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(lambda value, place: f"{value:g}" if f"{value:e}"[0] in "235" else "")
        panel.set_aspect("equal")
        panel.grid(which="major", color="#dddddd", linewidth=0.6)
        panel.legend(fontsize=7, frameon=False, loc="upper left", labelspacing=1)
    panels[0].set_ylabel("measured, ms")
    figure.set_layout_engine("constrained")
    return to_png(figure)


EXPERIMENTS = [
    Experiment(
        "device",
        __doc__,
        {"docs/trust.md#device": shown, "docs/pictures/device.png": picture},
        settings,
        measure,
        key=("network", "chip", "plan"),
        ledger="device/plans",
    )
]

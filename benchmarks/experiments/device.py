"""Compare simulated and measured latencies of plans on a GPU, and search by either.

`python -m benchmarks.experiments.device` calibrates the GPU (`benchmarks/records/device/cuda.toml`), times 50 plans of
each of three networks, continues where it was stopped, and prints a table. `--networks BERT` measures one of them and
leaves the others to other commands, `--write docs/device.md` puts the table there, and `--plot
docs/pictures/device.png` draws a point per plan. Without a GPU it searches by the cost model of a GPU that is
calibrated already, so that none waits for that, and shows what was measured before.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

import gymnasium as gym
import numpy as np
from rich.progress import track
from scipy.stats import spearmanr

from benchmarks.harness import RECORDS, ROOT, Experiment, Records
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import benchmark_parser, markdown_table, publish
from memplace_agents.registry import agent_specs
from memplace_env._lib.errors import CostError, ExecutionError
from memplace_env._lib.files import write_atomically
from memplace_env.backends.cuda.bench import RUNS, Bench
from memplace_env.backends.cuda.device_protocol import Device
from memplace_env.backends.cuda.simulator import DeviceSimulator, report_of
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import native_plan, place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task

RESULTS = RECORDS / "device"
NETWORKS: Final = ("ResNet50", "BERT", "MobileNetV2")
"""A network of convolutions and one of attention, both of EGRL's paper, and one whose ops are small."""
CAPACITY_MIB: Final = 32
PLANS: Final = 50
SECONDS: Final = 60
"""Time limit of the search by the cost model."""
MEASUREMENTS: Final = 200
CLOCK_SECONDS: Final = 60
"""Time limit of the search by the clock; it ends with this or with `MEASUREMENTS`."""
KEY: Final = ("network", "device", "chip", "plan")
RULE, MODEL, CLOCK = SEARCHES = "greedy player", "best by the cost model", "best by the clock"
NOT_MEASURED: Final = "Not measured: no GPU could be reached where this page was written."


def sample(task: Task, count: int = PLANS) -> Iterator[MemoryPlan]:
    """Yield native's plan, then alternately compiled random levels and a game of random legal moves.

    Random levels put a random fraction of the tensors into fast memory. Plans of one fraction are much alike; with
    fractions from 0 to 1 they spread from the slowest plans to those that a search would visit.
    """
    yield native_plan(task)
    problem = MallocGameProblem(task)
    for number in range(1, count):
        rng = np.random.default_rng(number)
        if number % 2:
            yield place_levels(task, (rng.random(task.program.num_tensors) < rng.random()).astype(np.int64)).plan
        else:
            states = problem.new_states(1)
            problem.finish_randomly(states, number)
            yield problem.plan(states[0])


def timed(bench: Bench, plan: MemoryPlan, runs: int = RUNS) -> Record:
    """Return a plan's latency by the cost model and by the clock, and the spread of the clock's runs."""
    timing = bench.measure(plan, runs)
    low, high = np.quantile(timing.inference_s, [0.1, 0.9])
    return {
        "simulated_s": evaluate_plan(bench.task, plan).latency_s,
        "measured_s": report_of(bench.task, plan, timing).latency_s,
        "spread": float((high - low) / np.median(timing.inference_s)),
        "captured": timing.captured,
    }


def searched(
    bench: Bench,
    simulator: DeviceSimulator,
    names: Collection[str] = SEARCHES,
    seconds: float = SECONDS,
    measurements: int = MEASUREMENTS,
    runs: int = RUNS,
) -> Iterator[tuple[str, Record]]:
    """Yield both times of the plans of the greedy player, of the portfolio by the cost model, and of a local search by
    the clock, or of some of these."""
    task = bench.task
    plans: dict[str, Callable[[], MemoryPlan]] = {
        RULE: lambda: solved(task, "greedy-player", 1),
        MODEL: lambda: best_by_model(task, seconds),
        CLOCK: lambda: solved(task.with_simulator(simulator), "game-local-search", measurements, CLOCK_SECONDS),
    }
    for name in names:
        yield name, timed(bench, plans[name](), runs)


def solved(task: Task, agent: str, budget: int, time_limit: float | None = None) -> MemoryPlan:
    """Return an agent's plan of the task's game."""
    env = gym.make("memplace_env:MallocGame-v0", workload=task).unwrapped
    plan: MemoryPlan = agent_specs()[agent].make().solve(env, budget=budget, seed=0, time_limit=time_limit).plan
    return plan


def best_by_model(task: Task, seconds: float = SECONDS) -> MemoryPlan:
    """Return the portfolio's plan by the cost model, which is searched for once and kept beside the records."""
    path = RESULTS / f"{task.program.name}-{task.accelerator.sha256[:8]}.json"
    if not path.exists():
        solved(task, "portfolio", 10**6, seconds).save(path)
    return MemoryPlan.load(path)


def measure(network: str, chip: Path, device: Device, ledger: Ledger, plans: int = PLANS) -> list[Record]:
    """Return a network's records; measure what is missing."""
    task = resolve_task(network, chip)
    key: Record = {"network": network, "device": device.name, "chip": task.accelerator.sha256}
    settings: list[Record] = [{**key, "plan": plan} for plan in (*range(plans), *SEARCHES)]
    missing = [setting["plan"] for setting in ledger.missing(settings)]
    if missing:
        simulator = DeviceSimulator(lambda: device, task=task)
        bench = simulator.bench(task.program, task.accelerator, native_plan(task))
        for number, plan in enumerate(track(sample(task, plans), network, plans)):
            if number in missing:
                ledger.add({**key, "plan": number, **timed(bench, plan)})
        for name, record in searched(bench, simulator, [name for name in SEARCHES if name in missing]):
            ledger.add({**key, "plan": name, **record})
    return ledger.of(settings)


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table with a row for each network; a search by the clock that is missing is a dash."""
    rows = []
    for network in dict.fromkeys(record["network"] for record in records):
        mine = {record["plan"]: record for record in records if record["network"] == network}
        plans = {plan: record for plan, record in mine.items() if isinstance(plan, int)}
        kinds = [
            [record for plan, record in plans.items() if plan and plan % 2 == odd] for odd in (1, 0)
        ]  # native's plan is of neither kind
        ratio = statistics.median(record["simulated_s"] / record["measured_s"] for record in plans.values())
        optimum, search = mine[MODEL], mine.get(CLOCK)
        best = min(record["measured_s"] for record in plans.values())
        rows.append(
            [
                network, str(len(plans)), str(sum(record["captured"] for record in plans.values())),
                " / ".join(f"{correlation(records):.3f}" for records in (list(plans.values()), *kinds)), f"{ratio:.2f}",
                f"{100 * statistics.median(record['spread'] for record in plans.values()):.1f} %",
                milliseconds(mine[0]["measured_s"]), milliseconds(mine[RULE]["measured_s"]), milliseconds(best),
                milliseconds(optimum["simulated_s"]),
                milliseconds(optimum["measured_s"]), milliseconds(search["measured_s"]) if search else "–",
            ]
        )  # fmt: skip
    heads = (
        "network", "plans", "captured", "rank correlation: all / levels / games", "simulated / measured",
        "spread of runs", "native", "greedy player", "best of the plans",
        "best by cost model, simulated", "the same, measured", "best by measured search",
    )  # fmt: skip
    return markdown_table(heads, rows)


def correlation(records: Sequence[Record]) -> float:
    """Return Spearman's correlation of simulated and measured times."""
    simulated, measured = ([record[key] for record in records] for key in ("simulated_s", "measured_s"))
    return float(spearmanr(simulated, measured).statistic)


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds with its unit."""
    return f"{1e3 * seconds:.2f} ms"


def picture(records: Sequence[Record]) -> bytes:
    """Return a PNG of simulated against measured times: a panel for each network, a point for each plan."""
    from memplace_env.report.style import new_figure, to_png

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


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--plot", type=Path, help="where to draw a picture")
    arguments = parser.parse_args()
    records, text = measured(arguments.networks)
    publish({"device": text}, arguments.write)
    if arguments.plot and records:
        write_atomically(arguments.plot, picture(records))


def measured(networks: Sequence[str]) -> tuple[list[Record], str]:
    """Return the records of these networks and their table; if there are none, as without a GPU, a sentence."""
    from memplace_env.backends.cuda.cuda import open_cuda

    RESULTS.mkdir(parents=True, exist_ok=True)
    # Relative, as the plans that are kept name the chip.
    chip, ledger = Path(os.path.relpath(RESULTS / "cuda.toml")), Ledger(RESULTS / "plans.jsonl.xz", KEY)
    device: Device | None = None
    try:
        device = open_cuda()
    except ExecutionError as error:
        print(error)
    if not chip.exists():
        if device is None:
            return [], NOT_MEASURED
        # Of all networks, as a chip that is calibrated anew for one more is another one, with no records.
        models = [word for network in dict.fromkeys([*NETWORKS, *networks]) for word in ("--model", network)]
        limits = ["--device", "cuda", "--capacity", str(CAPACITY_MIB), "--out", str(chip.resolve())]
        subprocess.run([sys.executable, "-m", "memplace", "calibrate", *limits, *models], check=True, cwd=ROOT)
    try:
        records = [
            record
            for network in networks
            for record in (measure(network, chip, device, ledger) if device else recorded(network, chip, ledger))
        ]
    except CostError as error:
        raise SystemExit(f"{error} Delete {chip} to calibrate anew.") from None
    ledger.pack()
    return records, shown(records) if records else NOT_MEASURED


def recorded(network: str, chip: Path, ledger: Ledger) -> list[Record]:
    """Return what was measured of a network on the GPU of this chip; search by the cost model for one that comes."""
    task = resolve_task(network, chip)
    best_by_model(task)
    key = network, task.accelerator.sha256
    records = [record for record in ledger.records if (record["network"], record["chip"]) == key]
    return records if any(record["plan"] == MODEL for record in records) else []


def shown(records: Sequence[Record]) -> str:
    """Return the table under the device's name."""
    return f"On {records[0]['device']}, {CAPACITY_MIB} MiB of it.\n\n{table(records)}"


def known(records: Records) -> list[Record]:
    """Return what is recorded of the chip that was calibrated last."""
    chip = load_accelerator(RESULTS / "cuda.toml").sha256
    return [
        record for network in NETWORKS for record in records if (record["network"], record["chip"]) == (network, chip)
    ]


EXPERIMENTS = [Experiment("device", __doc__, {"docs/device.md#device": shown}, known, key=KEY, ledger="device/plans")]
"""The page; `python -m benchmarks.experiments.device` measures, which needs a GPU."""


if __name__ == "__main__":
    main()

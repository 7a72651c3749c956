"""Measure parallel efficiency: batches of plans, whole runs, and the load on one driver.

`python -m benchmarks.parallel` prints Markdown and JSON, `--write docs/many-machines.md` puts the tables there.
"""

from __future__ import annotations

import json
import lzma
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.tables import benchmark_parser, markdown_table, publish
from memplace_env._lib.processes import Crew
from memplace_env._lib.threads import available_cores
from memplace_env.leaderboard.black_box import BlackBox
from memplace_env.leaderboard.executors import run_all
from memplace_env.placement.compiler import native_plan, place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import ParallelSimulator, evaluate_plan, evaluate_plans
from memplace_env.placement.task import Task

ENV_ID = "MemPlace-BERT-v0"
WORKERS = (1, 2, 4, 8)
PLANS, DELAY_S = 64, 0.05
RUNS, RUN_S, BUDGET = 24, 1.0, 1000
SMALL_TASKS = 2000


@dataclass(frozen=True)
class Waiting:
    """A run that waits, as for a chip."""

    seconds: float

    def __call__(self, number: int) -> int:
        time.sleep(self.seconds)
        return number


def searching(seed: int) -> int:
    """Return the latency of a run that keeps a core busy."""
    from memplace_agents import LocalSearch  # takes seconds to import, which runs that only wait need not pay

    solution = LocalSearch().solve(ENV_ID, budget=BUDGET, seed=seed)
    return solution.report.latency_ps if solution.report else 0


@dataclass(frozen=True)
class Returning:
    """A run that takes no time and returns the content of a leaderboard entry: a compressed plan."""

    content: bytes

    def __call__(self, number: int) -> bytes:
        return self.content


def seconds(work: Callable[[], object]) -> float:
    """Return the wall time of a call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def some_plans(task: Task, count: int) -> list[MemoryPlan]:
    """Return plans of random levels."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, task.accelerator.num_levels, size=(count, task.program.num_tensors))
    return [place_levels(task, levels).plan for levels in drawn]


def batches(task: Task, delay_s: float, count: int) -> Iterator[dict[str, Any]]:
    """Yield the seconds of a batch of plans by number of workers, which have started and know the program."""
    plans, box = some_plans(task, count), BlackBox(delay_s=delay_s)
    expected = [report.latency_ps for report in evaluate_plans(replace(task, simulator=box), plans)]
    for workers in WORKERS:
        simulator = box if workers == 1 else ParallelSimulator(box, workers)
        evaluated = replace(task, simulator=simulator)
        evaluate_plans(evaluated, plans[: 4 * workers])
        begin = time.perf_counter()
        latencies = [report.latency_ps for report in evaluate_plans(evaluated, plans)]
        spent = time.perf_counter() - begin
        if latencies != expected:
            raise SystemExit(f"{workers} workers give other latencies than one.")
        if workers > 1:
            simulator.close()
        yield {"workers": workers, "seconds": spent}


def runs(work: Callable[[int], int], ray: bool, most: int = max(WORKERS)) -> Iterator[dict[str, Any]]:
    """Yield the seconds of whole runs by number of workers, the start of the workers included."""
    for workers in [count for count in WORKERS if count <= most]:
        where = {"ray": f"local:{workers}"} if ray else {"workers": workers}
        yield {"workers": workers, "seconds": seconds(lambda: list(run_all(range(RUNS), work, **where)))}  # noqa: B023


def driver(task: Task, ray: bool) -> dict[str, float]:
    """Return the rate of runs that take no time, and the processor time that each costs the driver."""
    work = Returning(lzma.compress(native_plan(task).to_json().encode()))

    def all_results() -> tuple[float, float, int]:
        results = run_all(range(SMALL_TASKS), work, **({"ray": "local"} if ray else {"workers": 2}))
        next(results)  # the workers have started
        begin, cpu = time.perf_counter(), time.process_time()
        count = sum(1 for _ in results)
        return time.perf_counter() - begin, time.process_time() - cpu, count

    wall, cpu, count = all_results()
    return {"per_second": count / wall, "driver_cpu_ms": 1000 * cpu / count}


def batch_overhead(task: Task) -> float:
    """Return the processor time in ms that a plan in a parallel batch costs the parent: plan out, report in."""
    report = evaluate_plan(task, native_plan(task))
    with Crew(2) as crew:
        list(crew.map_unordered(Returning(b""), range(8)))
        plans = some_plans(task, 500)
        answer = partial(_same, report)
        list(crew.map_unordered(answer, plans[:8]))
        cpu = time.process_time()
        list(crew.map_unordered(answer, plans))
        return 1000 * (time.process_time() - cpu) / len(plans)


def _same(report: Any, plan: MemoryPlan) -> Any:
    return report


def sizes(task: Task) -> dict[str, int]:
    """Return the bytes of what travels between processes."""
    plan = native_plan(task)
    text = plan.to_json().encode()
    return {
        "plan_json": len(text),
        "plan_json_xz": len(lzma.compress(text)),
        "plan_pickled": len(pickle.dumps(plan)),
        "report_pickled": len(pickle.dumps(evaluate_plan(task, plan))),
        "program_pickled": len(pickle.dumps(task.program)),
    }


def measured() -> dict[str, Any]:
    """Return all measurements."""
    task: Task = gym.make(ENV_ID).unwrapped.task  # type: ignore[attr-defined]
    searching(0)  # compile
    cores = available_cores()
    return {
        "cores": cores,
        "tables": {
            f"{PLANS} plans, a black box that waits {1000 * DELAY_S:.0f} ms": list(batches(task, DELAY_S, PLANS)),
            f"{32 * PLANS} plans, a black box that computes": list(batches(task, 0.0, 32 * PLANS)),
            f"{RUNS} runs that wait {RUN_S} s, processes": list(runs(Waiting(RUN_S), ray=False)),
            f"{RUNS} runs that wait {RUN_S} s, Ray": list(runs(Waiting(RUN_S), ray=True)),
            f"{RUNS} searches of {BUDGET} plans, processes": list(runs(searching, ray=False, most=cores)),
        },
        "driver": {"processes": driver(task, ray=False), "Ray": driver(task, ray=True)},
        "batch_overhead_ms": batch_overhead(task),
        "bytes": sizes(task),
    }


def efficiency(rows: list[dict[str, Any]]) -> list[str]:
    """Return seconds and efficiency by workers: time of one worker / (workers x time)."""
    alone = rows[0]["seconds"]
    cells = [f"{row['seconds']:.2f} s, {alone / row['workers'] / row['seconds']:.0%}" for row in rows]
    return cells + [""] * (len(WORKERS) - len(cells))


def report_of(result: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    heads = ["", *(f"{workers} worker{'s' * (workers > 1)}" for workers in WORKERS)]
    table = markdown_table(heads, [[name, *efficiency(rows)] for name, rows in result["tables"].items()])
    lines = [
        [name, f"{row['per_second']:.0f}", f"{row['driver_cpu_ms']:.2f} ms", *_saturation(row["driver_cpu_ms"])]
        for name, row in result["driver"].items()
    ]
    heads = ["driver of runs that take no time", "runs/s, 2 workers", "its processor per run"]
    second = markdown_table([*heads, "workers it can feed, runs of 1 s", "of 10 s"], lines)
    sizes_text = ", ".join(f"{name.replace('_', ' ')} {size:,}" for name, size in result["bytes"].items())
    return (
        f"{result['cores']} cores.\n\n{table}\n\n{second}\n\n"
        f"Bytes of native's plan for {ENV_ID} and of what travels with it: {sizes_text}. A plan in a parallel batch "
        f"costs the parent {result['batch_overhead_ms']:.2f} ms of its processor, plan out and report in."
    )


def _saturation(driver_ms: float) -> list[str]:
    return [f"{seconds * 1000 / driver_ms:,.0f}" for seconds in (1, 10)]


def main() -> None:
    options = benchmark_parser(__doc__).parse_args()
    result = measured()
    print(json.dumps(result))
    publish({"parallel": report_of(result)}, options.write)


if __name__ == "__main__":
    main()

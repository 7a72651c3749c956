"""What more workers are worth: batches of plans, whole runs, and what one driver can keep up with.

`python -m benchmarks.parallel` prints Markdown and JSON, `--write docs/leaderboard.md` puts the tables there.
"""

from __future__ import annotations

import argparse
import json
import lzma
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.tables import markdown, write_between_markers
from memplace_env.compiler import native_plan, place_mapping
from memplace_env.leaderboard.black_box import BlackBox
from memplace_env.leaderboard.executors import run_all
from memplace_env.plan import MemoryPlan
from memplace_env.processes import Crew
from memplace_env.simulator import in_parallel, judge_plan, judge_plans
from memplace_env.task import Task
from memplace_env.threads import available_cores

ENV_ID = "MemPlace-BERT-v0"
WORKERS = (1, 2, 4, 8)
PLANS, DELAY_S = 64, 0.05
RUNS, RUN_S, BUDGET = 24, 1.0, 1000
SMALL_TASKS = 2000


@dataclass(frozen=True)
class Waiting:
    """A run that waits for something else, as for a chip."""

    seconds: float

    def __call__(self, number: int) -> int:
        time.sleep(self.seconds)
        return number


def searching(seed: int) -> int:
    """A run that keeps a core busy."""
    from agents import LocalSearch  # takes seconds to import, which runs that only wait need not pay

    solution = LocalSearch().solve(ENV_ID, budget=BUDGET, seed=seed)
    return solution.report.latency_ps if solution.report else 0


@dataclass(frozen=True)
class Returning:
    """A run that takes no time and returns what an entry of the leaderboard holds: a plan, compressed."""

    content: bytes

    def __call__(self, number: int) -> bytes:
        return self.content


def seconds(work: Callable[[], object]) -> float:
    """Wall time."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def some_plans(task: Task, count: int) -> list[MemoryPlan]:
    """Plans of random maps."""
    rng = np.random.default_rng(0)
    maps = rng.integers(0, task.accelerator.num_levels, size=(count, task.program.num_tensors))
    return [place_mapping(task, mapping).plan for mapping in maps]


def batches(task: Task, delay_s: float, count: int) -> Iterator[dict[str, Any]]:
    """A batch of plans, by one process and by more; workers have started and know the program."""
    plans, box = some_plans(task, count), BlackBox(delay_s=delay_s)
    expected = [report.latency_ps for report in judge_plans(replace(task, simulator=box), plans)]
    for workers in WORKERS:
        judge = box if workers == 1 else in_parallel(box, workers)
        judged = replace(task, simulator=judge)
        judge_plans(judged, plans[: 4 * workers])
        begin = time.perf_counter()
        said = [report.latency_ps for report in judge_plans(judged, plans)]
        spent = time.perf_counter() - begin
        if said != expected:
            raise SystemExit(f"{workers} workers say something else than one.")
        if workers > 1:
            judge.close()
        yield {"workers": workers, "seconds": spent}


def runs(work: Callable[[int], int], ray: bool, most: int = max(WORKERS)) -> Iterator[dict[str, Any]]:
    """Whole runs, the start of the workers included."""
    for workers in [each for each in WORKERS if each <= most]:
        where = {"ray": f"local:{workers}"} if ray else {"workers": workers}
        yield {"workers": workers, "seconds": seconds(lambda: list(run_all(range(RUNS), work, **where)))}  # noqa: B023


def driver(task: Task, ray: bool) -> dict[str, float]:
    """What a run that takes no time costs the process that hands them out."""
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
    """Milliseconds of the parent's processor that a plan in a parallel batch costs: plan out, report in."""
    report = judge_plan(task, native_plan(task))
    with Crew(2) as crew:
        list(crew.each(Returning(b""), range(8)))
        plans = some_plans(task, 500)
        answer = partial(_same, report)
        list(crew.each(answer, plans[:8]))
        cpu = time.process_time()
        list(crew.each(answer, plans))
        return 1000 * (time.process_time() - cpu) / len(plans)


def _same(report: Any, plan: MemoryPlan) -> Any:
    return report


def sizes(task: Task) -> dict[str, int]:
    """Bytes of what travels."""
    plan = native_plan(task)
    text = plan.to_json().encode()
    return {
        "plan_json": len(text),
        "plan_json_xz": len(lzma.compress(text)),
        "plan_pickled": len(pickle.dumps(plan)),
        "report_pickled": len(pickle.dumps(judge_plan(task, plan))),
        "program_pickled": len(pickle.dumps(task.program)),
    }


def measured() -> dict[str, Any]:
    """Everything."""
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
    """Seconds and efficiency by workers: time of one worker / (workers x time)."""
    alone = rows[0]["seconds"]
    told = [f"{row['seconds']:.2f} s, {alone / row['workers'] / row['seconds']:.0%}" for row in rows]
    return told + [""] * (len(WORKERS) - len(told))


def report_of(result: dict[str, Any]) -> str:
    """The tables."""
    heads = ["", *(f"{workers} worker{'s' * (workers > 1)}" for workers in WORKERS)]
    table = markdown(heads, [[name, *efficiency(rows)] for name, rows in result["tables"].items()])
    lines = [
        [name, f"{each['per_second']:.0f}", f"{each['driver_cpu_ms']:.2f} ms", *_saturation(each["driver_cpu_ms"])]
        for name, each in result["driver"].items()
    ]
    heads = ["driver of runs that take no time", "runs/s, 2 workers", "its processor per run"]
    second = markdown([*heads, "workers it can feed, runs of 1 s", "of 10 s"], lines)
    told = ", ".join(f"{name.replace('_', ' ')} {size:,}" for name, size in result["bytes"].items())
    return (
        f"{result['cores']} cores.\n\n{table}\n\n{second}\n\n"
        f"Bytes of native's plan for {ENV_ID} and of what travels with it: {told}. A plan in a parallel batch costs "
        f"the parent {result['batch_overhead_ms']:.2f} ms of its processor, plan out and report in."
    )


def _saturation(driver_ms: float) -> list[str]:
    return [f"{seconds * 1000 / driver_ms:,.0f}" for seconds in (1, 10)]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the document to put the tables into")
    options = parser.parse_args()
    result = measured()
    text = report_of(result)
    print(text)
    print(json.dumps(result))
    if options.write:
        write_between_markers(options.write, "parallel", text)


if __name__ == "__main__":
    main()

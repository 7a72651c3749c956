"""Execute plans of every agent, and compare the speed of executing with a plain run.

`python -m benchmarks.execution` measures what is missing in `benchmarks/results/execution.jsonl` and prints tables,
`--write docs/execution.md` puts them there. `--speed` measures the speed anew and prints it as JSON.
"""

from __future__ import annotations

import json
import math
import resource
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import gymnasium as gym

from benchmarks.ledger import Ledger, Record
from benchmarks.tables import MOST_ROWS, DataFile, benchmark_parser, markdown_table, publish
from memplace_env.backends.ort import CopyMoment, Executor
from memplace_env.backends.ort.carving import carve
from memplace_env.backends.ort.inputs import drawn_inputs
from memplace_env.backends.ort.model_constants import Constants
from memplace_env.backends.ort.sessions import runtime
from memplace_env.backends.ort.source import source_of
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.task import Task
from memplace_env.program.program import TensorKind

RESULTS = Path(__file__).parent / "results" / "execution.jsonl"
NETWORKS = (
    "MobileNetV2", "SqueezeNet", "ResNet18", "ResNet50", "ShuffleNetV2", "ELECTRA-small", "MobileNetV3", "GhostNet",
)  # fmt: skip
CHIPS = {"one-shot": "nnp-i", "game": "ethos-u65", "dynamic": "intel-npu-4000"}
IDS = {"one-shot": "MemPlace-v0", "game": "MallocGame-v0", "dynamic": "MemPlace-v0"}
BUDGET, SECONDS, LEARNING_SECONDS = 30, 4.0, 25.0
SPEED = (("ResNet50", "nnp-i"), ("BERT", "nnp-i"))
"""Network and chip; both in float32, batch 1, BERT with 128 tokens."""
RUNS = 15
HEADS = ("agent", "formulation", "networks right", "ops run", "bit-equal", "within tolerance", "copies planned",
         "time / plain run")  # fmt: skip


@cache
def executor_of(network: str, chip: str) -> Executor:
    """Return the network's executor on the chip, prepared once per process."""
    return Executor(resolve_task(network, chip))


def measured(setting: Record) -> Record:
    """Return the record of an agent's plan after a short search: two inferences for each moment of copies."""
    from memplace_agents.registry import agent_specs

    formulation = setting["formulation"]
    executor = executor_of(setting["network"], CHIPS[formulation])
    spec = agent_specs()[setting["agent"]]
    limit = LEARNING_SECONDS if spec.learns else SECONDS
    env = gym.make(f"memplace_env:{IDS[formulation]}", workload=executor.task).unwrapped
    try:
        plan = spec.make().solve(env, budget=BUDGET, seed=0, time_limit=limit).plan
    except Exception as error:  # the record names an agent that fails
        return {**setting, "ops": executor.task.program.num_ops, "failed": f"{type(error).__name__}: {error}"}
    if plan is None:
        return {**setting, "ops": executor.task.program.num_ops, "failed": "no plan"}
    runs = [
        executor.run(plan, inferences=2, copies=copies)
        for copies in (CopyMoment if len(plan.transfers) else [CopyMoment.LATEST])
    ]
    return {
        **setting,
        "ops": executor.task.program.num_ops,
        "copies": len(plan.transfers),
        "ran": sum(run.ops for run in runs),
        "bit_equal": sum(run.bit_equal for run in runs),
        "near": sum(run.within_tolerance for run in runs),
        "right": all(run.right for run in runs),
        "seconds": statistics.median(second for run in runs for second in run.seconds),
        "plain_seconds": executor.plain_seconds,
    }


def settings() -> list[Record]:
    """Return every agent on every network, in each of its formulations."""
    from memplace_agents.registry import agent_specs

    return [
        {"network": network, "formulation": str(formulation), "agent": name}
        for network in NETWORKS
        for name, spec in agent_specs().items()
        for formulation in spec.formulations
    ]


def speed(network: str, chip: str) -> Record:
    """Return times of executing and of plain sessions, with and without ONNX Runtime's optimisations.

    It needs a process of its own, as it measures the peak of memory.
    """
    task = resolve_task(network, chip)
    before = peak_mb()
    executor = Executor(task)
    executed = executor.run(native_plan(task), inferences=RUNS)
    peak = peak_mb() - before
    return {
        "network": network,
        "chip": chip,
        "right": executed.right,
        "setup_s": executor.setup_seconds + executor.plain_seconds,
        "executed_s": statistics.median(executed.seconds),
        **plain_seconds(task),
        "arenas_mb": executor.arena_bytes / 1e6,
        "peak_mb": peak,
    }


def plain_seconds(task: Task) -> dict[str, float]:
    """Return median seconds of a session of the whole model, on one thread, with and without optimisations."""
    source = source_of(task)
    constants = Constants(source, 0)
    outputs = [name for name in source.outputs if not source.value(name).constant]
    inputs = [task.program.tensor_value[tensor] for tensor in source.tensors(TensorKind.INPUT)]
    carved = carve(source, outputs, frozenset(inputs), constants.__getitem__)
    feeds = drawn_inputs(source, carved.inputs, 0)
    medians = {}
    levels = runtime().GraphOptimizationLevel
    for key, level in (("plain_s", levels.ORT_DISABLE_ALL), ("plain_optimised_s", levels.ORT_ENABLE_ALL)):
        options = runtime().SessionOptions()
        options.graph_optimization_level = level
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = runtime().InferenceSession(carved.model.SerializeToString(), options)
        medians[key] = statistics.median([timed(session, outputs, feeds) for _ in range(RUNS)])
    return medians


def timed(session: object, outputs: list[str], feeds: Record) -> float:
    """Return the seconds of one run."""
    began = time.perf_counter()
    session.run(outputs, feeds)  # type: ignore[attr-defined]
    return time.perf_counter() - began


def peak_mb() -> float:
    """Return the peak of this process's resident memory in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def table(records: list[Record]) -> str:
    """Return a Markdown table of the agents whose plans have most copies: networks, and bit-equal runs of ops."""
    rows = sorted(agents_file(records).rows, key=lambda row: -row[6])[:MOST_ROWS]
    return markdown_table(HEADS, [[*row[:3], *(f"{n:,}" for n in row[3:7]), f"{row[7]:.2f}"] for row in rows])


def agents_file(records: list[Record]) -> DataFile:
    """Return a table with a row for each agent and formulation."""
    rows: list[list[Any]] = []
    for name, formulation in dict.fromkeys((record["agent"], record["formulation"]) for record in records):
        mine = [record for record in records if (record["agent"], record["formulation"]) == (name, formulation)]
        done = [record for record in mine if "failed" not in record]
        counts = [sum(record[key] for record in done) for key in ("ran", "bit_equal", "near", "copies")]
        slower = [record["seconds"] / record["plain_seconds"] for record in done]
        right = f"{sum(record['right'] for record in done)} of {len(mine)}"
        rows.append([name, formulation, right, *counts, round(statistics.median(slower), 4) if slower else math.nan])
    return DataFile(HEADS, rows)


def network_table(records: list[Record]) -> str:
    """Return a Markdown table with a row for each network: ops, plans, right and bit-equal ones, times."""
    rows = []
    for network in NETWORKS:
        done = [record for record in records if record["network"] == network and "failed" not in record]
        if done:
            equal = sum(record["bit_equal"] == record["ran"] for record in done)
            times = [f"{statistics.median(r[key] for r in done) * 1e3:.0f} ms" for key in ("plain_seconds", "seconds")]
            ops = "–".join(str(n) for n in sorted({record["ops"] for record in done}))
            rows.append([network, ops, str(len(done)), str(sum(r["right"] for r in done)), str(equal), *times])
    heads = ("network", "ops", "plans", "right", "bit-equal throughout", "plain run", "executed")
    return markdown_table(heads, rows)


def speed_table(records: list[Record]) -> str:
    """Return a Markdown table of speeds with a row for each network."""
    heads = ("network", "right", "plain, as it is", "plain, optimised", "executed", "/ plain", "/ optimised",
             "set-up", "arenas", "peak memory")  # fmt: skip
    rows = [
        [
            record["network"], "yes" if record["right"] else "no",
            *(f"{1e3 * record[key]:.0f} ms" for key in ("plain_s", "plain_optimised_s", "executed_s")),
            *(f"{record['executed_s'] / record[key]:.2f}" for key in ("plain_s", "plain_optimised_s")),
            f"{record['setup_s']:.1f} s",
            f"{record['arenas_mb']:.0f} MB", f"{record['peak_mb']:.0f} MB",
        ]
        for record in records
    ]  # fmt: skip
    return markdown_table(heads, rows)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--saved", action="store_true", help="measure nothing")
    parser.add_argument("--speed", action="store_true", help="measure the speed alone")
    arguments = parser.parse_args()
    spawned = get_context("spawn")
    if arguments.speed:
        speeds = []
        for subject in SPEED:  # each in a process of its own, for the sake of the peak
            with ProcessPoolExecutor(1, mp_context=spawned) as pool:
                speeds.append(pool.submit(speed, *subject).result())
        print(json.dumps(speeds, indent=2))
        publish({"execution-speed": speed_table(speeds)}, arguments.write)
        return
    ledger = Ledger(RESULTS, ("network", "formulation", "agent"))
    if arguments.saved:
        records = ledger.records
    else:
        with ProcessPoolExecutor(1, mp_context=spawned) as pool:
            records = ledger.complete(settings(), measured, pool, lambda record: "failed" not in record)
    tables = {"execution-networks": network_table(records), "execution-agents": table(records)}
    publish(tables, arguments.write, {"execution-agents.csv": agents_file(records)})


if __name__ == "__main__":
    main()

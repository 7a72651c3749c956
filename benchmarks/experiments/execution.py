"""Plans of every agent, executed by ONNX Runtime, and the speed of executing beside a plain run."""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import gymnasium as gym

from benchmarks.harness import Columns, Experiment, Records, data, field, table
from benchmarks.ledger import Record
from memplace_env.backends.ort import CopyMoment, Executor
from memplace_env.backends.ort.carving import carve
from memplace_env.backends.ort.inputs import drawn_inputs
from memplace_env.backends.ort.model_constants import Constants
from memplace_env.backends.ort.sessions import runtime
from memplace_env.backends.ort.source import source_of
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.task import Task
from memplace_env.program.model_file import as_written
from memplace_env.program.program import TensorKind

NETWORKS = (
    "MobileNetV2", "SqueezeNet", "ResNet18", "ResNet50", "ShuffleNetV2", "ELECTRA-small", "MobileNetV3", "GhostNet",
)  # fmt: skip
CHIPS = {"one-shot": "nnp-i", "steps": "nnp-i", "game": "ethos-u65", "dynamic": "intel-npu-4000"}
IDS = {"one-shot": "MemPlace-v0", "steps": "MemPlaceSteps-v0", "game": "MallocGame-v0", "dynamic": "MemPlace-v0"}
BUDGET, SECONDS, LEARNING_SECONDS = 30, 4.0, 25.0
SPEED = (("ResNet50", "nnp-i"), ("BERT", "nnp-i"))
"""Network and chip; both in float32, batch 1, BERT with 128 tokens."""
RUNS = 15


@cache
def executor_of(network: str, chip: str) -> Executor:
    """Return the network's executor on the chip, prepared once per process."""
    return Executor(resolve_task(network, chip, **as_written(chip)))


def measure(setting: Record) -> Record:
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


def settings(records: Records = ()) -> list[Record]:
    """Return every agent on every network, in each of its formulations."""
    from memplace_agents.registry import agent_specs

    return [
        {"network": network, "formulation": str(formulation), "agent": name}
        for network in NETWORKS
        for name, spec in agent_specs().items()
        for formulation in spec.formulations
    ]


def speed(setting: Record) -> Record:
    """Return times of executing and of plain sessions, with and without ONNX Runtime's optimisations.

    It needs a process of its own, as it measures the peak of memory.
    """
    task = resolve_task(setting["network"], setting["chip"], **as_written(setting["chip"]))
    before = peak_mb()
    executor = Executor(task)
    executed = executor.run(native_plan(task), inferences=RUNS)
    peak = peak_mb() - before
    return {
        **setting,
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


def by_agent(records: Records) -> list[dict[str, Any]]:
    """Return a row for each agent and formulation: networks whose plans run right, and sums over these."""
    rows = []
    for name, formulation in dict.fromkeys((record["agent"], record["formulation"]) for record in records):
        mine = [record for record in records if (record["agent"], record["formulation"]) == (name, formulation)]
        done = [record for record in mine if "failed" not in record]
        slower = [record["seconds"] / record["plain_seconds"] for record in done]
        rows.append(
            {
                "agent": name,
                "formulation": formulation,
                "right": f"{sum(record['right'] for record in done)} of {len(mine)}",
                **{key: sum(record[key] for record in done) for key in ("ran", "bit_equal", "near", "copies")},
                "slower": round(statistics.median(slower), 4) if slower else math.nan,
            }
        )
    return rows


AGENTS: Columns = {
    "agent": field("agent"),
    "formulation": field("formulation"),
    "networks right": field("right"),
    "ops run": field("ran"),
    "bit-equal": field("bit_equal"),
    "within tolerance": field("near"),
    "copies planned": field("copies"),
    "time / plain run": field("slower"),
}


def by_network(records: Records) -> list[Records]:
    """Return the plans that were executed, network by network."""
    done = [[r for r in records if r["network"] == network and "failed" not in r] for network in NETWORKS]
    return [found for found in done if found]


def median_ms(key: str) -> Callable[[Records], str]:
    """Return a cell: the median of some seconds."""
    return lambda found: f"{statistics.median(r[key] for r in found) * 1e3:.0f} ms"


EXPERIMENTS = [
    Experiment(
        "execution",
        __doc__,
        {
            "docs/trust.md#execution-networks": table(
                {
                    "network": lambda found: found[0]["network"],
                    "ops": lambda found: "–".join(str(n) for n in sorted({r["ops"] for r in found})),
                    "plans": len,
                    "right": lambda found: sum(r["right"] for r in found),
                    "bit-equal throughout": lambda found: sum(r["bit_equal"] == r["ran"] for r in found),
                    "plain run": median_ms("plain_seconds"),
                    "executed": median_ms("seconds"),
                },
                by_network,
            ),
            "docs/data/execution-agents.csv": data(AGENTS, by_agent),
        },
        settings,
        measure,
        key=("network", "formulation", "agent"),
        finished=lambda record: "failed" not in record,
    ),
    Experiment(
        "execution-speed",
        speed.__doc__ or "",
        {
            "docs/trust.md#execution-speed": table(
                {
                    "network": field("network"),
                    "right": lambda record: "yes" if record["right"] else "no",
                    "plain, as it is": field("plain_s", ".0f", 1e3, " ms"),
                    "plain, optimised": field("plain_optimised_s", ".0f", 1e3, " ms"),
                    "executed": field("executed_s", ".0f", 1e3, " ms"),
                    "set-up": field("setup_s", ".1f", unit=" s"),
                    "peak memory": field("peak_mb", ".0f", unit=" MB"),
                }
            )
        },
        lambda records: [{"network": network, "chip": chip} for network, chip in SPEED],
        speed,
        key=("network", "chip"),
        alone=True,
    ),
]

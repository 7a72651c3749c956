"""Processor time and memory of reading a program and of compiling it without a search, against its number of ops.

Every stage of every program runs in a process of its own, after a small program that compiles the kernels.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from benchmarks.harness import Columns, Experiment, Records, data, field, table
from benchmarks.ledger import Record
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.compiler.density import density_greedy
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.task import Task
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.frontends.onnx import load_onnx
from memplace_env.program.program import Program

WIDTH: Final = 256
SHAPES: Final = {"MatMul": (WIDTH, WIDTH), "Add": (WIDTH,)}
"""Shape of the weight of each operator that has one."""
SMALL: Final = 24
"""Ops of the program that compiles the kernels."""
PROGRAMS: Final[dict[str, tuple[tuple[int, ...], tuple[str, ...]]]] = {
    "onnx-chain": ((3_000, 10_000, 30_000), ("load",)),
    "onnx-training": ((3_000, 10_000, 30_000), ("load", "native", "native-streamed", "density")),
    "onnx-sum": ((2_000, 6_000, 20_000), ("load", "native", "density")),
    "random": ((1_000, 10_000, 30_000), ("load", "native", "native-streamed", "density")),
}
"""Sizes and stages by the kind of the program: a file of `write_onnx`, or a synthetic one."""
NOISE_S: Final = 0.003
"""Seconds below this are noise."""


class _File:
    """Nodes and weights of an ONNX file that is written; weights have no bytes."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def weight(self, operator: str) -> str:
        """Return the name of a new weight of an operator."""
        weight = TensorProto(name=f"w{len(self.weights)}", data_type=TensorProto.FLOAT, dims=SHAPES[operator])
        weight.data_location = TensorProto.EXTERNAL
        self.weights.append(weight)
        return weight.name

    def node(self, operator: str, *operands: str) -> str:
        """Return the name of the result of a new node."""
        index = len(self.nodes)
        self.nodes.append(helper.make_node(operator, operands, [f"v{index}"], name=f"n{index}"))
        return f"v{index}"


def write_onnx(kind: str, nodes: int, path: Path) -> None:
    """Write a file of so many nodes.

    "chain": products, shifts and activations in a row. "training": layers of a product and an activation, then
    backwards for each layer the gradients of its activation, of its weight, which is an output, and of its input, so
    that two results of each layer live until its gradients are made; shifts fill up the nodes. "sum": activations of
    one input, all added by the last node.
    """
    file, outputs = _File(), list[str]()
    shape = (WIDTH, WIDTH)
    last = "x"
    if kind == "sum":
        last = file.node("Sum", *(file.node("Relu", "x") for _ in range(nodes - 1)))
    elif kind == "training":
        layers = []
        for _ in range(nodes // 5):
            layers.append((last, file.weight("MatMul")))
            last = file.node("Relu", file.node("MatMul", *layers[-1]))
        for index in reversed(range(len(layers))):
            operand, weight = layers[index]
            gradient = file.node("Mul", last, f"v{2 * index + 1}")
            outputs.append(file.node("MatMul", operand, gradient))
            last = file.node("MatMul", gradient, weight)
    for index in range(len(file.nodes), nodes):
        operator = "Add" if kind == "training" else ("MatMul", "Add", "Relu")[index % 3]
        last = file.node(operator, last, *([] if operator == "Relu" else [file.weight(operator)]))
    declared = [_declared(name, shape) for name in (*outputs, last)]
    graph = helper.make_graph(file.nodes, kind, [_declared("x", shape)], declared, file.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def _declared(name: str, shape: tuple[int, ...]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _prepared(run: Record, ops: int, folder: Path) -> Callable[[], Any]:
    """Return a run's stage on a program of so many ops, with all of its inputs."""
    kind, stage = run["kind"], run["stage"]
    load: Callable[[], Program] = partial(resolve_workload, f"synthetic:{kind}?ops={ops}")
    if kind.startswith("onnx-"):
        write_onnx(kind.removeprefix("onnx-"), ops, folder / f"{ops}.onnx")
        # Unfused, so that a program has as many ops as its file has nodes.
        load = partial(load_onnx, folder / f"{ops}.onnx", dtype="int8", fusion="none")
    if stage == "load":
        return load
    chip, compiled = STAGES[stage]
    return partial(compiled, resolve_task(load(), chip, costs="roofline", must_fit=False))


STAGES: Final[dict[str, tuple[str, Callable[[Task], MemoryPlan]]]] = {
    "native": ("nnp-i", native_plan),
    "native-streamed": ("tpu-v4i", native_plan),
    "density": ("nnp-i", density_greedy),
}
"""Chip of each stage, nnp-i with resident and tpu-v4i with streamed weights, and what compiles the task."""


def measure(run: Record) -> Record:
    """Return processor seconds of one call, kernels compiled, and the MB by which it raised the peak of its memory."""
    with TemporaryDirectory() as folder:
        _prepared(run, SMALL, Path(folder))()
        call = _prepared(run, run["ops"], Path(folder))
        # Where the system allows it, reset the peak, which compiling may have raised.
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        before, begin = _peak_kb(), time.process_time()
        call()
        return {**run, "seconds": time.process_time() - begin, "mb": (_peak_kb() - before) / 1024}


def _peak_kb() -> int:
    """Return the peak of this process's resident memory; `getrusage` also counts that of the parent process."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def cell(runs: Records) -> str:
    """Return the seconds at the largest size, and the slope of log(seconds) against log(ops) if there are three."""
    if not runs:
        return "–"
    text = f"{runs[-1]['seconds']:.3g} s" if runs[-1]["seconds"] > NOISE_S else "< 3 ms"
    points = [(run["ops"], run["seconds"]) for run in runs if run["seconds"] > NOISE_S]
    if len(points) < 3:
        return text
    return f"{text}, n^{np.polyfit(*np.log(np.array(points)).T, 1)[0]:.2f}"


def by_stage(records: Records) -> list[tuple[str, dict[str, list[Record]]]]:
    """Return the runs of each stage by kind."""
    stages = dict.fromkeys(stage for _, stages in PROGRAMS.values() for stage in stages)
    return [
        (stage, {kind: [r for r in records if (r["kind"], r["stage"]) == (kind, stage)] for kind in PROGRAMS})
        for stage in stages
    ]


def columns(rows: list[tuple[str, dict[str, list[Record]]]]) -> Columns:
    """Return a column for each kind of program."""

    def of(kind: str) -> Callable[[tuple[str, dict[str, list[Record]]]], str]:
        return lambda row: cell(row[1][kind])

    kinds = {f"{kind}, {max(sizes):,} ops": of(kind) for kind, (sizes, _) in PROGRAMS.items()}
    return {"stage": lambda row: row[0], **kinds}


EXPERIMENTS = [
    Experiment(
        "scale",
        __doc__,
        {
            "docs/trust.md#scale": table(columns, by_stage),
            "docs/data/scale.csv": data(
                {
                    "kind": field("kind"),
                    "ops": field("ops"),
                    "stage": field("stage"),
                    "seconds": field("seconds", ".4g"),
                    "mb": field("mb", ".4g"),
                }
            ),
        },
        lambda records: [
            {"kind": kind, "ops": ops, "stage": stage}
            for kind, (sizes, stages) in PROGRAMS.items()
            for ops, stage in product(sizes, stages)
        ],
        measure,
        key=("kind", "ops", "stage"),
        alone=True,
    )
]

"""What `benchmarks.scale` measures: programs of any number of ops, and the stages that they go through.

Run as a module it measures one stage in this process and prints it as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from agents.exact.dynamic.bound import linear_bound_ps
from memplace_env.compiler import native_plan
from memplace_env.compiler.density import density_greedy
from memplace_env.costs import Costs, costs_of, resolve_cost_model
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.plan import MemoryPlan, violations
from memplace_env.resolve import resolve_task
from memplace_env.simulator import Report, time_plan, traffic_bound_ps
from memplace_env.task import Task
from memplace_env.workload.onnx import load_onnx
from memplace_env.workload.program import Program
from memplace_env.workload.resolve import resolve_workload

RESIDENT, STREAMED = "nnp-i", "tpu-v4i"
"""Chips that weights stay on, and that they are streamed to."""
WIDTH: Final = 256
BOUND_SECONDS: Final = 20.0
"""What the linear bound may take; it is 0 if that does not suffice."""
SHAPES: Final = {"MatMul": (WIDTH, WIDTH), "Add": (WIDTH,), "Conv": (WIDTH, WIDTH, 1, 1)}
"""Of the weights that each operator of the files has, where it has any."""


def write_onnx(kind: str, nodes: int, path: Path) -> None:
    """A file of so many nodes, whose weights have no bytes.

    "chain": products, shifts and activations in a row. "residual": convolutions in blocks of four nodes, of which the
    last adds the block's own input.
    """
    made: list[NodeProto] = []
    initializers: list[TensorProto] = []
    shape = (WIDTH, WIDTH) if kind == "chain" else (1, WIDTH, 16, 16)
    entry = last = "x"
    for index in range(nodes):
        if kind == "chain":
            operator = ("MatMul", "Add", "Relu")[index % 3]
        else:
            operator = ("Conv", "Relu", "Conv", "Residual")[index % 4]
        operands = [last]
        if operator in SHAPES:
            weight = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=SHAPES[operator])
            weight.data_location = TensorProto.EXTERNAL
            initializers.append(weight)
            operands.append(weight.name)
        elif operator == "Residual":
            operands.append(entry)
        last = f"v{index}"
        made.append(helper.make_node("Add" if operator == "Residual" else operator, operands, [last], name=f"n{index}"))
        if operator == "Residual":
            entry = last
    graph = helper.make_graph(made, kind, [_declared("x", shape)], [_declared(last, shape)], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def _declared(name: str, shape: tuple[int, ...]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def spec(kind: str, ops: int) -> str:
    """The text of a synthetic program."""
    return f"synthetic:{kind}?ops={ops}"


def prepared(stage: str, folder: Path) -> Callable[[], Any]:
    """The stage with all that it needs at hand but kernels, which it compiles at its first call.

    Args:
        stage: a key of `STAGES`.
        folder: holds `source.json`, what the program comes from, and what earlier stages left.
    """
    source = json.loads((folder / "source.json").read_text())
    if stage == "load":
        if source["path"] is None:
            return partial(resolve_workload, source["name"])
        # Unfused, so that a program has as many ops as its file has nodes.
        settings = {"dtype": "int8", "fusion": "none", "batch": source["batch"], "dims": source["dims"]}
        return partial(load_onnx, source["path"], **settings)
    program: Program = pickle.loads((folder / "program.pickle").read_bytes())
    chip = STREAMED if stage in ON_STREAMED else RESIDENT
    if stage in ("roofline", "tiled"):
        accelerator = resolve_task(program, chip, costs="roofline", must_fit=False).accelerator
        return partial(costs_of, resolve_cost_model(stage), program, accelerator)
    task = resolve_task(program, chip, costs="roofline", must_fit=False)
    if stage.startswith(("simulate", "validate")):
        of = folder / f"{stage.split()[1]}.plan.pickle"
        return partial(STAGES[stage], task, pickle.loads(of.read_bytes()))
    return partial(STAGES[stage], task)


def _native(task: Task) -> MemoryPlan:
    return native_plan(task)


def _random_game(task: Task) -> MemoryPlan:
    problem = MallocGameProblem(task)
    states = problem.new_states(1)
    problem.finish_randomly(states, seed=0)
    return problem.plan(states[0])


def _greedy_game(task: Task) -> MemoryPlan:
    problem = MallocGameProblem(task)
    states = problem.new_states(1)
    problem.finish_greedily(states)
    return problem.plan(states[0])


def _linear(task: Task) -> int:
    return linear_bound_ps(task, BOUND_SECONDS)


STAGES: Final[dict[str, Callable[..., Any]]] = {
    "load": load_onnx,
    "roofline": costs_of,
    "tiled": costs_of,
    "native": _native,
    "native-streamed": _native,
    "density": density_greedy,
    "random-game": _random_game,
    "greedy-game": _greedy_game,
    "simulate density": time_plan,
    "simulate random-game": time_plan,
    "validate density": violations,
    "validate random-game": violations,
    "traffic bound": traffic_bound_ps,
    "linear bound": _linear,
}
"""In the order in which they run: plans are judged after they are made."""
ON_STREAMED: Final = frozenset(
    ["native-streamed", "random-game", "greedy-game", "simulate random-game", "validate random-game"]
)
KEPT: Final = {"load": "program.pickle", "density": "density.plan.pickle", "random-game": "random-game.plan.pickle"}
"""What later stages need of a stage's result."""


def run_stage(stage: str, folder: Path) -> dict[str, float | int | str]:
    """Seconds of one call, kernels compiled, and the MB by which it raised the most resident memory.

    The kernels are compiled by a small program, which comes in the folder `small`.
    """
    if folder.name != "small":
        prepared(stage, folder.parent / "small")()
    run = prepared(stage, folder)
    # Where the system can, forget the memory that compiling took.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before = _most_resident_kb()
    begin = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - begin
    grown = _most_resident_kb() - before
    if stage in KEPT:
        (folder / KEPT[stage]).write_bytes(pickle.dumps(result))
    figures: dict[str, float | int | str] = {"seconds": seconds, "mb": grown / 1024}
    if stage == "load":
        figures["ops"] = result.num_ops
    if stage.startswith("validate"):
        figures["violations"] = len(result)
    if stage.endswith("bound"):
        figures["bound_ps"] = int(result)
    if isinstance(result, Program | Costs | MemoryPlan | Report):
        figures["digest"] = _digest(result)
    return figures


def _most_resident_kb() -> int:
    """The most memory that this process has had; `getrusage` also counts that of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _digest(result: Any) -> str:
    """A short hash of what a stage made, to tell two versions of the code apart by."""
    if isinstance(result, Program):
        return result.sha256[:12]
    digest = hashlib.sha256()
    for value in vars(result).values() if isinstance(result, MemoryPlan | Report) else result:
        if isinstance(value, np.ndarray):
            digest.update(value.tobytes())
    return digest.hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    json.dump(run_stage(arguments.stage, arguments.folder), sys.stdout)


if __name__ == "__main__":
    main()

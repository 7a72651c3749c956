"""Programs of any number of ops, and the stages that `benchmarks.scale` measures on them.

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

from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic.lp_bound import linear_bound
from memplace_agents.search.evaluator import GameEvaluator
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.machine.costs import Costs, costs_of, resolve_cost_model
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.compiler.density import density_greedy
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import Report, time_plan, traffic_bound_ps
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.frontends.onnx import load_onnx
from memplace_env.program.program import Program

RESIDENT, STREAMED = "nnp-i", "tpu-v4i"
"""Chips with resident and with streamed weights."""
WIDTH: Final = 256
BOUND_SECONDS: Final = 20.0
"""Time limit of the linear bound, which is 0 if it does not suffice."""
SHAPES: Final = {"MatMul": (WIDTH, WIDTH), "Add": (WIDTH,), "Conv": (WIDTH, WIDTH, 1, 1)}
"""Shape of the weight of each operator that has one."""


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

    "chain": products, shifts and activations in a row. "residual": convolutions in blocks of four nodes, of which the
    last adds the block's own input. "training": layers of a product and an activation, then backwards for each layer
    the gradients of its activation, of its weight, which is an output, and of its input, so that two results of each
    layer live until its gradients are made; shifts fill up the nodes. "sum": activations of one input, all added by
    the last node.
    """
    file, outputs = _File(), list[str]()
    shape = (1, WIDTH, 16, 16) if kind == "residual" else (WIDTH, WIDTH)
    last = entry = "x"
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
        if kind == "residual":
            operator = ("Conv", "Relu", "Conv", "Add")[index % 4]
        else:
            operator = "Add" if kind == "training" else ("MatMul", "Add", "Relu")[index % 3]
        if operator == "Relu":
            last = file.node(operator, last)
        elif (kind, operator) == ("residual", "Add"):
            last = entry = file.node(operator, last, entry)
        else:
            last = file.node(operator, last, file.weight(operator))
    declared = [_declared(name, shape) for name in (*outputs, last)]
    graph = helper.make_graph(file.nodes, kind, [_declared("x", shape)], declared, file.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def _declared(name: str, shape: tuple[int, ...]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def spec(kind: str, ops: int) -> str:
    """Return the name of a synthetic program."""
    return f"synthetic:{kind}?ops={ops}"


def prepared(stage: str, folder: Path) -> Callable[[], Any]:
    """Return the stage with all of its inputs; its first call compiles kernels.

    Args:
        stage: a key of `STAGES`.
        folder: has `source.json`, the source of the program, and the results of earlier stages.
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
        plan = folder / f"{stage.split()[1]}.plan.pickle"
        return partial(STAGES[stage], task, pickle.loads(plan.read_bytes()))
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
    evaluator = GameEvaluator(MallocGameEnv(task), budget=1, time_limit=BOUND_SECONDS)
    return linear_bound(task, Clock.of(evaluator)).bound_ps


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
"""Functions of the stages in the order in which they run: a plan is made before it is simulated."""
ON_STREAMED: Final = frozenset(
    ["native-streamed", "random-game", "greedy-game", "simulate random-game", "validate random-game"]
)
SAVED: Final = {"load": "program.pickle", "density": "density.plan.pickle", "random-game": "random-game.plan.pickle"}
"""File of a stage's result, for later stages."""


def run_stage(stage: str, folder: Path) -> dict[str, float | int | str]:
    """Return processor seconds of one call, kernels compiled, and the MB by which it raised the peak of its memory.

    The kernels are compiled by a small program, which is in the folder `small`.
    """
    if folder.name != "small":
        prepared(stage, folder.parent / "small")()
    run = prepared(stage, folder)
    # Where the system allows it, reset the peak, which compiling may have raised.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before = _most_resident_kb()
    begin = time.process_time()
    result = run()
    seconds = time.process_time() - begin
    grown = _most_resident_kb() - before
    if stage in SAVED:
        (folder / SAVED[stage]).write_bytes(pickle.dumps(result))
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
    """Return the peak of this process's resident memory; `getrusage` also counts that of the parent process."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _digest(result: Any) -> str:
    """Return a short hash of a stage's result, to compare two versions of the code."""
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

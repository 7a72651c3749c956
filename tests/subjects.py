"""Plans and games that tests of what is shown of them share."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Ints, Program, TensorKind
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan

SRAM, DRAM = 0, 1


class Subject(NamedTuple):
    """A task and a plan for it."""

    task: Task
    evaluated: EvaluatedPlan


def subject_of(task: Task, plan: MemoryPlan) -> Subject:
    """The plan with its report."""
    return Subject(task, EvaluatedPlan(plan, evaluate_plan(task, plan)))


@cache
def plan_with_copies() -> Subject:
    """Six layers on ethos-u65; h0 is written back and fetched again, w2 comes too late, y ends in the tail."""
    builder = ProgramBuilder("copies $x$ \u65e5 [bold]", "int8")
    x = builder.tensor("x", 60_000, TensorKind.INPUT)
    weights = [builder.tensor(f"w{op}", 90_000, TensorKind.WEIGHT) for op in range(6)]
    hidden = [builder.tensor(f"h{op}", 70_000) for op in range(5)]
    y = builder.tensor("y", 50_000, TensorKind.OUTPUT)
    for op, result in enumerate([*hidden, y]):
        reads = [hidden[op - 1] if op else x, weights[op], *([hidden[0]] if op == 5 else [])]
        builder.op("Gemm", reads, [result], gemm=(1, 64 * (op + 1), 256, 800), name=f"layer[{op}]")
    task = make_task(builder.build(), load_accelerator("ethos-u65"), costs="roofline")
    h0, w2, w3 = hidden[0], weights[2], weights[3]
    served = {(0, h0), (1, h0), (5, h0), (2, w2), (3, w3), (5, y)}
    uses = zip(task.program.use_op.tolist(), task.program.use_tensor.tolist(), strict=True)
    use_level = [SRAM if use in served else DRAM for use in uses]
    blocks = [(h0, 0, 0, 0, 3), (h0, 0, 0, 4, 5), (w2, 0, 100_000, 1, 2), (w3, 0, 200_000, 1, 3), (y, 0, 100_000, 5, 6)]
    transfers = [
        (h0, SRAM, DRAM, 1, 3),
        (h0, DRAM, SRAM, 4, 4),
        (w2, DRAM, SRAM, 1, 1),
        (w3, DRAM, SRAM, 1, 2),
        (y, SRAM, DRAM, 6, 6),
    ]
    found = subject_of(task, task.make_plan(np.array(use_level), np.array(blocks), np.array(transfers)))
    assert found.evaluated.report.stall_ps.any()
    assert found.evaluated.report.tail_ps > 0
    return found


def all_in(task: Task, level: int) -> EvaluatedPlan:
    """The plan in which every tensor asks for that level."""
    plan = place_levels(task, np.full(task.program.num_tensors, level)).plan
    return EvaluatedPlan(plan, evaluate_plan(task, plan))


def relu_task() -> Task:
    """Two ops on nnp-i, no weights."""
    builder = ProgramBuilder("relu", "int8")
    x, h, y = (
        builder.tensor(name, 1000, kind)
        for name, kind in (("x", TensorKind.INPUT), ("h", TensorKind.ACTIVATION), ("y", TensorKind.OUTPUT))
    )
    builder.op("Relu", [x], [h], vector_ops=1000)
    builder.op("Relu", [h], [y], vector_ops=1000)
    return make_task(builder.build(), load_accelerator("nnp-i"), costs="roofline")


def small_game(shape: str = "diamond", ops: int = 9, seed: int = 1) -> MallocGameProblem:
    """The game of a synthetic program on tpu-v4i."""
    chip = "" if shape == "random" else "&accelerator=tpu-v4i"
    program = resolve_workload(f"synthetic:{shape}?ops={ops}&seed={seed}{chip}")
    return MallocGameProblem(make_task(program, load_accelerator("tpu-v4i")))


def play_randomly(problem: MallocGameProblem, decisions: int, seed: int = 0, favoured: int | None = None) -> Ints:
    """The state after so many random decisions; `favoured` is played wherever it is legal."""
    rng, states = np.random.default_rng(seed), problem.new_states(1)
    for _ in range(decisions):
        legal = np.flatnonzero(problem.legal(states)[0])
        wanted = favoured if favoured in legal else int(rng.choice(legal))
        problem.play(states, np.array([wanted]))
    state: Ints = states[0]
    return state


def layers_of_rows() -> Program:
    """Four layers with activations of 3 MiB in 8 rows and weights of 2 MiB in 16 rows."""
    builder = ProgramBuilder("layers", "int8")
    before = builder.tensor("x", 3 * 2**20, TensorKind.INPUT)
    for op in range(4):
        weight = builder.tensor(f"layer.{op}.weight", 2**21, TensorKind.WEIGHT, rows=(1, 16))
        kind = TensorKind.OUTPUT if op == 3 else TensorKind.ACTIVATION
        result = builder.tensor(f"layer.{op}.result", 3 * 2**20, kind, rows=(1, 8))
        builder.op("Gemm", [before, weight], [result], gemm=(1, 2**11, 1024, 2**11), name=f"layer.{op}")
        before = result
    return builder.build()


@cache
def sliced_layers() -> Subject:
    """`layers_of_rows` on nnp-i, in slices of up to 384 KiB; parts of three tensors are in SRAM."""
    task = resolve_task(layers_of_rows(), "nnp-i", slices=0.1)
    levels = np.full(task.program.num_tensors, DRAM + 1)
    names = task.program.tensor_name
    for tensor, share in (("layer.0.weight", 0.5), ("layer.0.result", 0.75), ("layer.2.result", 0.375)):
        slices = [number for number, name in enumerate(names) if name.startswith(f"{tensor}[")]
        levels[slices[: int(share * len(slices))]] = SRAM
    return subject_of(task, place_levels(task, levels).plan)


@cache
def copied_slices() -> Subject:
    """`layers_of_rows` on edge-tpu-streamed: three adjoining slices of a weight of the second layer are copied in."""
    task = resolve_task(layers_of_rows(), "edge-tpu-streamed", slices=0.05)
    program = task.program
    slices = [number for number, name in enumerate(program.tensor_name) if name.startswith("layer.1.weight[")][:3]
    offsets = np.cumsum([0, *program.tensor_bytes[slices]])[:-1]
    use_level = np.where(np.isin(program.use_tensor, slices), SRAM, DRAM)
    blocks = np.array([(tensor, SRAM, at, 0, 1) for tensor, at in zip(slices, offsets, strict=True)])
    copies = np.array([(tensor, DRAM, SRAM, 0, 0) for tensor in slices])
    return subject_of(task, task.make_plan(use_level, blocks, copies))

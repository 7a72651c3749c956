"""Plans without search: the native compiler that every speed-up is against, and weaker rules beside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.compiler.compile import compile_mapping
from memplace_env.compiler.schedule import Order
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import BuiltinSimulator, Simulator
from memplace_env.workload.program import Ints, Program, TensorKind


def native(program: Program, accelerator: Accelerator, simulator: Simulator | None = None) -> MemoryPlan:
    """What a production compiler's heuristic does: each tensor, in execution order, into the fastest level with room.

    Weights that ops only pick rows from (embedding tables) stay in the backing memory, as compilers keep them: one
    could fill a level and serve a few rows. Done twice, weights before results within an op and results before
    weights, and the faster plan kept (by `simulator`, default the built-in one). EGRL's own baseline, Intel's
    compiler, is not published; this one is our choice, meant to be honest and not weak.
    """
    judge = simulator or BuiltinSimulator()
    plans = [_greedy(program, accelerator, order) for order in ("weights-before-results", "results-before-weights")]
    return min(plans, key=lambda plan: judge.run(program, accelerator, plan).latency_ps)


def weights_first(program: Program, accelerator: Accelerator) -> MemoryPlan:
    """All weights, but tables, into the fastest levels with room before any result gets a place."""
    return _greedy(program, accelerator, "all-weights-first")


def results_first(program: Program, accelerator: Accelerator) -> MemoryPlan:
    """Every result into the fastest level with room, all weights in the backing memory."""
    weight = program.tensor_kind == TensorKind.WEIGHT
    return compile_mapping(program, accelerator, np.where(weight, accelerator.backing, 0)).plan


def all_backing(program: Program, accelerator: Accelerator) -> MemoryPlan:
    """Everything in the backing memory."""
    mapping = np.full(program.num_tensors, accelerator.backing)
    return compile_mapping(program, accelerator, mapping).plan


def native_mapping(program: Program, accelerator: Accelerator) -> Ints:
    """int64[K], what `native` asks for: the fastest level for all but tables."""
    most = np.zeros(program.num_tensors, dtype=np.int64)
    np.maximum.at(most, program.use_tensor, program.use_bytes)
    table = (program.tensor_kind == TensorKind.WEIGHT) & (most < program.tensor_bytes)
    return np.where(table, accelerator.backing, 0)


def _greedy(program: Program, accelerator: Accelerator, order: Order) -> MemoryPlan:
    return compile_mapping(program, accelerator, native_mapping(program, accelerator), order).plan


HEURISTICS: dict[str, Callable[[Program, Accelerator], MemoryPlan]] = {
    "native": native,
    "weights-first": weights_first,
    "results-first": results_first,
    "all-backing": all_backing,
}
"""Plans that cost no search, by name."""

"""Mappings, one level for each tensor: their latency without addresses, and improving them in small steps."""

from __future__ import annotations

import time

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.compiler.evaluate import evaluate
from memplace_env.compiler.schedule import is_placeable, schedule
from memplace_env.simulator.costs import cost_tables
from memplace_env.simulator.kernels import port_times
from memplace_env.workload.program import Ints, Program

CHUNK = 64
"""Moves that `descend` tries at once."""


def latency_ps(program: Program, accelerator: Accelerator, level: Ints) -> int:
    """What the simulator would say if every tensor were in its level and no copies were needed."""
    costs = cost_tables(program, accelerator)
    port = port_times(program.use_ptr, level[program.use_tensor], costs.use_ps, costs.latency_ps)
    memory = port.sum(axis=1) if costs.serial else port.max(axis=1)
    return int(np.maximum(costs.compute_ps, memory).sum()) + costs.overhead_ps * program.num_ops


def settle(program: Program, accelerator: Accelerator, level: Ints) -> Ints:
    """Move to the backing memory what costs nothing there, largest first, so that the rest finds addresses easily."""
    level = level.copy()
    best = latency_ps(program, accelerator, level)
    for tensor in np.argsort(-program.tensor_bytes, kind="stable"):
        before = level[tensor]
        if before < accelerator.backing:
            level[tensor] = accelerator.backing
            if latency_ps(program, accelerator, level) > best:
                level[tensor] = before
    return level


def descend(
    program: Program, accelerator: Accelerator, level: Ints, *, seed: int, budget: int, seconds: float | None
) -> tuple[Ints, int]:
    """Change one tensor's level at a time while that makes the compiled plan faster.

    Moves are tried in a random order, `CHUNK` at once, the best of them taken; it ends when none helps.

    Args:
        program, accelerator: the problem.
        level: int64[K] to start from.
        seed: of the order.
        budget: mappings to compile at most.
        seconds: time to spend at most, or None.

    Returns:
        The best mapping, and how many were compiled.
    """
    begin, rng = time.perf_counter(), np.random.default_rng(seed)
    s, slot = schedule(program, accelerator), np.arange(program.num_tensors)
    moves = np.argwhere(np.repeat(is_placeable(program)[:, None], accelerator.num_levels, axis=1))
    rng.shuffle(moves)
    best = np.iinfo(np.int64).max
    spent = since_gain = at = 0
    while spent < budget and since_gain < len(moves) and (seconds is None or time.perf_counter() - begin < seconds):
        chunk = moves[(at + np.arange(min(CHUNK, len(moves)))) % len(moves)][: budget - spent]
        trials = np.repeat(level[None], len(chunk), axis=0)
        trials[np.arange(len(chunk)), chunk[:, 0]] = chunk[:, 1]
        latency = evaluate(s, trials, slot).latency_ps
        at, spent, since_gain = at + len(chunk), spent + len(chunk), since_gain + len(chunk)
        if latency.min() < best:
            since_gain = 0 if spent > len(chunk) else len(chunk)
            best, level = int(latency.min()), trials[latency.argmin()]
    return level, spent

"""Mappings, one level for each tensor: their latency without addresses, and improving them in small steps."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from memplace_env.compiler import place_mapping
from memplace_env.compiler.evaluate import evaluate_choices
from memplace_env.compiler.savings import latency_ps
from memplace_env.compiler.schedule import schedule_of
from memplace_env.task import Task
from memplace_env.workload.program import Ints

CHUNK = 64
"""Moves that `descend` tries at once."""
PATIENCE = 4
"""Rounds through all moves without a gain after which it stops."""


class Lives(NamedTuple):
    """Where tensors are and when: int64[K] each.

    Attributes:
        level: level of each tensor.
        first, last: ops during which it has a block, if its level is fast.
        copy_start: for a streamed weight in fast memory, the op at which its copy starts.
    """

    level: Ints
    first: Ints
    last: Ints
    copy_start: Ints


def lives(task: Task, level: Ints) -> Lives:
    """Blocks of a mapping as the compiler makes them if it has all the room it wants.

    Streamed weights get the shortest copies that no op waits for; one that would have to be waited for is left in
    the backing memory.
    """
    room = int(task.program.tensor_bytes.sum() + task.costs.reserved_bytes.max())
    levels = tuple(replace(memory, capacity_bytes=room) for memory in task.accelerator.levels)
    plan = place_mapping(replace(task, accelerator=replace(task.accelerator, levels=levels)), level).plan
    got = np.full((4, task.program.num_tensors), -1)
    got[0] = task.backing
    got[:3, plan.allocations[:, 0]] = plan.allocations[:, [1, 3, 4]].T
    got[3, plan.transfers[:, 0]] = plan.transfers[:, 3]
    return Lives(*got)


def keep_what_pays(task: Task, level: Ints) -> Ints:
    """Move to the backing memory what costs nothing there, largest first, so that the rest finds addresses easily."""
    level = level.copy()
    best = latency_ps(task, level)
    for tensor in np.argsort(-task.program.tensor_bytes, kind="stable"):
        before = level[tensor]
        if before < task.backing:
            level[tensor] = task.backing
            if latency_ps(task, level) > best:
                level[tensor] = before
    return level


def descend(task: Task, level: Ints, *, seed: int, budget: int, seconds: float | None) -> tuple[Ints, int]:
    """Change one tensor's level at a time while that makes the compiled plan faster.

    Moves are tried in a random order, `CHUNK` at once, and the best of them taken unless all make it slower; it ends
    when `PATIENCE` rounds through all moves have made it no faster.

    Args:
        task: the problem.
        level: int64[K] to start from.
        seed: of the order.
        budget: mappings to compile at most.
        seconds: time to spend at most, or None.

    Returns:
        The best mapping, and how many were compiled.
    """
    begin, rng = time.perf_counter(), np.random.default_rng(seed)
    schedule, slot = schedule_of(task, "weights-before-results"), np.arange(task.program.num_tensors)
    moves = np.argwhere(np.repeat(task.program.is_placeable[:, None], task.accelerator.num_levels, axis=1))
    rng.shuffle(moves)
    best, level = np.iinfo(np.int64).max, level.copy()
    spent = gained = 0
    while spent < budget and spent - gained < PATIENCE * len(moves):
        if seconds is not None and time.perf_counter() - begin > seconds:
            break
        chunk = moves[(spent + np.arange(min(CHUNK, len(moves)))) % len(moves)][: budget - spent]
        trials = np.repeat(level[None], len(chunk), axis=0)
        trials[np.arange(len(chunk)), chunk[:, 0]] = chunk[:, 1]
        latency = evaluate_choices(schedule, trials, slot).latency_ps
        spent += len(chunk)
        if latency.min() < best:
            gained = spent
        if latency.min() <= best:
            best, level = int(latency.min()), trials[latency.argmin()]
    return level, spent

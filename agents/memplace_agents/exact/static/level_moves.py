"""Levels of tensors: the blocks they lead to, and their improvement in small steps."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from memplace_agents.exact.clock import SEED, Clock
from memplace_env._lib.units import round_up
from memplace_env.machine.costs.op_time_kernels import used_by_level, without_useless
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.compiler.compile import evaluate_assignments
from memplace_env.placement.compiler.placing_order import schedule_of
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program

CHUNK = 64
"""Number of moves that `descend` tries at once."""
USE_S = 5e-8
"""Seconds to compile a plan for each use of a tensor, for the clock; measured roughly."""
LARGE_USES, LIFE_S, LARGE_S = 20_000, 2e-8, 1.0
"""Uses from which on the compiled plans of a search are limited: it then takes minutes. Seconds to compile a plan for
each op that each tensor lives through, measured roughly, and seconds for all plans together; our choice."""
PATIENCE = 4
"""Number of rounds through all moves without a gain after which `descend` stops."""


def affordable(task: Task) -> int:
    """Return the most plans that a search compiles without a limit of its caller's, by `LARGE_S` in large programs."""
    program = task.program
    lives = int((program.live_end - program.live_start + 1).sum())
    return np.iinfo(np.int64).max if program.num_uses < LARGE_USES else max(int(LARGE_S / (LIFE_S * lives)), CHUNK)


class Lives(NamedTuple):
    """Blocks of tensors without addresses: int64[K] each.

    Attributes:
        level: level of each tensor.
        first, last: ops during which it has a block, if its level is fast.
        copy_start: op at which the copy of a streamed weight to fast memory starts, -1 without a copy.
    """

    level: Ints
    first: Ints
    last: Ints
    copy_start: Ints

    @property
    def rows(self) -> Ints:
        """int64[K, 4], tensor, level, first and last op of each block."""
        return np.column_stack([np.arange(len(self.level)), *self[:3]])


def lives(task: Task, level: Ints) -> Lives:
    """Return the blocks that the compiler makes for these levels if memory is not limited.

    Streamed weights get the shortest copies that no op waits for; a weight whose copy would delay an op is left in the
    backing memory.
    """
    # All tensors at once, behind all pinned ones, and the most that an op reserves fit into this many bytes, in whole
    # units of the alignment.
    behind = int((task.pinned + task.program.tensor_bytes).max(where=task.pinned >= 0, initial=0))
    reserved = round_up(task.costs.reserved_bytes.max(), task.program.alignment)
    room = behind + int(task.program.tensor_bytes.sum() + reserved)
    levels = tuple(replace(memory, capacity_bytes=room) for memory in task.accelerator.levels)
    plan = place_levels(replace(task, accelerator=replace(task.accelerator, levels=levels)), level).plan
    fields = np.full((4, task.program.num_tensors), -1)
    fields[0] = task.backing
    fields[:3, plan.allocations[:, 0]] = plan.allocations[:, [1, 3, 4]].T
    fields[3, plan.transfers[:, 0]] = plan.transfers[:, 3]
    return Lives(*fields)


def released(program: Program, level: Ints, last: Ints) -> Ints:
    """Return last ops of lives, int64[K], without the op at which a result of the same level may take the place.

    So no plan with these levels has two of these shorter lives in the same bytes at once.
    """
    operand, result, op = program.handovers.T
    together, shorter = level[operand] == level[result], last.copy()
    shorter[operand[together]] = op[together] - 1
    return shorter


def without_useless_tensors(task: Task, level: Ints) -> Ints:
    """Return levels without tensors in fast memory that save no time, largest first, so that the rest fits easily."""
    program, costs = task.program, task.costs
    uses = np.argsort(program.use_tensor, kind="stable")
    begin = np.searchsorted(program.use_tensor[uses], np.arange(program.num_tensors + 1))
    order = np.argsort(-program.tensor_bytes, kind="stable")
    used = used_by_level(program.use_ptr, level[program.use_tensor], costs.use_ps)
    moved: Ints = without_useless(
        costs, program.use_op, uses, begin, order[level[order] < task.backing], level.astype(np.int64), used
    )
    return moved


def descend(task: Task, level: Ints, *, budget: int, clock: Clock) -> tuple[Ints, int]:
    """Change one tensor's level at a time while that makes the compiled plan faster.

    Moves are tried in a random order, `CHUNK` at once, and the best of them is made unless all make the plan slower;
    the descent ends when `PATIENCE` rounds through all moves have made it no faster.

    Args:
        task: the problem.
        level: int64[K], levels to start from.
        budget: most plans to compile.
        clock: ends it.

    Returns:
        The best levels, and the number of plans compiled.
    """
    rng = np.random.default_rng(SEED)
    schedule = schedule_of(task, "weights-before-results")
    moves = np.argwhere(np.repeat(task.program.is_placeable[:, None], task.accelerator.num_levels, axis=1))
    rng.shuffle(moves)
    best, level = np.iinfo(np.int64).max, level.copy()
    spent = gained = 0
    while spent < budget and spent - gained < PATIENCE * len(moves):
        if clock.up:
            break
        chunk = moves[(spent + np.arange(min(CHUNK, len(moves)))) % len(moves)][: budget - spent]
        trials = np.repeat(level[None], len(chunk), axis=0)
        trials[np.arange(len(chunk)), chunk[:, 0]] = chunk[:, 1]
        latency = evaluate_assignments(schedule, trials, np.arange(task.program.num_tensors)).latency_ps
        spent += len(chunk)
        clock.spend(USE_S * len(chunk) * task.program.num_uses)
        if latency.min() < best:
            gained = spent
        if latency.min() <= best:
            best, level = int(latency.min()), trials[latency.argmin()]
    return level, spent

"""Features of entries that no decision changes: what the rules do with them, and their neighbours in the graph.

In shapes `E` denotes entries, `T` ops, `K` tensors, `R` rules and `F` features.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from memplace_env.envs.steps import StepsProblem
from memplace_env.envs.steps.step_features import ENTRY_FEATURES, WAVES
from memplace_env.envs.steps.step_tables import LEVELS, StepTables, entry_of_tensors
from memplace_env.machine.costs import op_times
from memplace_env.machine.costs.op_time_kernels import used_by_level
from memplace_env.placement.compiler.savings import move_costs
from memplace_env.program.program import Ints

Floats = NDArray[np.float64]

ROUNDS: Final = 2
"""Rounds of messages: an entry sees those that share an op with it, and theirs. Our choice."""
SINGLE: Final = len(ENTRY_FEATURES) - 4 * WAVES
"""Number of entry features before the waves, which tell the entries of one program apart and say nothing of others."""


def rule_features(problem: StepsProblem, rules: Ints, levels: Ints) -> Floats:
    """Return float64[E, 10] in -1..1: what the rules do with each entry.

    Whether the best rule puts it into the fast and the middle level; shares of the rules that do; how much slower the
    program gets if it alone moves to each of the three levels, as time t / (|t| + mean op); and the same per byte and
    op of its life, by its mean.

    Args:
        problem: the problem.
        rules: int64[R, E], actions of each rule's plan, best rule first.
        levels: int64[K], levels of the best rule's plan.
    """
    task, tables = problem.task, problem.tables
    entry, moves = entry_of_tensors(problem.one_shot, tables.decision), move_costs(task, levels)
    slower = np.zeros((len(tables.decision), LEVELS))
    decided = entry >= 0
    for column, level in enumerate((0, 1, task.backing)):
        if column == 0 or level > column - 1:  # a chip with two levels has no middle one
            np.add.at(slower[:, column], entry[decided], moves[decided, level])
    density = slower / np.maximum(tables.byte_ops, 1)[:, None]
    votes = [part for level in range(2) for part in (rules[0] == level, (rules == level).mean(axis=0))]
    mean_op = tables.all_backing_ps / len(tables.compute_ps)
    return np.column_stack([*votes, _signed(slower, mean_op), _signed(density, float(np.abs(density).mean()))])


def op_features(problem: StepsProblem, levels: Ints) -> Floats:
    """Return float64[T, 6] in 0..1: what each op waits for, with everything in the backing memory and in `levels`.

    Its compute time over its time in both; its time in `levels` over that in the backing memory; the latter as
    t / (t + mean op); and the shares of its time in `levels` for which the fastest and the backing port are busy.
    """
    program, costs = problem.task.program, problem.task.costs

    def at(level: Ints) -> tuple[Ints, Ints]:
        times = op_times(costs, used_by_level(program.use_ptr, level[program.use_tensor], costs.use_ps))
        return np.maximum(times.op_ps, 1), times.port_ps

    slow, _ = at(np.full(program.num_tensors, problem.task.backing))
    now, ports = at(levels)
    busy = [ports[:, 0] / now, ports[:, -1] / now]
    columns = [costs.compute_ps / slow, costs.compute_ps / now, now / slow, slow / (slow + slow.mean()), *busy]
    return np.column_stack(columns).clip(0, 1)


def messages(tables: StepTables, own: Floats, ops: Floats) -> Floats:
    """Return float64[E, ROUNDS * (F + O)]: means over each entry's ops of the ops' features and of their entries' ones.

    Args:
        tables: which ops use which entries.
        own: float64[E, F], features of entries.
        ops: float64[T, O], features of ops.
    """
    entry = np.repeat(np.arange(len(own)), np.diff(tables.op_ptr))
    rounds, message = list[Floats](), own
    for _ in range(ROUNDS):
        gathered = _means(message[entry][:, : own.shape[1]], tables.entry_op, len(ops))
        message = _means(np.column_stack([gathered, ops])[tables.entry_op], entry, len(own))
        rounds.append(message)
    return np.column_stack(rounds)


def _means(rows: Floats, group: Ints, groups: int) -> Floats:
    """Return float64[groups, F], the mean of the rows of each group; 0 for groups without rows."""
    sums = np.zeros((groups, rows.shape[1]))
    np.add.at(sums, group, rows)
    means: Floats = sums / np.maximum(np.bincount(group, minlength=groups), 1)[:, None]
    return means


def _signed(values: Floats, scale: float) -> Floats:
    """Return values / (|values| + scale); 0 of 0 is 0."""
    return values / np.maximum(np.abs(values) + scale, 1e-300)

"""Constraints that forbid a set of tensors which has no addresses, for the next round of the linear program."""

from __future__ import annotations

import numpy as np

from agents.exact.highs import CAPACITY, Floats
from agents.exact.packing import Conflict
from agents.exact.static.model import Model, Rows, live_sets, rows_of, stack
from memplace_env.task import Task
from memplace_env.workload.program import Ints, TensorKind


def cut(task: Task, model: Model, conflict: Conflict) -> Rows:
    """Constraints, valid if the conflict is proven. S: its blocks, P: the permanent tensors beside them, l: the level.

    Not all of them together:  sum_{S + P} x[k, l] <= |S + P| - 1.

    With resident weights, all of S need a height h that exceeds the bytes of the largest set Q in S that is alive
    together, so

        sum_{all weights} bytes_k x[k, l] + sum_Q bytes_k x[k, l] + (h - bytes_Q) (sum_S x[k, l] - |S| + 1) <= capacity

    which is the capacity of Q tightened in case all of S are in the level, and not tightened if any is missing.
    """
    program = task.program
    column, size, blocks = model.column[:, conflict.level], program.tensor_bytes, conflict.blocks
    members = np.concatenate([blocks, conflict.permanent])
    rows = [_at_least(column[members], -np.ones(len(members)), 1.0 - len(members), model)]
    if len(blocks) and not task.streams_weights:
        live = live_sets(program.live_start[blocks], program.live_end[blocks])
        largest = blocks[live[(live @ size[blocks]).argmax()]]
        missing = conflict.height - size[largest].sum()
        weights = np.flatnonzero((program.tensor_kind == TensorKind.WEIGHT) & (column >= 0))
        capacity = task.accelerator.levels[conflict.level].capacity_bytes
        tensors = np.concatenate([weights, largest, blocks])
        share = np.concatenate([size[weights], size[largest], np.full(len(blocks), missing)])
        least = -capacity - missing * (len(blocks) - 1)
        scale = CAPACITY / capacity
        rows.append(_at_least(column[tensors], -share * scale, least * scale, model))
    return stack(rows)


def _at_least(column: Ints, value: Floats, lower: float, model: Model) -> Rows:
    return rows_of(np.zeros(len(column), dtype=np.int64), column, value, np.array([lower]), len(model.cost))

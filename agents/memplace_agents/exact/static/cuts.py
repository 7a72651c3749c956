"""Constraints that forbid a set of tensors without addresses, for the next round of the linear program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from memplace_agents.exact.highs import CAPACITY, Floats
from memplace_agents.exact.rows import RowBuilder
from memplace_agents.exact.static.level_moves import released
from memplace_agents.exact.static.static_model import StaticModel, live_sets
from memplace_env.placement.addresses.address_search import Conflict
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, TensorKind


class Cut(NamedTuple):
    """Constraints `matrix @ columns >= lower`: sparse [R, C] and float64[R]."""

    matrix: sp.csr_array
    lower: Floats


def is_certain(task: Task, model: StaticModel, conflict: Conflict) -> bool:
    """Return whether no plan at all has the tensors of a conflict together; streamed weights could have other lives.

    The cut of tensors that are alike forbids more than these.
    """
    tensors = np.concatenate([conflict.blocks, conflict.permanent])
    streamed = task.streams_weights and bool((task.program.producer[tensors] < 0).any())
    return conflict.proven and not streamed and bool((model.alike.size[tensors] == 1).all())


def cut(task: Task, model: StaticModel, conflict: Conflict, level: Ints) -> Cut:
    """Return constraints that forbid a conflict; they cut off no plan if it is proven and no member has any alike.

    Of tensors that are alike it forbids as many together as the solution `level` int64[K] has.

    S are its blocks, P the permanent tensors beside them, l the level.

    Not all of them together:  sum_{S + P} x[k, l] <= |S + P| - 1.

    With resident weights and no pinned offsets, all of S and what ops reserve need h bytes of the level. If h exceeds
    the bytes of the largest set Q in S that is alive together, no result of it in place of an operand,

        sum_{all weights} bytes_k x[k, l] + sum_Q bytes_k x[k, l] + (h - bytes_Q) (sum_S x[k, l] - |S| + 1) <= capacity

    which is the capacity row of Q, tightened by h - bytes_Q if all of S are in the level, and not at all if any is
    missing: the bracket is 1 or at most 0.
    """
    program = task.program
    column, size, blocks = model.column[:, conflict.level], program.tensor_bytes, conflict.blocks
    members = np.concatenate([blocks, conflict.permanent])
    rows = RowBuilder()
    columns = np.unique(column[members])
    together = np.count_nonzero(np.isin(column, columns) & (level == conflict.level))
    rows.add(rows.new(1, 1 - together), columns, -1)
    stacked = not task.streams_weights and bool((task.pinned < 0).all())
    if len(blocks) and stacked and (model.alike.size == 1).all():
        live = live_sets(program.live_start[blocks], released(program, level, program.live_end)[blocks])
        # The set Q, a row of `live`, with the most bytes.
        largest = blocks[live[(live @ size[blocks]).argmax()]]
        missing = max(conflict.height - size[largest].sum(), 0)
        weights = np.flatnonzero((program.tensor_kind == TensorKind.WEIGHT) & (column >= 0))
        capacity = int(task.capacities[conflict.level])
        tensors = np.concatenate([weights, largest, blocks])
        share = np.concatenate([size[weights], size[largest], np.full(len(blocks), missing)])
        least = -capacity - missing * (len(blocks) - 1)
        scale = CAPACITY / capacity
        rows.add(rows.new(1, least * scale), column[tensors], -share * scale)
    return Cut(*rows.matrix(len(model.program.cost))[:2])

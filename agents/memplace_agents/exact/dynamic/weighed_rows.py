"""Rows with weights in the place of sizes that an answer of the program violates."""

from __future__ import annotations

import numpy as np

from memplace_agents.exact.dynamic.detail import Detail, WeighedRow
from memplace_agents.exact.dynamic.dual_feasible import DualFeasible, candidates, weights_of
from memplace_agents.exact.dynamic.dynamic_model import DynamicModel
from memplace_agents.exact.highs import Floats
from memplace_env.program.program import Ints

VIOLATION = 1e-3
"""Least violation of a row that is added, as a fraction of the room. Our choice."""
SHARE = 1e-6
"""Least share of a block that counts: what a solver leaves of 0."""
MOST_ROWS = 4
"""Most rows that are added in an op at once. Our choice."""

MOST_SIZES = 64
"""Most sizes in an op from which functions are made. Our choice."""


def violated_rows(model: DynamicModel, values: Floats) -> Detail:
    """Return the rows of `Detail.weighed` that a solution violates most, at most `MOST_ROWS` in each op."""
    size, weighed = model.task.program.tensor_bytes, set[WeighedRow]()
    for level, (op, tensor, column, sign, room, _) in enumerate(model.occupants):
        share = sign * values[column]
        # One entry for each op and size that is there, in order; its share adds up those of all blocks of that size.
        there = np.flatnonzero((abs(share) > SHARE) & (size[tensor] <= room[op]))
        keys, which = np.unique(np.stack([op[there], size[tensor[there]]], 1), axis=0, return_inverse=True)
        total: Floats = np.bincount(which.reshape(-1), share[there], len(keys)).astype(np.float64)
        for rows in np.split(np.arange(len(keys)), np.flatnonzero(np.diff(keys[:, 0])) + 1):
            # Weights of at most 1 add up to no more than the shares do.
            if total[rows].sum() > 1 + VIOLATION:
                time = int(keys[rows[0], 0])
                found = _most_violated(keys[rows, 1], total[rows], int(room[time]))
                weighed.update((level, time, function) for function in found)
    return Detail(weighed=frozenset(weighed))


def _most_violated(size: Ints, share: Floats, room: int) -> list[DualFeasible]:
    """Return the functions with the largest sums of weights above 1, of equal weights one."""
    # Thresholds and units are those of the sizes that fill most of the room.
    functions = list(candidates(size[np.sort(np.argsort(-share * size, kind="stable")[:MOST_SIZES])], room))
    weights = weights_of(functions, size, room)
    total = weights @ share
    chosen, seen = list[DualFeasible](), set[bytes]()
    for index in np.argsort(-total, kind="stable").tolist():
        if total[index] <= 1 + VIOLATION or len(chosen) == MOST_ROWS:
            break
        key = weights[index].round(9).tobytes()
        if key not in seen:
            seen.add(key)
            chosen.append(functions[index])
    return chosen

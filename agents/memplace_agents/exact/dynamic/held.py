"""Rows that hold every tensor to one level and every weight to one copy: the plans that `static` looks for.

Here a copy is spread over ops and an op may wait for it, where the model of `static` asks only that copies have had
port time enough. So this program fits where copies are the difficulty: streamed weights on small memories.
"""

from __future__ import annotations

import numpy as np

from memplace_agents.exact.dynamic.draft import Draft
from memplace_env.program.program import Ints, TensorKind


def hold(draft: Draft) -> Ints:
    """Add rows: all uses of a tensor are served from the block of the first one, and that block stays.

    Graph inputs and outputs live in the backing memory, and no result is written back.

    Returns:
        int64[N], columns that must be 0: second copies, write-backs, and blocks of inputs and outputs.
    """
    program, uses, columns, rows = draft.program, draft.uses, draft.columns, draft.rows
    kind = program.tensor_kind[program.use_tensor]
    moved = (kind == TensorKind.WEIGHT) | (kind == TensorKind.ACTIVATION)
    first = uses.first[program.use_tensor]
    zero = [columns.sent[columns.sent >= 0], draft.last_moves()]
    for level in draft.levels:
        here, fast = columns.here[:, level], columns.fast[:, level]
        zero.append(here[(here >= 0) & ~moved])
        # Whatever has a block at its first use has kept it at each later one.
        later = np.flatnonzero((here >= 0) & moved & (uses.before >= 0))
        row = rows.new(len(later), 0, 0)
        rows.add(row, columns.stay[later, level])
        rows.add(row, here[first[later]], -1)
        # A use is served from its block, if it has one.
        apart = np.flatnonzero((fast >= 0) & (fast != here))
        row = rows.new(len(apart), 0, 0)
        rows.add(row, fast[apart])
        rows.add(row, here[apart], -1)
        copied = np.flatnonzero((columns.copied[:, level] >= 0) & (uses.before >= 0))
        length = (program.use_op - columns.window)[copied]
        begin = columns.copied[copied, level]
        zero.append(np.concatenate([np.arange(a, a + n) for a, n in zip(begin, length, strict=True)] or [begin]))
        early = columns.early[:, level]
        zero.append(early[(early >= 0) & (uses.before >= 0)])
    return np.concatenate(zero)

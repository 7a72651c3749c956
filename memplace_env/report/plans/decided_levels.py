"""Levels that the ops of a plan decide, and how often neighbouring ops decide the same."""

from __future__ import annotations

import numpy as np

from memplace_env.program.program import Ints, Program, TensorKind


def decided_levels(program: Program, kind: TensorKind, level: Ints) -> tuple[Ints, Ints]:
    """Return the ops that decide about tensors of a kind, and the level that each of them decides on.

    An op decides about the weights that it is the first to read and the activations that it makes. Where those of
    one op are in several levels, the level with most of their bytes counts, of two with equally many the faster.

    Args:
        program: the program.
        kind: WEIGHT or ACTIVATION.
        level: int64[K], as from `MemoryPlan.tensor_levels`.

    Returns:
        int64[E], ops in execution order; int64[E], their levels.
    """
    tensors = np.flatnonzero(program.tensor_kind == kind)
    placed = np.zeros((program.num_ops, int(level.max(initial=0)) + 1), dtype=np.int64)
    np.add.at(placed, (program.live_start[tensors], level[tensors]), program.tensor_bytes[tensors])
    ops = np.flatnonzero(placed.any(axis=1))
    return ops, placed[ops].argmax(axis=1)


def contiguity(level: Ints) -> float | None:
    """Share, 0..1, of neighbours in the same level; None if there are fewer than two entries.

    `level` int64[E] is that of the ops that decide about something, in execution order, as from `decided_levels`:
    ops in between that decide nothing do not count. The share is over the E - 1 pairs of consecutive entries, each
    counting the same however many bytes it is about. Our reading of EGRL's word.
    """
    return float((level[1:] == level[:-1]).mean()) if len(level) > 1 else None

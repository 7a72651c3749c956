"""Features of entries and of the program that no decision changes, and the orders of deciding."""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described
from memplace_env.envs.steps.step_kernels import bytes_before, gains_alone
from memplace_env.envs.steps.step_tables import StepTables
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints

DecisionOrder = Literal["density", "schedule"]
DECISION_ORDERS: tuple[DecisionOrder, ...] = get_args(DecisionOrder)

Floats = NDArray[np.float64]

WAVES: Final = 6
"""Number of frequencies of each wave, see `entry_features`; the highest one tells 64 entries apart. Our choice."""

ENTRY_FEATURES: Final = (
    "weight", "log_bytes", "life", "log_life", "position", "density_rank", "density", "uses", "copy",
    "bytes_fast", "bytes_middle", "denser_fast", "denser_middle", "later_fast", "later_middle",
    "gain_alone_fast", "gain_alone_middle", "gain_last_fast", "gain_last_middle",
    *(f"{of}_{wave}_{2**octave}" for of in ("position", "rank") for wave in ("sin", "cos") for octave in range(WAVES)),
)  # fmt: skip
"""Columns of `StepTables.entry_features`."""

STATE_FEATURES: Final = (
    "free_fast", "free_middle", "left_fast", "left_middle", "saves_fast", "saves_middle",
    "would_save_fast", "would_save_middle", "held_fast", "held_middle", "fullest_fast", "fullest_middle",
    "progress", "latency", "gain_so_far", "speedup",
)  # fmt: skip
"""Numbers that `observe_state` computes, between those of the entry and those of the program."""

PROGRAM_FEATURES: Final = (
    "capacity_fast", "capacity_middle", "traffic_fast", "traffic_middle", "compute", "log_ops", "log_entries",
    "streamed", "has_middle",
)  # fmt: skip
"""Columns of `StepTables.program_features`."""


def checked_order(order: object) -> DecisionOrder:
    """Return the name of an order of deciding.

    Raises:
        EnvError: if there is no such order.
    """
    for known in DECISION_ORDERS:
        if isinstance(order, str) and order == known:
            return known
    raise EnvError(f"order must be {' or '.join(map(repr, DECISION_ORDERS))}, not {described(order)}.")


def density_of(tables: StepTables) -> Floats:
    """Return float64[E], picoseconds that each entry saves in the fast level per byte and per op of its life.

    The mean of what it saves if it alone is there, and of what it costs if it alone is not, as density-greedy has it.
    """
    alone, missing = gains_alone(tables)
    density: Floats = (alone[:, 0] + missing[:, 0]) / (2 * tables.byte_ops)
    return density


def entry_features(tables: StepTables, is_weight: NDArray[np.bool_], copy_ps: Ints, begin: Ints) -> NDArray[np.float32]:
    """Return float32[E, 43] in [0, 1], columns `ENTRY_FEATURES`.

    Bytes b are shown as b / (b + capacity), times t as t / (t + mean op), where the mean op is that with everything in
    the backing memory; both are 1/2 where the two are equal. Columns about a middle level that the chip has not are
    1 for bytes and 0 for times. Waves show x as (1 + sin(2^n pi x)) / 2 and (1 + cos(2^n pi x)) / 2, so that a small
    network tells entries apart whose position x or whose rank is nearly the same. Scales of logarithms are those of
    `one_shot.observation`.

    Args:
        tables: the tables, entries in the order of deciding.
        is_weight: bool[E].
        copy_ps: int64[E], time of the copies that bring the entry from the backing memory; 0 if none is needed.
        begin: int64[E], first op that touches the entry.
    """
    entries, ops = len(tables.decision), len(tables.costs.compute_ps)
    density, mean_op = density_of(tables), tables.all_backing_ps / ops
    by_density = np.argsort(-density, kind="stable")
    rank = np.empty(entries)
    rank[by_density] = np.arange(entries)
    alone, missing = gains_alone(tables)
    starts = tables.segment_ptr[:-1]
    first, last = tables.segment_first[starts], tables.segment_last[tables.segment_ptr[1:] - 1]
    size = np.maximum.reduceat(tables.segment_bytes, starts)
    life, uses, position = last - first + 1, np.diff(tables.op_ptr), begin / ops
    positive = np.maximum(density, 0)
    held = [
        size,
        bytes_before(tables, by_density),
        bytes_before(tables, np.arange(entries - 1, -1, -1)),
    ]
    angles = [2**octave * np.pi * x for x in (position, rank / entries) for octave in range(WAVES)]
    waves = [wave(angle) for some in (angles[:WAVES], angles[WAVES:]) for wave in (np.sin, np.cos) for angle in some]
    columns = [
        is_weight,
        np.log2(1.0 + size) / 40,
        life / ops,
        np.log2(1.0 + life) / 20,
        position,
        rank / entries,
        _squashed(positive, positive.mean()),
        uses / (uses + 4),
        _squashed(copy_ps, mean_op),
        *(_squashed(each, capacity) for each in held for capacity in tables.capacity),
        *(_squashed(saved[:, level], mean_op) for saved in (alone, missing) for level in range(2)),
        *((1 + wave) / 2 for wave in waves),
    ]
    return np.stack([np.asarray(column, dtype=np.float32) for column in columns], axis=1).clip(0, 1)


def program_features(task: Task, tables: StepTables) -> NDArray[np.float32]:
    """Return float32[9] in [0, 1], columns `PROGRAM_FEATURES`."""
    program, traffic = task.program, tables.costs.use_ps.sum(axis=0, dtype=np.float64)
    placeable = program.tensor_bytes[program.is_placeable].sum()
    columns = [
        *tables.capacity / (tables.capacity + max(placeable, 1)),
        *traffic[:2] / np.maximum(traffic[:2] + traffic[2], 1),
        tables.costs.compute_ps.sum() / max(tables.all_backing_ps, 1),
        np.log2(1.0 + program.num_ops) / 20,
        np.log2(1.0 + len(tables.decision)) / 20,
        task.streams_weights,
        task.accelerator.num_levels > 2,
    ]
    return np.array(columns, dtype=np.float32).clip(0, 1)


def _squashed(values: NDArray[np.generic], scale: float) -> Floats:
    """Return max(values, 0) / (max(values, 0) + scale); 1 for positive values and a scale of 0, 0 for 0 of 0."""
    positive = np.maximum(values, 0).astype(np.float64)
    shown: Floats = np.divide(positive, positive + scale, out=np.zeros(len(positive)), where=positive + scale > 0)
    return shown

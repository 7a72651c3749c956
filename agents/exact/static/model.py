"""The one-shot problem as a mixed-integer linear program.

Columns, all at least 0: binary x[k, l] = 1 if placeable tensor k lives in fast level l (in the backing memory B if
all its x are 0); z[t], what op t takes without overhead; y[t, l] <= 1, whether op t touches level l, where touching
costs latency. With c the cost table of the simulator, op t keeps the port of level l < B busy for

    m[t, l] = sum_u c[u, l] x[k(u), l] + latency_l y[t, l]                      u: the uses of op t
    m[t, B] = sum_u c[u, B] (1 - sum_l x[k(u), l]) + latency_B y[t, B]

    minimise   sum_t z[t]
    subject to z[t] >= compute_t
               z[t] >= m[t, l] for each l (parallel ports),  z[t] >= sum_l m[t, l] (serial ports)
               y[t, l] >= x[k, l],  y[t, B] >= 1 - sum_l x[k, l]                for each tensor k of op t
               sum_l x[k, l] <= 1
               w[l] + sum_{k alive at t} bytes_k x[k, l] <= capacity_l - reserved[t, l]
                                                                                for each maximal set of live tensors

where w[l] >= sum_k bytes_k x[k, l] over resident weights, which are always alive: as a column of its own it keeps
the capacity rows short, which makes HiGHS several times faster. This is the latency of every plan with one level for
each tensor, except that tensors need no addresses: the optimum is a lower bound, and the latency itself if addresses
can be found.

Streamed weights: one in fast memory is copied in before its first use, so it is alive from the op before that at the
latest, and not fast at all if op 0 reads it. Copies use the backing port when ops do not. With d the demand of a
copy, s[t] the stall before op t (it joins the objective) and b[t] >= 0 the port time in hand when op t starts,

    b[t] <= b[t-1] + (z[t-1] + overhead - m[t-1, B]) + s[t] - sum_{weights k first read by t} d_k sum_l x[k, l]

holds for every plan: again a lower bound, but plans may need longer windows than this asks for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from agents.exact.highs import CAPACITY, LATENCY, Floats
from memplace_env.costs import Costs
from memplace_env.task import Task
from memplace_env.workload.program import Ints, Program, TensorKind


class Rows(NamedTuple):
    """Constraints `matrix @ columns >= lower`: sparse [R, C] and float64[R]."""

    matrix: sp.csr_array
    lower: Floats


class Model(NamedTuple):
    """Minimise `cost @ columns` subject to `rows` and bounds; see the module for the mathematics.

    Attributes:
        cost, lower, upper: float64[C].
        binary: bool[C].
        rows: all constraints.
        column: int64[K, L-1], column of x for tensor and fast level; -1 if the tensor cannot be there.
        unit_ps: picoseconds of one unit of the objective.
        overhead_ps: what all ops take beyond the objective.
    """

    cost: Floats
    lower: Floats
    upper: Floats
    binary: NDArray[np.bool_]
    rows: Rows
    column: Ints
    unit_ps: float
    overhead_ps: int


class _Columns(NamedTuple):
    """Where x int64[K, L-1], y int64[T, L], w int64[L-1], z, b and s int64[T] are; -1 or empty if there is none."""

    x: Ints
    y: Ints
    held: Ints
    z: Ints
    bank: Ints
    stall: Ints
    total: int


class _Ports(NamedTuple):
    """m as affine functions of the columns: `matrix[l] @ columns + constant[:, l]`, [T, C] each and float64[T, L]."""

    matrix: list[sp.csr_array]
    constant: Floats


def build(task: Task) -> Model:
    """The program of the module's docstring."""
    program, costs = task.program, task.costs
    columns = _columns(task)
    all_backing = np.bincount(program.use_op, costs.use_ps[:, -1], program.num_ops)
    unit = max(float(np.maximum(costs.compute_ps, all_backing).sum()) / LATENCY, 1.0)
    ports = _ports(task, columns, unit)
    parts = [
        _op_times(costs, columns, ports, unit),
        _touches(program, columns),
        _one_level_each(columns),
        *(_capacity(task, columns, level) for level in range(task.backing)),
    ]
    if task.streams_weights:
        parts.append(_bank(program, costs, columns, ports, unit))
    binary = np.zeros(columns.total, dtype=bool)
    binary[columns.x[columns.x >= 0]] = True
    cost = np.zeros(columns.total)
    cost[columns.z] = cost[columns.stall] = 1
    lower, upper = np.zeros(columns.total), np.full(columns.total, np.inf)
    lower[columns.z] = costs.compute_ps / unit
    upper[binary] = upper[columns.y[columns.y >= 0]] = 1
    return Model(cost, lower, upper, binary, stack(parts), columns.x, unit, int(costs.overhead_ps.sum()))


def stack(parts: list[Rows]) -> Rows:
    """All constraints as one."""
    return Rows(
        sp.csr_array(sp.vstack([part.matrix for part in parts])), np.concatenate([part.lower for part in parts])
    )


def lifetimes(task: Task) -> tuple[Ints, Ints]:
    """int64[K] each: first and last op during which a block of the tensor exists at the very least."""
    program = task.program
    weight = program.tensor_kind == TensorKind.WEIGHT
    if task.streams_weights:
        return np.where(weight, program.live_start - 1, program.live_start), program.live_end
    return np.where(weight, 0, program.live_start), np.where(weight, program.num_ops - 1, program.live_end)


def rows_of(row: Ints, column: Ints, value: Floats, lower: Floats, columns: int) -> Rows:
    """Constraints from the places and values of their coefficients; those of one place add up."""
    return Rows(sp.csr_array((value, (row, column)), shape=(len(lower), columns)), lower)


def _columns(task: Task) -> _Columns:
    program, accelerator, costs = task.program, task.accelerator, task.costs
    capacity = np.array([level.capacity_bytes for level in accelerator.levels[:-1]])
    first, _ = lifetimes(task)
    placeable = program.is_placeable
    can = (placeable & (first >= 0))[:, None] & (program.tensor_bytes[:, None] <= capacity)
    inner = np.zeros((program.num_ops, accelerator.num_levels), dtype=bool)
    inner[program.use_op[placeable[program.use_tensor]]] = costs.latency_ps > 0
    inner[program.use_op[~placeable[program.use_tensor]], -1] = False
    ops = np.ones(program.num_ops, dtype=bool)
    copies = ops & task.streams_weights
    held = np.ones(accelerator.backing, dtype=bool)
    wanted = [can, inner, held, ops, copies, copies]
    ends = np.cumsum([part.sum() for part in wanted])
    numbered = [np.full(part.shape, -1) for part in wanted]
    for part, number, end in zip(wanted, numbered, ends, strict=True):
        number[part] = np.arange(end - part.sum(), end)
    x, y, held, z, bank, stall = numbered
    return _Columns(x, y, held, z, bank[copies], stall[copies], int(ends[-1]))


def _ports(task: Task, columns: _Columns, unit: float) -> _Ports:
    program, accelerator, costs = task.program, task.accelerator, task.costs
    shape = (program.num_ops, columns.total)
    x = columns.x[program.use_tensor]
    matrix = []
    for level in range(accelerator.num_levels):
        fast = x >= 0 if level == accelerator.backing else (x >= 0) & (np.arange(x.shape[1]) == level)
        use, _ = np.nonzero(fast)
        sign = -1 if level == accelerator.backing else 1
        touched = np.flatnonzero(columns.y[:, level] >= 0)
        value = np.concatenate([sign * costs.use_ps[use, level], np.full(len(touched), costs.latency_ps[level])])
        row = np.concatenate([program.use_op[use], touched])
        matrix.append(
            sp.csr_array((value / unit, (row, np.concatenate([x[fast], columns.y[touched, level]]))), shape=shape)
        )
    constant = np.zeros((program.num_ops, accelerator.num_levels))
    np.add.at(constant[:, -1], program.use_op, costs.use_ps[:, -1])
    fixed = program.use_op[~program.is_placeable[program.use_tensor]]
    constant[np.unique(fixed), -1] += costs.latency_ps[-1]
    return _Ports(matrix, constant / unit)


def _op_times(costs: Costs, columns: _Columns, ports: _Ports, unit: float) -> Rows:
    """z >= port times, where they can exceed the compute time."""
    matrices, constants = ports.matrix, list(ports.constant.T)
    if costs.serial:
        matrices, constants = [sum(matrices[1:], start=matrices[0])], [ports.constant.sum(axis=1)]
    parts = []
    for matrix, constant in zip(matrices, constants, strict=True):
        most = np.asarray(matrix.maximum(0).sum(axis=1)).ravel() + constant
        ops = np.flatnonzero(most > costs.compute_ps / unit)
        own = sp.csr_array((np.ones(len(ops)), (np.arange(len(ops)), columns.z[ops])), shape=(len(ops), columns.total))
        parts.append(Rows(sp.csr_array(own - matrix[ops]), constant[ops]))
    return stack(parts)


def _touches(program: Program, columns: _Columns) -> Rows:
    """y >= x for each use; y + sum_l x >= 1 for the backing memory."""
    x, y = columns.x[program.use_tensor], columns.y[program.use_op]
    use, level = np.nonzero((x >= 0) & (y[:, :-1] >= 0))
    rows = np.arange(len(use))
    fast = rows_of(
        np.tile(rows, 2),
        np.concatenate([y[use, level], x[use, level]]),
        np.repeat([1.0, -1.0], len(use)),
        np.zeros(len(use)),
        columns.total,
    )
    use = np.flatnonzero((y[:, -1] >= 0) & program.is_placeable[program.use_tensor])
    row, level = np.nonzero(x[use] >= 0)
    column = np.concatenate([y[use, -1], x[use][row, level]])
    backing = rows_of(
        np.concatenate([np.arange(len(use)), row]), column, np.ones(len(column)), np.ones(len(use)), columns.total
    )
    return stack([fast, backing])


def _one_level_each(columns: _Columns) -> Rows:
    tensors = columns.x[(columns.x >= 0).sum(axis=1) > 1]
    row, level = np.nonzero(tensors >= 0)
    return rows_of(row, tensors[row, level], -np.ones(len(row)), -np.ones(len(tensors)), columns.total)


def _capacity(task: Task, columns: _Columns, level: int) -> Rows:
    """w at least the resident weights; one row for each maximal set of results that could overflow the level."""
    program, capacity = task.program, task.accelerator.levels[level].capacity_bytes
    size = program.tensor_bytes * (CAPACITY / capacity)
    inside = columns.x[:, level] >= 0
    always = inside & (program.tensor_kind == TensorKind.WEIGHT) & (not task.streams_weights)
    weights, others = np.flatnonzero(always), np.flatnonzero(inside & ~always)
    column = np.append(columns.x[weights, level], columns.held[level])
    total = rows_of(np.zeros_like(column), column, np.append(-size[weights], 1.0), np.zeros(1), columns.total)

    first, last = (ends[others] for ends in lifetimes(task))
    live, reserved = _live_sets_beside(first, last, task.costs.reserved_bytes[:, level])
    full = live @ program.tensor_bytes[others] + program.tensor_bytes[weights].sum() + reserved > capacity
    live, reserved = live[full], reserved[full]
    row, item = np.nonzero(live)
    sets = np.arange(len(live))
    overflow = rows_of(
        np.append(row, sets),
        np.append(columns.x[others[item], level], np.full(len(live), columns.held[level])),
        np.append(-size[others[item]], -np.ones(len(live))),
        reserved * (CAPACITY / capacity) - CAPACITY,
        columns.total,
    )
    return stack([total, overflow])


def _live_sets_beside(first: Ints, last: Ints, reserved: Ints) -> tuple[NDArray[np.bool_], Ints]:
    """bool[R, n], sets of intervals that share an op, and int64[R], the most that such an op reserves.

    Where nothing is reserved the maximal sets suffice; else there is one for each stretch of ops with the same set.
    """
    if not reserved.any():
        live = live_sets(first, last) if len(first) else np.zeros((1, 0), dtype=bool)
        return live, np.zeros(len(live), dtype=np.int64)
    changes = np.unique(np.concatenate([[0], first[first > 0], last[last + 1 < len(reserved)] + 1]))
    return (first <= changes[:, None]) & (last >= changes[:, None]), np.maximum.reduceat(reserved, changes)


def live_sets(first: Ints, last: Ints) -> NDArray[np.bool_]:
    """bool[R, n]: the maximal sets of intervals [first, last] that share a point.

    A set at the start of one interval is maximal iff some member ends before the next one starts.
    """
    starts = np.unique(first)
    live = (first <= starts[:, None]) & (last >= starts[:, None])
    following = np.append(starts[1:], np.iinfo(np.int64).max)
    return live[(live & (last < following[:, None])).any(axis=1)]


def _bank(program: Program, costs: Costs, columns: _Columns, ports: _Ports, unit: float) -> Rows:
    """Copies get no more of the backing port than ops and stalls leave them."""
    ops = np.arange(program.num_ops)
    weights = np.flatnonzero(program.tensor_kind == TensorKind.WEIGHT)
    which, level = np.nonzero(columns.x[weights] >= 0)
    copied = weights[which]
    row = np.concatenate([ops, ops, ops[1:], ops[1:], program.live_start[copied]])
    earlier = [columns.bank[:-1], columns.z[:-1]]
    column = np.concatenate([columns.bank, columns.stall, *earlier, columns.x[copied, level]])
    ones = np.ones(program.num_ops)
    value = np.concatenate([-ones, ones, ones[1:], ones[1:], -costs.prefetch_ps[copied] / unit])
    lower = np.zeros(program.num_ops)
    lower[1:] = ports.constant[:-1, -1] - costs.overhead_ps[:-1] / unit
    before = sp.vstack([sp.csr_array((1, columns.total)), ports.matrix[-1][:-1]])
    own = rows_of(row, column, value, lower, columns.total)
    return Rows(sp.csr_array(own.matrix - before), lower)

"""The one-shot problem as a mixed-integer linear program.

Columns, all at least 0: binary x[k, l] = 1 if placeable tensor k lives in fast level l (in the backing memory B if
all its x are 0), or the number of those that do among n slices that are alike (n = 1 for all others); z[t], what op t
takes without overhead; y[t, l] <= 1, whether op t touches level l, where touching costs latency. With c the cost table
of the simulator, op t keeps the port of level l < B busy for

    m[t, l] = sum_u c[u, l] x[k(u), l] + latency_l y[t, l]                      u: the uses of op t
    m[t, B] = sum_u c[u, B] (1 - sum_l x[k(u), l]) + latency_B y[t, B]

    minimise   sum_t z[t]
    subject to z[t] >= compute_t
               z[t] >= m[t, l] for each l (parallel ports),  z[t] >= sum_l m[t, l] (serial ports)
               n y[t, l] >= x[k, l],  n y[t, B] >= n - sum_l x[k, l]            for each tensor k of op t
               sum_l x[k, l] <= n,  and = n if the chip's backing memory may not hold k
               w[l] + sum_{k alive at t} bytes_k x[k, l] <= capacity_l - reserved[t, l]
                                                                                for each maximal set of live tensors

where w[l] >= sum_k bytes_k x[k, l] over resident weights, which are always alive: as a column of its own it keeps
the capacity rows short, which makes HiGHS several times faster. This is the latency of every plan with one level for
each tensor, except that tensors need no addresses: the optimum is a lower bound, and the latency itself if addresses
can be found.

Streamed weights: a weight in fast memory is copied in before its first use, so it is alive from the op before that at
the latest, and cannot be in fast memory if op 0 reads it. Copies use the backing port when ops do not. With d the
demand of a copy, s[t] the stall before op t (it joins the objective) and b[t] >= 0 the port time that is left over when
op t starts,

    b[t] <= b[t-1] + (z[t-1] + overhead - m[t-1, B]) + s[t] - sum_{weights k first read by t} d_k sum_l x[k, l]

holds for every plan: by op t the copies of all weights read so far have fitted into the port time of earlier ops and
stalls. So this is a lower bound again, but plans may need longer windows than it demands.

Results in place: where operands die at op t and results may take their places, as many bytes count once as can be
matched, each operand and each result with one other at most. If all pairs have one operand or one result in common,
these are the lesser of the operands' and the results', so two rows say it all: op t with its operands, without the
results, and with the results alone. Else g[k, r, l] >= 0 says that r takes the place of k in level l,

    sum_r g[k, r, l] <= x[k, l],    sum_k g[k, r, l] <= x[r, l],

and the capacity row of op t counts bytes_k g[k, r, l] less.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from memplace_agents.exact.highs import CAPACITY, LATENCY, Floats, LinearProgram
from memplace_agents.exact.rows import RowBuilder
from memplace_agents.exact.static.alike import Alike, alike
from memplace_env.machine.costs import Costs
from memplace_env.placement.roles import without_penalties
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program, TensorKind

MOST_ENTRIES: Final = 1_000_000
"""Most entries of a matrix for branch and bound: with more, its first node takes minutes and gigabytes. Our choice."""


class StaticModel(NamedTuple):
    """A linear program and the meaning of its columns; see the module for the mathematics.

    Attributes:
        program: minimises the latency without overhead; C columns.
        column: int64[K, L-1], column of x for tensor and fast level; -1 if the tensor cannot be there.
        op, stall: int64[T], columns of the ops' times and of the stalls before them; no stalls if no weights stream.
        port, port_constant: float64[C] and its constant part, the time for which ops and copies keep the backing
            memory's port busy, in units.
        alike: groups of tensors that have one x together.
        unit_ps: picoseconds of one unit of the objective.
        overhead_ps: overhead of all ops together, which the objective leaves out.
    """

    program: LinearProgram
    column: Ints
    op: Ints
    stall: Ints
    port: Floats
    port_constant: float
    alike: Alike
    unit_ps: float
    overhead_ps: int


class _Columns(NamedTuple):
    """Columns of x int64[K, L-1], y int64[T, L], w int64[L-1] (`held`), z, b (`bank`) and s (`stall`) int64[T].

    An entry is -1, or an array empty, if there is no such column. Of tensors that are alike only the first has an x
    and `stands` bool[K] for all of them; there are `members` int64[K]. The last columns are g, one for each row of
    `given` int64[G, 5]: operand, result, op, level and number of pairs that are alike; of pairs without a column there
    are rows in `halved` int64[H, 5].
    """

    members: Ints
    stands: NDArray[np.bool_]
    x: Ints
    y: Ints
    held: Ints
    z: Ints
    bank: Ints
    stall: Ints
    given: Ints
    halved: Ints
    total: int

    def given_at(self, level: int) -> tuple[Ints, Ints]:
        """Return the columns g of a level, int64[n], and their rows of `given`."""
        number = np.flatnonzero(self.given[:, 3] == level)
        return self.total - len(self.given) + number, self.given[number]


class _Ports(NamedTuple):
    """m as affine functions of the columns: `matrix[l] @ columns + constant[:, l]`, [T, C] each and float64[T, L]."""

    matrix: list[sp.csr_array]
    constant: Floats


def build(task: Task, *, ordered: bool = True) -> StaticModel:
    """Return the program of the module's docstring; what depends on the order of ops is left out unless `ordered`."""
    program, groups = task.program, alike(task)
    costs, columns = without_penalties(groups.costs, program, task.allowed), _columns(task, groups, ordered)
    all_backing = np.bincount(program.use_op, costs.use_ps[:, -1], program.num_ops)
    unit = max(float(np.maximum(costs.compute_ps, all_backing).sum()) / LATENCY, 1.0)
    ports = _ports(task, costs, columns, unit)
    rows = RowBuilder()
    _op_times(rows, costs, columns, ports, unit)
    _touches(rows, program, columns)
    _one_level_each(rows, columns, task.must_leave)
    for level in range(task.backing * ordered):
        _handovers(rows, columns, level)
        _capacity(rows, task, columns, level)
    if task.streams_weights and ordered:
        _bank(rows, program, costs, columns, ports, unit)
    matrix, row_lower, row_upper = rows.matrix(columns.total)
    matrix.eliminate_zeros()
    integrality = np.zeros(columns.total, dtype=bool)
    integrality[columns.x[columns.x >= 0]] = True
    cost = np.zeros(columns.total)
    cost[columns.z] = cost[columns.stall] = 1
    lower, upper = np.zeros(columns.total), np.full(columns.total, np.inf)
    lower[columns.z] = costs.compute_ps / unit
    tensor, fast = np.nonzero(columns.x >= 0)
    upper[columns.x[tensor, fast]] = columns.members[tensor]
    touched = columns.y[columns.y >= 0]
    upper[touched] = 1
    if (columns.members > 1).any():
        integrality[touched] = True  # of n slices that are alike one alone touches a level
    port: Floats = np.asarray(ports.matrix[-1].sum(axis=0), dtype=np.float64)
    if task.streams_weights:
        copied, into = _fast_weights(program, columns)
        port[columns.x[copied, into]] += costs.prefetch_ps[copied] / unit
    return StaticModel(
        program=LinearProgram(cost, lower, upper, integrality, matrix, row_lower, row_upper),
        column=columns.x[groups.first],
        op=columns.z,
        stall=columns.stall,
        port=port,
        port_constant=float(ports.constant[:, -1].sum()),
        alike=groups,
        unit_ps=unit,
        overhead_ps=int(costs.overhead_ps.sum()),
    )


def is_large(model: StaticModel) -> bool:
    """Return whether only the relaxed program can be solved, see `MOST_ENTRIES`."""
    return bool(model.program.matrix.nnz > MOST_ENTRIES)


def lifetimes(task: Task) -> tuple[Ints, Ints]:
    """Return the first and the last op of the shortest life that a block of each tensor can have, int64[K] each."""
    program = task.program
    weight = program.tensor_kind == TensorKind.WEIGHT
    if task.streams_weights:
        return np.where(weight, program.live_start - 1, program.live_start), program.live_end
    return np.where(weight, 0, program.live_start), np.where(weight, program.num_ops - 1, program.live_end)


def _columns(task: Task, groups: Alike, ordered: bool) -> _Columns:
    program, accelerator, costs = task.program, task.accelerator, task.costs
    first, _ = lifetimes(task)
    placeable = program.is_placeable
    can = (placeable & ((first >= 0) | (not ordered)) & (groups.rank == 0))[:, None] & task.allowed[:, :-1]
    can &= program.tensor_bytes[:, None] <= task.capacities[:-1]
    # y of an op is needed for each level with latency that a placeable tensor may be served from. An op with a tensor
    # that is always in the backing memory touches that in any case: a constant, see `_ports`.
    touchable = np.zeros((program.num_ops, accelerator.num_levels), dtype=bool)
    touchable[program.use_op[placeable[program.use_tensor]]] = costs.latency_ps > 0
    touchable[program.use_op[~placeable[program.use_tensor]], -1] = False
    ops = np.ones(program.num_ops, dtype=bool)
    copies = ops & task.streams_weights
    held = np.ones(accelerator.backing, dtype=bool)
    wanted = [can, touchable, held, ops, copies, copies]
    # Kind by kind, each wanted entry gets the next number.
    ends = np.cumsum([part.sum() for part in wanted])
    numbered = [np.full(part.shape, -1) for part in wanted]
    for part, number, end in zip(wanted, numbered, ends, strict=True):
        number[part] = np.arange(end - part.sum(), end)
    x, y, held, z, bank, stall = numbered
    given, halved = _pairs(task, groups, x, ordered)
    total = int(ends[-1]) + len(given)
    return _Columns(groups.size, groups.rank == 0, x, y, held, z, bank[copies], stall[copies], given, halved, total)


def _pairs(task: Task, groups: Alike, x: Ints, ordered: bool) -> tuple[Ints, Ints]:
    """Return `given` and `halved` of `_Columns`, of ops that would overflow if all that can be there were."""
    operand, result, op = task.program.handovers.T
    first, last = lifetimes(task)
    parts = [np.empty((0, 5), dtype=np.int64)]
    for level in range(task.backing if len(op) and ordered else 0):
        inside = x[:, level] >= 0
        size = (task.program.tensor_bytes * groups.size)[inside]
        held = np.zeros(task.program.num_ops + 1, dtype=np.int64)
        np.add.at(held, first[inside], size)
        np.subtract.at(held, last[inside] + 1, size)
        pairs = np.stack([groups.first[operand], groups.first[result], op, np.full(len(op), level)], 1)
        could = inside[pairs[:, :2]].all(axis=1) & (held.cumsum() > task.room_bytes(level))[op]
        rows, count = np.unique(pairs[could], axis=0, return_counts=True)
        parts.append(np.column_stack([rows, count]))
    rows = np.concatenate(parts)
    # Halves are enough where all pairs of an op in a level have one operand, or one result.
    place = rows[:, 2] * task.backing + rows[:, 3]
    ends = [np.unique(np.stack([tensor, place]), axis=1)[1] for tensor in rows[:, :2].T]
    alone = np.minimum(*(np.bincount(end)[place] for end in ends)) == 1
    return rows[~alone], rows[alone]


def _ports(task: Task, costs: Costs, columns: _Columns, unit: float) -> _Ports:
    program, accelerator = task.program, task.accelerator
    shape = (program.num_ops, columns.total)
    x = columns.x[program.use_tensor]
    matrix = []
    # m of a fast level adds the use's cost if x is 1. m of the backing memory begins with the cost of all uses, the
    # constant, and takes away that of the uses for which any x is 1.
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


def _op_times(rows: RowBuilder, costs: Costs, columns: _Columns, ports: _Ports, unit: float) -> None:
    """Add rows z >= port times, for ops where these can exceed the compute time."""
    matrices, constants = ports.matrix, list(ports.constant.T)
    upper = np.ones(columns.total)
    tensor, level = np.nonzero(columns.x >= 0)
    upper[columns.x[tensor, level]] = columns.members[tensor]
    if costs.serial:
        matrices, constants = [sum(matrices[1:], start=matrices[0])], [ports.constant.sum(axis=1)]
    for matrix, constant in zip(matrices, constants, strict=True):
        # The port time with all columns of positive coefficients at their most, the others at 0: no solution has more.
        most = matrix.maximum(0) @ upper + constant
        ops = np.flatnonzero(most > costs.compute_ps / unit)
        row = rows.new(len(ops), constant[ops])
        rows.add(row, columns.z[ops])
        rows.subtract(row, matrix[ops])


def _touches(rows: RowBuilder, program: Program, columns: _Columns) -> None:
    """Add rows y >= x for each use, and y + sum_l x >= 1 for the backing memory."""
    x, y = columns.x[program.use_tensor], columns.y[program.use_op]
    count = columns.members[program.use_tensor]
    use, level = np.nonzero((x >= 0) & (y[:, :-1] >= 0))
    row = rows.new(len(use))
    rows.add(row, y[use, level], count[use])
    rows.add(row, x[use, level], -1)
    stands = program.is_placeable & columns.stands
    use = np.flatnonzero((y[:, -1] >= 0) & stands[program.use_tensor])
    row = rows.new(len(use), count[use])
    rows.add(row, y[use, -1], count[use])
    rows.add(row[:, None], x[use])


def _one_level_each(rows: RowBuilder, columns: _Columns, must_leave: NDArray[np.bool_]) -> None:
    """Add rows sum_l x <= 1 for tensors with several fast levels, and >= 1 for those that the last may not hold."""
    must = np.flatnonzero(must_leave & columns.stands)
    rows.add(rows.new(len(must), columns.members[must])[:, None], columns.x[must])
    several = (columns.x >= 0).sum(axis=1) > 1
    tensors = columns.x[several]
    rows.add(rows.new(len(tensors), -columns.members[several])[:, None], tensors, -1)


def _handovers(rows: RowBuilder, columns: _Columns, level: int) -> None:
    """Add rows: an operand gives its place, and a result takes one, at most once."""
    column, given = columns.given_at(level)
    for tensor in given[:, :2].T:
        ends, end = np.unique(tensor, return_inverse=True)
        row = rows.new(len(ends))
        rows.add(row, columns.x[ends, level])
        rows.add(row[end], column, -1)


def _capacity(rows: RowBuilder, task: Task, columns: _Columns, level: int) -> None:
    """Add rows for w at least the resident weights, and one for each maximal live set that could overflow.

    If ops reserve bytes there is one for each stretch of ops with the same live set, and the most that they reserve.
    That of an op with columns g stays: it may be the largest and yet need fewer bytes than another.
    """
    program, capacity = task.program, int(task.capacities[level])
    size = program.tensor_bytes * (CAPACITY / capacity)
    inside = columns.x[:, level] >= 0
    always = inside & (program.tensor_kind == TensorKind.WEIGHT) & (not task.streams_weights)
    weights, others = np.flatnonzero(always), np.flatnonzero(inside & ~always)
    row = rows.new(1)
    rows.add(row, columns.held[[level]])
    rows.add(row, columns.x[weights, level], -size[weights])

    first, last = (ends[others] for ends in lifetimes(task))
    column, given = columns.given_at(level)
    halved = columns.halved[columns.halved[:, 3] == level]
    begin, end = _halves(others, first, last, halved)
    reserve = np.repeat(task.kept_bytes[:, level], 2)
    if reserve.any():
        # The live set changes only where an interval begins or after one ends.
        points = np.unique(np.concatenate([[0], begin[begin > 0], end[end + 1 < len(reserve)] + 1]))
        reserved = np.maximum.reduceat(reserve, points)
    else:
        both = _halves(others, first, last, np.concatenate([halved, given]))
        points = _maximal(*both) if len(others) else np.zeros(1, dtype=np.int64)
        points = np.union1d(points[~np.isin(points // 2, given[:, 2])], 2 * given[:, 2])
        reserved = np.zeros_like(points)
    # Each tensor is live at a stretch of points: a matrix of both would have a billion entries for 10,000 ops.
    since, until = np.searchsorted(points, begin), np.searchsorted(points, end, side="right")
    most = program.tensor_bytes * columns.members
    held = np.zeros(len(points) + 1, dtype=np.int64)
    np.add.at(held, since, most[others])
    np.subtract.at(held, until, most[others])
    full = held[:-1].cumsum() + most[weights].sum() + reserved > capacity
    row = rows.new(int(full.sum()), reserved[full] * (CAPACITY / capacity) - CAPACITY)
    rows.add(row, np.full(len(row), columns.held[level]), -1)
    number = np.append(0, full.cumsum())
    count = number[until] - number[since]
    at = np.arange(count.sum()) + np.repeat(number[since] - count.cumsum() + count, count)
    rows.add(row[at], np.repeat(columns.x[others, level], count), np.repeat(-size[others], count))
    rows.add(row[np.searchsorted(points[full], 2 * given[:, 2])], column, size[given[:, 0]])


def _halves(tensors: Ints, first: Ints, last: Ints, pairs: Ints) -> tuple[Ints, Ints]:
    """Return the lives of tensors in halves of ops, of which pairs share one op: the operand has its first half.

    Without pairs a life has both halves of its first and of its last op.
    """
    return 2 * first + np.isin(tensors, pairs[:, 1]), 2 * last + 1 - np.isin(tensors, pairs[:, 0])


def live_sets(first: Ints, last: Ints) -> NDArray[np.bool_]:
    """Return the maximal sets of intervals [first, last] that share a point, bool[R, n]."""
    points = _maximal(first, last)[:, None]
    return (first <= points) & (last >= points)


def _maximal(first: Ints, last: Ints) -> Ints:
    """Return the points at which maximal sets of intervals [first, last] begin, int64[R].

    A set at the start of one interval is maximal iff some member ends before the next one starts.
    """
    starts = np.unique(first)
    return starts[np.unique(np.searchsorted(starts, last, side="right") - 1)]


def _bank(rows: RowBuilder, program: Program, costs: Costs, columns: _Columns, ports: _Ports, unit: float) -> None:
    """Add rows that give copies only the backing port time that ops and stalls leave."""
    copied, level = _fast_weights(program, columns)
    # Row t: -b[t] + s[t] + b[t-1] + z[t-1] - m[t-1, B] - (copies due by t) >= -overhead[t-1].
    lower = np.zeros(program.num_ops)
    lower[1:] = ports.constant[:-1, -1] - costs.overhead_ps[:-1] / unit
    row = rows.new(program.num_ops, lower)
    rows.add(row, columns.bank, -1)
    rows.add(row, columns.stall)
    rows.add(row[1:], columns.bank[:-1])
    rows.add(row[1:], columns.z[:-1])
    rows.add(row[program.live_start[copied]], columns.x[copied, level], -costs.prefetch_ps[copied] / unit)
    rows.subtract(row[1:], ports.matrix[-1][:-1])


def _fast_weights(program: Program, columns: _Columns) -> tuple[Ints, Ints]:
    """Return each weight and fast level with a column x, int64[n] each."""
    tensor, level = np.nonzero(columns.x >= 0)
    weight = program.tensor_kind[tensor] == TensorKind.WEIGHT
    return tensor[weight], level[weight]

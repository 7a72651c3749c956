"""The one-shot problem over all orders of ops, as a mixed-integer linear program.

Columns and rows are those of `static_model` but for its capacity and for copies. With r[t] the least that op t reserves
in any order, w[l] the resident weights, and `always` the tensors that are alive at t in every order,

    w[l] + sum_{k always at t} bytes_k x[k, l] - sum_{(k, r) at t} bytes_r y[k, r, l] <= capacity_l - r[t]

is true in all of them. y <= x[k, l], y <= x[r, l] says that result r takes the place of operand k in op t, where
`Program.inplace` has the pair; each gives, and takes, once. A pair whose operand has another reader that comes after t
in every order is left out. All that ops and copies do at the backing port takes no longer than the whole.

With pairs of ops: binary b[s, t] = 1 if op s comes before op t, for each pair that is free, constant for the others.
Tensors that may be alive at t join its row as v[k, t, l] >= x[k, l] + b[s, t] + b[t, u] - 2 for each use u and the use
s that makes the tensor (any two uses of a streamed weight), and y <= b[u, t] for each other reader u of the operand.
Any order keeps b[i, j] + b[j, k] + b[k, i] <= 2; these rows are added where an answer breaks them. Then the optimum is
that of the best order, but for what ops reserve beside others, copies of weights and addresses: still a lower bound.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from memplace_agents.exact.highs import CAPACITY, Floats, LinearProgram
from memplace_agents.exact.order.freedom import Freedom, is_resident
from memplace_agents.exact.rows import RowBuilder
from memplace_agents.exact.static.static_model import StaticModel, build
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints

MOST_CYCLES = 5_000
"""Most rows that one answer adds. Our choice."""


class OrderModel(NamedTuple):
    """A linear program, see the module, and the meaning of its columns.

    Attributes:
        program: minimises the latency without overhead.
        static: the program that it is made of, whose columns come first.
        before: bool[T, T], the constants among b.
        pair: int64[T, T], column of b[s, t] for s < t; -1 if there is none.
    """

    program: LinearProgram
    static: StaticModel
    before: NDArray[np.bool_]
    pair: Ints

    def terms(self, first: ArrayLike, second: ArrayLike) -> tuple[Ints, Floats, Floats]:
        """Return columns, factors and constants of b[first, second], int64 and float64 of their shape."""
        one, other = np.broadcast_arrays(np.asarray(first), np.asarray(second))
        column = self.pair[np.minimum(one, other), np.maximum(one, other)]
        constant = np.where(column >= 0, one > other, self.before[one, other])
        return column, np.where(one < other, 1.0, -1.0), constant.astype(np.float64)

    def order(self, values: Floats) -> Ints | None:
        """Return the order int64[T] of an answer; None if it goes in circles."""
        later = self._comes_before(values)
        place = later.sum(axis=0)
        return np.argsort(place) if (np.sort(place) == np.arange(len(place))).all() else None

    def without_circles(self, values: Floats) -> OrderModel:
        """Return the program with rows that forbid circles of three ops in an answer."""
        later = self._comes_before(values)
        found = np.zeros((0, 3), dtype=np.int64)
        for op in range(len(later)):
            # op before second, second before third, third before op; each circle once, from its lowest op.
            circle = np.argwhere(later[op][:, None] & later & later[:, op][None])
            circle = circle[(circle > op).all(axis=1)]
            found = np.concatenate([found, np.column_stack([np.full(len(circle), op), circle])])
            if len(found) > MOST_CYCLES:
                break
        rows = RowBuilder()
        row, total = rows.new(len(found), -2.0), np.zeros(len(found))
        for one, other in ((0, 1), (1, 2), (2, 0)):
            column, factor, constant = self.terms(found[:, one], found[:, other])
            rows.add(row, column, -factor)
            total += constant
        matrix, lower, _ = rows.matrix(len(self.program.cost))
        return self._replace(program=_with_rows(self.program, matrix, lower + total))

    def _comes_before(self, values: Floats) -> NDArray[np.bool_]:
        later = self.before.copy()
        first, second = np.nonzero(self.pair >= 0)
        chosen = values[self.pair[first, second]] > 0.5
        later[first, second], later[second, first] = chosen, ~chosen
        return later


def order_model(task: Task, freedom: Freedom, *, pairs: bool) -> OrderModel:
    """Return the program of all orders; with `pairs` that of the best order, which has a binary for each free pair."""
    static = build(task, ordered=False)
    return _Builder(task, freedom, static, pairs).model()


class _Builder:
    """Rows and columns behind those of the static program."""

    def __init__(self, task: Task, freedom: Freedom, static: StaticModel, pairs: bool) -> None:
        self.task, self.freedom, self.static = task, freedom, static
        self.rows, self.count = RowBuilder(), len(static.program.cost)
        self.upper: list[Floats] = []
        free = freedom.free if pairs else np.zeros((0, 2), dtype=np.int64)
        self.paired = len(free) > 0
        pair = np.full(freedom.before.shape, -1)
        pair[free[:, 0], free[:, 1]] = self._columns(len(free), 1.0)
        self.last_pair = self.count
        self.orders = OrderModel(static.program, static, freedom.before, pair)
        self.members = static.alike.size.astype(np.float64)
        self.stands = static.alike.rank == 0

    def model(self) -> OrderModel:
        program, first = self.static.program, len(self.static.program.cost)
        if self.paired:
            self._implied()
        for level in range(self.task.backing):
            self._capacity(level)
        # Latency is at least what the backing port is busy; both leave out what does not depend on columns.
        row = self.rows.new(1, self.static.port_constant - self.static.overhead_ps / self.static.unit_ps)
        self.rows.add(row, np.arange(first), program.cost - self.static.port)
        added = self.count - first
        matrix, lower, _ = self.rows.matrix(self.count)
        own = sp.csr_array(sp.hstack([program.matrix, sp.csr_array((len(program.row_lower), added))]))
        wider = replace(
            program,
            cost=np.append(program.cost, np.zeros(added)),
            lower=np.append(program.lower, np.zeros(added)),
            upper=np.concatenate([program.upper, *self.upper]),
            integrality=np.append(program.integrality, np.arange(first, self.count) < self.last_pair),
            matrix=own,
        )
        return self.orders._replace(program=_with_rows(wider, matrix, lower))

    def _columns(self, count: int, upper: ArrayLike = np.inf) -> Ints:
        self.upper.append(np.broadcast_to(np.asarray(upper, dtype=np.float64), count))
        self.count += count
        return np.arange(self.count - count, self.count)

    def _implied(self) -> None:
        """Add b[i, j] <= b[i, k] for each op k that depends on op j at once, where op i is free of both."""
        steps = self.freedom.before.astype(np.float32)
        for first, second in np.argwhere(self.freedom.before & ~(steps @ steps > 0)).tolist():
            known = self.freedom.before | self.freedom.before.T
            free = np.flatnonzero(~known[first] & ~known[second])
            (less, less_factor, less_constant), (more, more_factor, more_constant) = (
                self.orders.terms(free, op) for op in (first, second)
            )
            row = self.rows.new(len(free), less_constant - more_constant)
            self.rows.add(row, more, more_factor)
            self.rows.add(row, less, -less_factor)

    def _capacity(self, level: int) -> None:
        """Add w, y and v of a level, and its rows of the ops that could overflow."""
        task, freedom, x = self.task, self.freedom, self.static.column[:, level]
        capacity = task.accelerator.levels[level].capacity_bytes
        size, stays = task.program.tensor_bytes * (CAPACITY / capacity), is_resident(task)
        stands = self.stands & (x >= 0)
        held = self._columns(1)
        row = self.rows.new(1)
        self.rows.add(row, held)
        self.rows.add(row, x[stays & stands], -size[stays & stands])
        alive = [table & (stands & ~stays) for table in (freedom.always, freedom.maybe & self.paired)]
        most = size * self.members
        least = freedom.least // task.program.alignment * task.program.alignment
        kept = np.minimum(least, capacity) * (CAPACITY / capacity) if level == 0 else np.zeros(len(alive[0]))
        full = (alive[0] | alive[1]) @ most + most[stays & stands].sum() + kept > CAPACITY
        saved = self._in_place(level, full)
        for op in np.flatnonzero(full).tolist():
            tensors, others = (np.flatnonzero(table[op]) for table in alive)
            row = self.rows.new(1, kept[op] - CAPACITY)
            self.rows.add(row, held, -1)
            self.rows.add(row, x[tensors], -size[tensors])
            self.rows.add(row, self._alive(op, others, x), -size[others])
            for column, saves in saved[op]:
                self.rows.add(row, column, size[saves])

    def _alive(self, op: int, tensors: Ints, x: Ints) -> Ints:
        """Return columns v of tensors that may be alive at an op."""
        program, columns = self.task.program, self._columns(len(tensors), self.members[tensors])
        for column, tensor in zip(columns.tolist(), tensors.tolist(), strict=True):
            ops = program.use_op[program.use_tensor == tensor]
            maker = program.producer[tensor]
            uses = permutations(ops.tolist(), 2) if maker < 0 else ((maker, other) for other in ops if other != maker)
            ends = np.array([*uses], dtype=np.int64).reshape(-1, 2)
            terms = [self.orders.terms(ends[:, 0], op), self.orders.terms(op, ends[:, 1])]
            constant = terms[0][2] + terms[1][2]
            row = self.rows.new(len(ends), self.members[tensor] * (constant - 2))
            self.rows.add(row, np.full(len(ends), column))
            self.rows.add(row, np.full(len(ends), x[tensor]), -1)
            for part, factor, _ in terms:
                self.rows.add(row, part, -self.members[tensor] * factor)
        return columns

    def _in_place(self, level: int, full: NDArray[np.bool_]) -> dict[int, list[tuple[Ints, int]]]:
        """Add y of a level; return for each op the columns, and an operand of the bytes that each saves."""
        program, x, first = self.task.program, self.static.column[:, level], self.static.alike.first
        saved: dict[int, list[tuple[Ints, int]]] = defaultdict(list)
        once: dict[tuple[int, bool], list[Ints]] = defaultdict(list)
        pairs = zip(
            *program.use_tensor[program.inplace.T].tolist(), program.use_op[program.inplace[:, 0]].tolist(), strict=True
        )
        for operand, result, op in dict.fromkeys((int(first[one]), int(first[two]), op) for one, two, op in pairs):
            readers = program.use_op[(program.use_tensor == operand) & ~program.use_is_result]
            if not full[op] or min(x[operand], x[result]) < 0 or self.freedom.before[op, readers].any():
                continue
            column = self._columns(1)
            saved[op].append((column, operand))
            once[operand, False].append(column)
            once[result, True].append(column)
            others = readers[readers != op] if self.paired else readers[:0]
            before, factor, constant = self.orders.terms(others, op)
            row = self.rows.new(len(others), -constant * self.members[operand])
            self.rows.add(row, np.broadcast_to(column, len(others)), -1)
            self.rows.add(row, before, factor * self.members[operand])
        for (tensor, _), columns in once.items():
            row = self.rows.new(1)
            self.rows.add(row, x[[tensor]])
            self.rows.add(row, np.concatenate(columns), -1)
        return saved


def _with_rows(program: LinearProgram, matrix: sp.csr_array, lower: Floats) -> LinearProgram:
    return replace(
        program,
        matrix=sp.csr_array(sp.vstack([program.matrix, matrix])),
        row_lower=np.append(program.row_lower, lower),
        row_upper=np.append(program.row_upper, np.full(len(lower), np.inf)),
    )

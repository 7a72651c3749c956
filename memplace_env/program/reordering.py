"""The order of a program's ops: which must come before which, the program in another order, and one of few live bytes.

An order is a permutation, int64[T]: the numbers of the ops, as the file has them, in the order in which they run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.blocks import inner_ops
from memplace_env.program.program import Ints, Program, TensorKind

_KEPT: Final = re.compile("random|rng|bernoulli|multinomial|dropout|variable|hashtable", re.IGNORECASE)
"""Types of ops that draw numbers or change a state which no tensor shows: they keep their order among each other."""


def dependences(program: Program) -> Ints:
    """Return the distinct pairs (op, op that must come later), int64[D, 2], by the later op.

    An op comes after the producers of its operands, and after all that read a tensor whose place its result takes. Ops
    that draw random numbers or change a state stay in their order. The ends of `blocks.with_ends` stay ends.
    """
    kept = [op for op, kind in enumerate(program.op_type) if _KEPT.search(kind)]
    inner, last = inner_ops(program), program.num_ops - 1
    ends = [(0, op) for op in range(1, program.num_ops)] * (inner.start > 0)
    ends += [(op, last) for op in range(last)] * (inner.stop <= last)
    pairs = [program.edges.T, np.array([*pairwise(kept), *ends], dtype=np.int64).reshape(-1, 2)]
    for output in np.flatnonzero(program.alias_of >= 0).tolist():
        readers = program.use_op[program.use_tensor == program.alias_of[output]]
        pairs.append(np.stack([readers, np.full(len(readers), program.producer[output])], 1))
    every: Ints = np.unique(np.concatenate(pairs)[:, ::-1], axis=0)[:, ::-1]
    distinct: Ints = every[every[:, 0] != every[:, 1]]
    return distinct


def checked_order(program: Program, order: Sequence[int] | Ints) -> Ints:
    """Return an order of the program's ops.

    Raises:
        WorkloadError: if it is no permutation of the ops, or an op comes before one that it depends on.
    """
    ops, whole = program.num_ops, isinstance(order, np.ndarray) and order.dtype.kind in "iu"
    if not whole and not (isinstance(order, Sequence) and all(type(op) is int for op in order)):
        raise WorkloadError(f"The order of the {ops} ops of {program.name!r} is a list of their numbers.")
    known = len(order) == ops and (ops == 0 or bool(0 <= min(order) <= max(order) < ops))
    numbers = np.array(order if known else [], dtype=np.int64)
    place = np.full(ops, -1, dtype=np.int64)
    place[numbers] = np.arange(len(numbers))
    if (place < 0).any():
        raise WorkloadError(f"The order has not each of the {ops} ops of {program.name!r} once, 0 to {ops - 1}.")
    before, after = dependences(program).T
    for broken in np.flatnonzero(place[before] > place[after])[:1].tolist():
        raise WorkloadError(
            f"The order runs op {after[broken]} of {program.name!r} before op {before[broken]}, on which it depends."
        )
    return numbers


def reordered(program: Program, order: Sequence[int] | Ints) -> Program:
    """Return the program with its ops in an order int64[T]; itself if that is its own. Tensors keep their numbers.

    Raises:
        WorkloadError: if it is no permutation of the ops, or an op comes before one that it depends on; for slices,
            whose whole is to be reordered.
    """
    if program.slices is not None:
        raise WorkloadError(f"{program.name!r} is cut into slices; reorder its whole and cut that.")
    numbers = checked_order(program, order)
    if (numbers == np.arange(program.num_ops)).all():
        return program
    counts = np.diff(program.use_ptr)[numbers]
    use_ptr = np.concatenate([[0], counts.cumsum()])
    uses = np.arange(program.num_uses) + np.repeat(program.use_ptr[:-1][numbers] - use_ptr[:-1], counts)
    new_use, new_op = np.empty_like(uses), np.empty(program.num_ops, dtype=np.int64)
    new_use[uses] = np.arange(program.num_uses)
    new_op[numbers] = np.arange(program.num_ops)
    pairs = new_use[program.inplace]
    by_op = np.argsort(new_op[program.use_op[program.inplace[:, 0]]], kind="stable")
    return replace(
        program,
        producer=np.where(program.producer < 0, -1, new_op[program.producer]),
        op_type=tuple(program.op_type[op] for op in numbers.tolist()),
        op_name=tuple(program.op_name[op] for op in numbers.tolist()),
        gemm=program.gemm[numbers],
        vector_ops=program.vector_ops[numbers],
        geometry=program.geometry[numbers],
        use_ptr=use_ptr,
        use_tensor=program.use_tensor[uses],
        use_is_result=program.use_is_result[uses],
        use_bytes=program.use_bytes[uses],
        use_halo=program.use_halo[uses],
        inplace=pairs[by_op],
        op_nodes=tuple(program.op_nodes[op] for op in numbers.tolist()) if program.op_nodes else (),
    )


def memory_order(program: Program) -> Ints:
    """Return an order in which few bytes are alive at once: at no time more than the most in the program's own.

    A list schedule: of the ops whose operands are there, the one comes next that leaves the fewest bytes alive; of
    equal ones the first in the file, or the one whose operands were last to come. The better of the two is taken, and
    the program's own order unless they beat it.
    """
    own = np.arange(program.num_ops)
    return min((own, _list_schedule(program, 1), _list_schedule(program, -1)), key=lambda order: _peak(program, order))


def _list_schedule(program: Program, ties: int) -> Ints:
    """Return an order; of equal ops the first of the file comes if `ties` is 1, the last to be ready if it is -1."""
    own = (program.producer >= 0) & (program.alias_of < 0)
    size = np.where(own, program.tensor_bytes, 0).tolist()
    # By tensor the ops that have yet to read it; a graph output is needed once more, so nobody lets it go.
    readers: list[set[int]] = [set() for _ in size]
    operands: list[list[int]] = [[] for _ in range(program.num_ops)]
    uses = zip(program.use_op.tolist(), program.use_tensor.tolist(), program.use_is_result.tolist(), strict=True)
    for op, tensor, is_result in uses:
        if not is_result:
            readers[tensor].add(op)
            operands[op].append(tensor)
    for output in np.flatnonzero(program.tensor_kind == TensorKind.OUTPUT).tolist():
        readers[output].add(-1)
    # Bytes by which each op, if it came next, would change what is alive behind it.
    change = [0] * program.num_ops
    for tensor, ops in enumerate(readers):
        if own[tensor] and ops:
            change[program.producer[tensor]] += size[tensor]
        if len(ops) == 1:
            change[min(ops)] -= 0 if -1 in ops else size[tensor]
    later: list[list[int]] = [[] for _ in range(program.num_ops)]
    waits = [0] * program.num_ops
    for before, after in dependences(program).tolist():
        later[before].append(after)
        waits[after] += 1
    order: list[int] = []
    ready = [(change[op], op, op) for op in range(program.num_ops) if not waits[op]]
    heapify(ready)
    done = [False] * program.num_ops
    rank = list(range(program.num_ops))
    # An op has an entry for each value that its change ever had; only those of the present one count.
    while ready:
        bytes_more, _, op = heappop(ready)
        if done[op] or bytes_more != change[op]:
            continue
        done[op] = True
        order.append(op)
        for tensor in operands[op]:
            readers[tensor].discard(op)
            if len(readers[tensor]) == 1 and -1 not in readers[tensor]:
                (last,) = readers[tensor]
                change[last] -= size[tensor]
                if not waits[last]:
                    heappush(ready, (change[last], rank[last], last))
        for after in later[op]:
            waits[after] -= 1
            if not waits[after]:
                rank[after] = after if ties > 0 else -len(order)
                heappush(ready, (change[after], rank[after], after))
    return np.array(order, dtype=np.int64)


def _peak(program: Program, order: Ints) -> int:
    """Return the most bytes of results that are alive at once in an order."""
    return int(reordered(program.whole, order).live_bytes.max())

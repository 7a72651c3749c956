"""The decisions of the program that moves tensors, and the column of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints, TensorKind


class Uses(NamedTuple):
    """Times at which tensors can be in a memory; K tensors, U uses.

    Attributes:
        before: int64[U], the previous use of the same tensor, -1 for its first.
        after: int64[U], the next one, -1 for its last.
        valid: int64[K], first op during which the backing memory can hold the tensor at all: 0 for weights and inputs,
            the op after its producer else, T for results that it may not hold.
        sent_by: int64[K], last op during which writing a result back is of any use: T for graph outputs, the op before
            its last use for others; -1 for weights, inputs and results that the backing memory may not hold.
        first, last: int64[K], its first and last use.
    """

    before: Ints
    after: Ints
    valid: Ints
    sent_by: Ints
    first: Ints
    last: Ints


@derived
def uses_of(task: Task) -> Uses:
    """Return the times of a task, see `Uses`."""
    program = task.program
    tensor, count = program.use_tensor, program.num_uses
    # Uses sorted by tensor, then by time: neighbours with the same tensor follow each other.
    order = np.lexsort((np.arange(count), tensor))
    same = tensor[order[1:]] == tensor[order[:-1]]
    before, after = np.full(count, -1), np.full(count, -1)
    before[order[1:][same]] = order[:-1][same]
    after[order[:-1][same]] = order[1:][same]
    first, last = np.full(program.num_tensors, -1), np.full(program.num_tensors, -1)
    first[tensor[before < 0]] = np.flatnonzero(before < 0)
    last[tensor[after < 0]] = np.flatnonzero(after < 0)
    is_result = program.producer >= 0
    output = program.tensor_kind == TensorKind.OUTPUT
    sent_by = np.where(is_result, np.where(output, program.num_ops, program.use_op[last] - 1), -1)
    valid, never = program.producer + 1, is_result & task.must_leave
    valid[never], sent_by[never] = program.num_ops, -1
    return Uses(before, after, valid, sent_by, first, last)


class Columns(NamedTuple):
    """Columns of the program; F = L-1 fast levels, -1 where there is none. All lie in [0, 1] but `time`.

    Attributes:
        resident: int64[K, F], the weight is in the level all the time; only if weights are not streamed.
        here: int64[U, F], a valid block is in the level at the use, and may be gone before and after; a result is made
            there.
        fast: int64[U, F], the use is served from it; the column of `here` where nothing is lost by that.
        stay: int64[U, F], that block has been there since the use before.
        copied: int64[U, F], the first column of the copy for the use; column copied[u, l] + i is the share that is done
            by the end of op window[u] + i; the last is that of the op before the use.
        early: int64[U, F], the share of the copy that is done before op window[u].
        window: int64[U], see above.
        moved: int64[U, F, F], the first column of a copy for the use from another fast level, the last index, from op
            since[u] on, which follows the use before.
        since: int64[U], see above.
        sent: int64[K, F], likewise the first column of the write-back, from op valid[k] to sent_by[k].
        touches: int64[T, L], whether the op uses the level, where that costs latency.
        time: int64[T+1], time of each op and of the wait behind it, and of the tail.
        spare, bank: int64[T], port time that the op leaves, and that early copies may still use when it starts; only
            if there are early copies.
        op: int64[total], the op of each column: of its use, its share or its time; for `stay` that of the use before, 0
            for `resident`.
        total: number of columns so far.
    """

    resident: Ints
    here: Ints
    fast: Ints
    stay: Ints
    copied: Ints
    early: Ints
    window: Ints
    moved: Ints
    since: Ints
    sent: Ints
    touches: Ints
    time: Ints
    spare: Ints
    bank: Ints
    op: Ints
    total: int


def number_columns(task: Task, uses: Uses, window: Ints) -> Columns:
    """Return the columns of all decisions that some plan needs.

    Args:
        task: the problem.
        uses: its times, see `Uses`.
        window: int64[U], first op in which the copy for a use is followed.
    """
    program, costs, backing = task.program, task.costs, task.backing
    tensor, op = program.use_tensor, program.use_op
    weight = program.tensor_kind == TensorKind.WEIGHT
    can = task.allowed[:, :-1] & (program.tensor_bytes[:, None] <= task.capacities[:-1])
    resident = can & weight[:, None] & (not task.streams_weights)
    result = program.use_is_result[:, None]
    stays = can[tensor] & (uses.before >= 0)[:, None]
    copies = can[tensor] & ~result & (uses.valid[tensor] < op)[:, None]
    behind = np.where(uses.before >= 0, op[uses.before] + 1, 0)
    moves = can[tensor][:, :, None] & (stays | resident[tensor])[:, None, :] & (behind < op)[:, None, None]
    moves &= ~np.eye(backing, dtype=bool) & task.fast_copies
    here = np.where(result, can[tensor], stays | copies | moves.any(axis=2))
    # Being served from a block costs no latency if ports are serial, no level has a latency, weights are streamed, and
    # the one fast level takes no longer than the backing memory: then `fast` shares the column of `here`.
    cheap = costs.serial and backing == 1 and task.streams_weights and not costs.latency_ps.any()
    apart = (here | resident[tensor]) & ~result & ((costs.use_ps[:, :-1] > costs.use_ps[:, -1:]) | (not cheap))
    early = copies & (window > uses.valid[tensor])[:, None]
    sends = can & (uses.sent_by >= uses.valid)[:, None] & (program.producer >= 0)[:, None]
    # An op touches a level at a cost only if that level has a latency.
    touched = np.zeros((program.num_ops, backing + 1), dtype=bool)
    touched[op] = costs.latency_ps > 0
    time = np.arange(program.num_ops + 1)
    # Who has columns, how many each, and the op of the first of them.
    parts: list[tuple[NDArray[np.bool_], int | Ints, int | Ints]] = [
        (resident, 1, 0),
        (here, 1, op[:, None]),
        (apart, 1, op[:, None]),
        (stays, 1, op[uses.before][:, None]),
        (copies, (op - window)[:, None], window[:, None]),
        (early, 1, window[:, None]),
        (sends, (uses.sent_by - uses.valid + 1)[:, None], uses.valid[:, None]),
        (touched, 1, time[:-1, None]),
        (np.ones(program.num_ops + 1, dtype=bool), 1, time),
        (np.full(program.num_ops, early.any()), 1, time[:-1]),
        (np.full(program.num_ops, early.any()), 1, time[:-1]),
        (moves, (op - behind)[:, None, None], behind[:, None, None]),
    ]
    total, first, ops = 0, list[Ints](), list[Ints]()
    for wanted, lengths, begin in parts:
        taken = np.where(wanted, lengths, 0)
        ends = total + np.cumsum(taken).reshape(wanted.shape)
        first.append(np.where(taken > 0, ends - taken, -1))
        since = np.broadcast_to(begin, wanted.shape) - (ends - taken)
        ops.append(np.repeat(since.ravel(), taken.ravel()) + np.arange(total, total + taken.sum()))
        total += int(taken.sum())
    resident_, here_, apart_, stay_, copied_, early_, *others, moved_ = first
    uses_columns = [resident_, here_, np.where(apart_ >= 0, apart_, here_), stay_, copied_, early_]
    return Columns._make([*uses_columns, window, moved_, behind, *others, np.concatenate(ops), total])

"""Results in the place of operands: who may take whose bytes, and blocks of one life for those that do.

While bytes are counted, a result of a pair (`Program.handovers`) takes the bytes of the first operand that lies in its
level and that no other result has taken, so that only one of both counts in the op. Whatever took another's bytes then
gets its address too. To do so only in ops that have no room for both was no better in trials on the registered
workloads, and slower.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.kernel import kernel
from memplace_env.placement.compiler.block_neighbours import neighbours_of, no_lists
from memplace_env.placement.compiler.packing import pack_level
from memplace_env.placement.compiler.placing_kernels import most_reserved
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program

GIVER, TAKER = 0, 1
"""Rows of `links`: the operand whose bytes a result took, and the result that took an operand's last; -1 for none.

They hold where both have the same fast level now: whoever gets another one gets its links anew.
"""


class Pairs(NamedTuple):
    """The pairs of a program.

    Attributes:
        ptr: int64[K + 1]; tensor k may take the place of giver[ptr[k]:ptr[k + 1]].
        giver: int64[H], operands that die where the result is made.
        rank: int64[K], number of each tensor among the blocks (`packing`).
    """

    ptr: Ints
    giver: Ints
    rank: Ints


def pairs_of(task: Task, by_rank: NDArray[np.unsignedinteger], in_place: bool) -> Pairs:
    """Return the pairs of a task, or none unless `in_place`; `by_rank` are the tensors that need addresses."""
    program, pairs = task.program, task.handovers[: None if in_place else 0]
    pairs = pairs[np.argsort(pairs[:, 1], kind="stable")]
    rank = np.zeros(program.num_tensors, dtype=np.int64)
    rank[by_rank] = np.arange(len(by_rank))
    return Pairs(np.searchsorted(pairs[:, 1], np.arange(program.num_tensors + 1)), pairs[:, 0].copy(), rank)


def pairs_of_tensors(program: Program, in_place: bool) -> tuple[Ints, Ints, Ints]:
    """Return the pairs of a program, or none unless `in_place`, for each end.

    Returns:
        Handovers int64[H, 3]; ptr int64[K + 1] and row int64[2 H]: those of tensor k are row[ptr[k]:ptr[k + 1]].
    """
    pairs = np.ascontiguousarray(program.handovers[: None if in_place else 0])
    ends = pairs[:, :2].ravel()
    by_tensor = np.argsort(ends, kind="stable")
    ptr = np.searchsorted(ends[by_tensor], np.arange(program.num_tensors + 1))
    return pairs, ptr, by_tensor // 2


@kernel
def no_links(pairs):
    """Return `links` int64[2, K] in which nothing has been taken yet; empty where there are no pairs."""
    return np.full((2, len(pairs.rank) if len(pairs.giver) > 0 else 0), -1, dtype=np.int64)


@kernel(forceinline=True, borrows=True)
def _has_taken(links, level, giver, taker):
    """Return whether a result lies in the bytes that it took from an operand; not if either got another level since."""
    return taker >= 0 and links[GIVER, taker] == giver and level[giver] == level[taker]


@kernel(forceinline=True, borrows=True)
def giver_in(pairs, links, level, tensor, got):
    """Return the first operand whose bytes in the level `got` a tensor may take; -1 if there is none."""
    for index in range(pairs.ptr[tensor], pairs.ptr[tensor + 1]):
        giver = pairs.giver[index]
        if level[giver] == got and not _has_taken(links, level, giver, links[TAKER, giver]):
            return giver
    return np.int64(-1)


@kernel(forceinline=True, borrows=True)
def link(links, tensor, giver):
    """Note that a tensor took the bytes of `giver`, or of none if that is -1."""
    if links.shape[1] > 0:
        links[GIVER, tensor] = giver
        if giver >= 0:
            links[TAKER, giver] = tensor


@kernel(forceinline=True, borrows=True)
def shares(links, level, tensor):
    """Return whether a tensor lies in the bytes of an operand."""
    giver = links[GIVER, tensor]
    return giver >= 0 and _has_taken(links, level, giver, tensor)


@kernel
def pack_in_place(schedule, blocks, tensors, got, room, arrays):
    """Find addresses for the blocks of one level as `pack_level` does; return the bytes without.

    Args:
        schedule: the Schedule.
        blocks: as for `pack_level`.
        tensors: `level` and `links` of all.
        got: the level.
        room: its bytes; with streamed weights also those that ops reserve.
        arrays: ceiling, offset and end int64[R], filled in, and scratch of `pack_level`; members of one block all have
            its address.
    """
    (size, first, last, pin), by_rank, reserved = blocks, schedule.by_rank, schedule.costs.reserved_bytes
    (level, links), (ceiling, offset, end, space) = tensors, arrays
    count = 0
    # Of what shares one block the first, `head`, stands for all and lasts to the end of the last one. An operand has a
    # smaller rank than a result of the same bytes, so that its own head is known.
    members, head = np.empty(len(size), dtype=np.uint32), np.arange(len(size))
    until, here = last.copy(), np.zeros(len(size), dtype=np.bool_)
    for block in range(len(size)):
        tensor = by_rank[block]
        if level[tensor] != got:
            continue
        if shares(links, level, tensor):
            head[block] = head[schedule.pairs.rank[links[GIVER, tensor]]]
            until[head[block]] = last[block]
        else:
            members[count], here[block] = block, True
            count += 1
    for block in range(len(size)):
        ceiling[block] = room
        if schedule.streamed and here[block]:
            ceiling[block] -= most_reserved(reserved, got, first[block], until[block])
    near = no_lists(len(size)) if schedule.crowded else neighbours_of(first, until, here)
    lost = pack_level((size, first, until, pin), near, members[:count], ceiling, offset, end, space)
    for block in range(len(size)):
        offset[block], end[block] = offset[head[block]], end[head[block]]
    return lost

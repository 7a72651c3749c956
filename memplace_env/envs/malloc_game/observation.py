"""What the player sees, computed from state rows alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numba import njit
from numpy.typing import NDArray

from memplace_env.envs.malloc_game.rules import choose, play
from memplace_env.envs.malloc_game.state import (
    BLOCKS,
    ESTIMATE,
    LIVE,
    MASK,
    NEVER,
    OFFSET,
    OP,
    PAST,
    USE,
    WINDOW,
    Tables,
)  # fmt: skip
from memplace_env.workload.program import Program, TensorKind

BINS = 64
"""Address bins of the profile, and its ops."""
AHEAD = 32
"""Decisions in the lookahead."""
TENSOR = (
    "size", "log_size", "is_weight", "is_input", "is_activation", "is_output", "is_result", "intact", "pending",
    "backed", "uses_left", "next_use", "copy_cost", "saves", "window", "offset",
)  # fmt: skip
"""Features of the tensor that the current decision is about, see `observation_space`."""
LOOKAHEAD = (
    "exists", "size", "log_size", "is_weight", "is_result", "is_output", "last_use", "distance", "backing_share",
    "compute_share", "intact", "backed",
)  # fmt: skip
"""Features of each coming decision, see `observation_space`."""
_STATIC = 10
_ARRAYS: dict[str, tuple[tuple[int, ...], type[np.generic]]] = {
    "profile": ((2, BINS, BINS), np.uint8),
    "bandwidth": ((BINS,), np.float32),
    "tensor": ((len(TENSOR),), np.float32),
    "lookahead": ((AHEAD, len(LOOKAHEAD)), np.float32),
    "progress": ((3,), np.float32),
    "action_mask": ((3,), np.int8),
}


class Buffers(NamedTuple):
    """The observation's arrays for B rows; keys and meaning as in `observation_space`."""

    profile: NDArray[np.uint8]
    bandwidth: NDArray[np.float32]
    tensor: NDArray[np.float32]
    lookahead: NDArray[np.float32]
    progress: NDArray[np.float32]
    action_mask: NDArray[np.int8]

    def rows(self, first: int, last: int) -> Buffers:
        """Views of rows first..last-1."""
        arrays: list[NDArray[Any]] = list(self)
        return Buffers(*(array[first:last] for array in arrays))

    def row(self, index: int) -> dict[str, NDArray[Any]]:
        """The observation of one row."""
        arrays: list[NDArray[Any]] = list(self)
        return {key: array[index] for key, array in zip(self._fields, arrays, strict=True)}


def observation_space() -> spaces.Dict:
    """Space of one observation. All floats lie in [0, 1].

    - `profile` uint8 (2, 64, 64): channel, address bin (low addresses first), op (the last 64, the current one last);
      how much of the bin is taken by blocks during the op, 255 for all of it. Channel 0: all blocks; channel 1: blocks
      that were protected then. Ops before the program's first are empty.
    - `bandwidth` float32 (64,): backing port time that copies may still use during the same ops, as a share of the
      op's time with everything in the backing memory; 0 for the current op.
    - `tensor` float32 (16,), columns `TENSOR`, of the tensor that the decision is about: size over capacity (cut off
      at 1); log2(1 + bytes) / 40; kind one-hot; whether the decision is about a result; whether its block is intact;
      whether a write-back is under way; whether the backing memory holds it; uses after this one over 8 (cut off);
      ops to the next use over 64 (1 if none); time of a copy c as c / (c + mean op time); what serving this use fast
      would save of the op's time with everything in the backing memory; ops that the copy would start ahead over 64
      and the offset of the new block over capacity (both 0 if no block would be placed).
    - `lookahead` float32 (32, 12), columns `LOOKAHEAD`, of the decisions from the current one on: whether there is
      one; size and log size as above; whether it is about a weight, a result, a graph output; whether it is the
      tensor's last use; its op's distance over 64 (cut off); the use's and the op's compute's share of the op's time
      with everything in the backing memory; whether its tensor's block is intact, whether backing memory holds it.
    - `progress` float32 (3,): share of decisions made; estimated latency over that with everything in the backing
      memory; share of ops that are final.
    - `action_mask` int8 (3,): 1 for legal Copy, NoCopy, Drop; zeros once the game is over.
    """
    return spaces.Dict(
        {key: spaces.Box(0, 255 if dtype is np.uint8 else 1, shape, dtype) for key, (shape, dtype) in _ARRAYS.items()}
    )


def make_buffers(rows: int) -> Buffers:
    """Uninitialised arrays for so many rows."""
    arrays: list[NDArray[Any]] = [np.empty((rows, *shape), dtype) for shape, dtype in _ARRAYS.values()]
    return Buffers(*arrays)


def use_features(program: Program, g: Tables) -> NDArray[np.float32]:
    """float32[U + 32, 10]: what of the lookahead and the current tensor never changes; zeros past the last use.

    Columns: `LOOKAHEAD` up to `compute_share`, but `distance` holds the op's number.
    """
    tensor, op = g.use_tensor, g.use_op
    size = program.tensor_bytes[tensor].astype(np.float64)
    whole = np.maximum(np.diff(-g.rest_ps), 1)[op]
    columns = [
        np.ones(program.num_uses),
        np.minimum(size / g.capacity, 1),
        np.log2(1 + size) / 40,
        program.tensor_kind[tensor] == TensorKind.WEIGHT,
        g.use_is_result,
        g.is_output[tensor],
        g.last_use[tensor] == np.arange(program.num_uses),
        op,
        g.use_ps[:, 1] / whole,
        g.compute_ps[op] / whole,
    ]
    features = np.stack(columns, axis=1).astype(np.float32)
    return np.concatenate([features, np.zeros((AHEAD, _STATIC), np.float32)])


def next_uses(g: Tables) -> NDArray[np.int64]:
    """int64[U, 2]: the op of the tensor's next use (NEVER if none) and how many uses follow."""
    following = np.full((len(g.use_op), 2), 0)
    op_of_next = np.full(len(g.size), NEVER)
    count = np.zeros(len(g.size), dtype=np.int64)
    for use in range(len(g.use_op) - 1, -1, -1):
        x = g.use_tensor[use]
        following[use] = op_of_next[x], count[x]
        op_of_next[x] = g.use_op[use]
        count[x] += 1
    return following


@njit(cache=True, nogil=True)
def observe_rows(g, at, rows, features, following, kind, out):  # type: ignore[no-untyped-def]
    """Fill all of the buffers `out` but the profiles; `features`, `following` as above, `kind` int8[K]."""
    for index in range(len(rows)):
        row = rows[index]
        _bandwidth(g, at, row, out.bandwidth[index])
        _decisions(g, at, row, features, following, kind, out.tensor[index], out.lookahead[index])
        out.progress[index, 0] = row[USE] / len(g.use_op)
        out.progress[index, 1] = min(max(row[ESTIMATE] / g.rest_ps[0], 0.0), 1.0)
        out.progress[index, 2] = row[OP] / len(g.compute_ps)
        for action in range(3):
            out.action_mask[index, action] = row[MASK] >> action & 1


@njit(cache=True, nogil=True)
def draw_profiles(g, at, rows, profiles):  # type: ignore[no-untyped-def]
    """Draw profiles uint8[B, 2, 64, 64] from nothing but the rows."""
    for index in range(len(rows)):
        row, profile = rows[index], profiles[index]
        profile[:] = 0
        now = min(row[OP], len(g.compute_ps) - 1)
        for place in range(row[LIVE]):
            _draw(g, at, row, row[at.live + place], 0, now, now, profile)
        for place in range(row[PAST] - 1, -1, -1):
            block = row[at.past + place]
            if row[at.hold + block] <= now - BINS:
                break
            _draw(g, at, row, block, 0, now, now, profile)


@njit(cache=True, nogil=True)
def step_rows(g, at, rows, actions, gains, played, profiles, features, following, kind, out):  # type: ignore[no-untyped-def]
    """Play one decision in each row as `rules.play_rows` does, and fill the buffers with what is seen then.

    `profiles` uint8[B, 2, 64, 64] are those of the rows before, and are brought up to date: that is what
    `draw_profiles` draws, for less.
    """
    mark = np.empty(4, dtype=np.int64)
    for index in range(len(rows)):
        row = rows[index]
        _mark(g, at, row, mark)
        played[index] = choose(row[MASK], actions[index])
        gains[index] = play(g, at, row, played[index]) if played[index] >= 0 else 0
        _update_profile(g, at, row, mark, profiles[index])
        out.profile[index] = profiles[index]
    observe_rows(g, at, rows, features, following, kind, out)


@njit(cache=True, nogil=True)
def _mark(g, at, row, mark):  # type: ignore[no-untyped-def]
    """Note what `_update_profile` must know of a row before a decision is played."""
    mark[0], mark[1], mark[2] = row[USE], row[OP], row[BLOCKS]
    if row[USE] < len(g.use_op):
        block = row[at.block + g.use_tensor[row[USE]]]
        mark[3] = row[at.hold + block] if block >= 0 else -1


@njit(cache=True, nogil=True)
def _update_profile(g, at, row, mark, profile):  # type: ignore[no-untyped-def]
    use, before = mark[0], mark[1]
    if use == row[USE]:
        return
    block = row[at.block + g.use_tensor[use]]
    if row[at.level + use] == 0:
        since = 0 if block >= mark[2] else mark[3] + 1
        _draw(g, at, row, block, since, before, before, profile)
    now = min(row[OP], len(g.compute_ps) - 1)
    if now == before:
        return
    for _ in range(min(now - before, BINS)):
        _shift(profile.reshape(2 * BINS * BINS).view(np.uint64))
    for place in range(row[LIVE]):
        if row[at.hold + row[at.live + place]] > before:
            _draw(g, at, row, row[at.live + place], before + 1, now, now, profile)
    for place in range(row[PAST] - 1, -1, -1):
        if row[at.hold + row[at.past + place]] <= before:
            break
        _draw(g, at, row, row[at.past + place], before + 1, now, now, profile)


@njit(cache=True, nogil=True)
def _shift(words):  # type: ignore[no-untyped-def]
    """Move a profile, as little-endian words of eight cells, one column to the left; the last column becomes 0."""
    byte, rest = np.uint64(8), np.uint64(56)
    for line in range(0, len(words), BINS // 8):
        for word in range(line, line + BINS // 8 - 1):
            words[word] = words[word] >> byte | words[word + 1] << rest
        words[line + BINS // 8 - 1] >>= byte


@njit(cache=True, nogil=True)
def _draw(g, at, row, block, since, until, now, profile):  # type: ignore[no-untyped-def]
    """Add ops since..until of a block to a profile whose last column is op `now`.

    A bin's share is rounded down, so that the shares of a bin never add up to more than 255.
    """
    left = now - BINS + 1
    begin = max(row[at.start + block], since, left) - left
    end = min(row[at.hold + block], until) - left + 1
    if end <= begin:
        return
    protected = min(row[at.released + block], until) - left + 1
    low = row[at.offset + block]
    high = low + g.size[row[at.tensor + block]]
    first_bin, last_bin = low * BINS // g.capacity, (high * BINS - 1) // g.capacity
    for address in range(first_bin, last_bin + 1):
        share = np.uint8(255)
        if address in (first_bin, last_bin):
            bottom, top = max(low * BINS, address * g.capacity), min(high * BINS, (address + 1) * g.capacity)
            share = np.uint8((top - bottom) * 255 // g.capacity)
        line = profile[0, address]
        for op in range(begin, end):
            line[op] += share
        line = profile[1, address]
        for op in range(begin, min(protected, end)):
            line[op] += share


@njit(cache=True, nogil=True)
def _bandwidth(g, at, row, bandwidth):  # type: ignore[no-untyped-def]
    now = min(row[OP], len(g.compute_ps) - 1)
    for column in range(BINS):
        op = now - BINS + 1 + column
        bandwidth[column] = 0.0
        if 0 <= op < row[OP]:
            whole = max(g.rest_ps[op] - g.rest_ps[op + 1], 1)
            bandwidth[column] = min(row[at.free + op] / whole, 1.0)


@njit(cache=True, nogil=True)
def _decisions(g, at, row, features, following, kind, tensor, lookahead):  # type: ignore[no-untyped-def]
    use, op = row[USE], row[OP]
    for step in range(AHEAD):
        ahead = use + step
        for column in range(_STATIC):
            lookahead[step, column] = features[ahead, column]
        lookahead[step, 10] = 0.0
        lookahead[step, 11] = 0.0
        if ahead < len(g.use_op):
            x = g.use_tensor[ahead]
            lookahead[step, 7] = min((features[ahead, 7] - op) / BINS, 1.0)
            lookahead[step, 10] = row[at.intact + x]
            lookahead[step, 11] = row[at.valid_from + x] <= op
    tensor[:] = 0.0
    if use == len(g.use_op):
        return
    x = g.use_tensor[use]
    tensor[0] = features[use, 1]
    tensor[1] = features[use, 2]
    tensor[2 + kind[x]] = 1.0
    tensor[6] = features[use, 4]
    tensor[7] = row[at.intact + x]
    tensor[8] = row[at.pending + x]
    tensor[9] = row[at.valid_from + x] <= op
    tensor[10] = min(following[use, 1] / 8, 1.0)
    tensor[11] = min((following[use, 0] - op) / BINS, 1.0)
    copy = g.writeback_ps[x] if g.made[x] else g.prefetch_ps[x]
    tensor[12] = copy / (copy + g.rest_ps[0] / len(g.compute_ps))
    whole = max(g.rest_ps[op] - g.rest_ps[op + 1], 1)
    saved = g.use_ps[use, 1] - (g.use_ps[use, 0] if g.serial else 0)
    tensor[13] = min(max(min(saved, whole - g.compute_ps[op] - g.overhead_ps) / whole, 0.0), 1.0)
    if row[OFFSET] >= 0:
        if not g.use_is_result[use]:
            tensor[14] = min((op - row[WINDOW]) / BINS, 1.0)
        tensor[15] = row[OFFSET] / g.capacity

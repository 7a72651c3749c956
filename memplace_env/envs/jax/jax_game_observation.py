"""The flat observation of a game in JAX, see `malloc_game.flat`; the profile is drawn from slots and a ring."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from memplace_env.envs.jax.jax_game_tables import BlockSlots, GameParams, GameState
from memplace_env.envs.malloc_game.observation import (  # fmt: skip
    AHEAD,
    AHEAD_DISTANCE,
    AHEAD_IS_RESULT,
    AHEAD_SIZE,
    BINS,
    STATIC,
)
from memplace_env.envs.malloc_game.occupancy import COARSE, SPAN
from memplace_env.envs.malloc_game.state import COPY, DROP

_FULL = 255
"""Share of an address bin that is full."""


def found(state: GameState, tensors: Array) -> tuple[Array, Array, Array, Array]:
    """Return slots of tensors, whether they have one, whether that holds their data, and from when on it is valid."""
    slots, blocks = jnp.maximum(state.slot[tensors], 0).astype(jnp.int32), state.blocks
    has = (state.slot[tensors] >= 0) & (blocks.owner[slots] == tensors)
    return slots, has, has & blocks.holds[slots], jnp.where(has, blocks.valid[slots], state.ready[tensors])


def shares(low: Array, high: Array, capacity: Array) -> Array:
    """Return int16[8], what addresses low..high-1 take of each coarse bin, 255 for each of its eight fine ones.

    As `occupancy` rounds it, by long division: the products have more than 32 bits.
    """
    (first, below), (over, above) = (_divided(x, BINS, capacity) for x in (low, high))
    last = over - (above == 0)
    alone = (over - first) * capacity + above - below
    shown = [jnp.where(first == last, alone, capacity - below), jnp.where(above == 0, capacity, above)]
    first_share, last_share = (_scaled(x, capacity) for x in shown)
    bins = jnp.arange(COARSE, dtype=jnp.int32) * SPAN
    whole = jnp.maximum(jnp.minimum(last, bins + SPAN - 1) - jnp.maximum(first, bins) + 1, 0) * _FULL
    of_first = jnp.where(first // SPAN * SPAN == bins, _FULL - first_share, 0)
    of_last = jnp.where((last // SPAN * SPAN == bins) & (last != first), _FULL - last_share, 0)
    return (whole - of_first - of_last).astype(jnp.int16)


def _divided(value: Array, times: int, by: Array) -> tuple[Array, Array]:
    """Return quotient and remainder of value * times / by, for value <= by < 2**30 and a power of two."""
    quotient, rest = value // by, value % by
    for _ in range(times.bit_length() - 1):
        rest = 2 * rest
        quotient, rest = 2 * quotient + (rest >= by), jnp.where(rest >= by, rest - by, rest)
    return quotient, rest


def _scaled(value: Array, by: Array) -> Array:
    """Return value * 255 // by, for value <= by < 2**30."""
    quotient, rest = _divided(value, _FULL + 1, by)
    # 255 v = 256 v - v: the quotient is one less for each `by` that the remainder lacks, and v is at most one.
    return quotient - (rest < value)


def drawn(block: BlockSlots, now: Array) -> Array:
    """Return int16[64, 16], what one block adds to the ring of the coarse profile whose last op is `now`."""
    ops = now - (now - jnp.arange(BINS, dtype=jnp.int32)) % BINS
    shown = (ops >= jnp.maximum(block.start, 0)) & (ops <= block.committed)
    both = jnp.stack([shown, shown & (ops <= block.released)], axis=1)
    return (both[:, :, None] * block.shares).reshape(BINS, 2 * COARSE).astype(jnp.int16)


def _profile(state: GameState, now: Array) -> Array:
    """Return int32[16, 8], sums over eight ops each, the last of them `now`."""
    blocks = state.blocks
    begins = now + 1 - BINS + SPAN * jnp.arange(COARSE, dtype=jnp.int32)[:, None]
    first, last = jnp.maximum(begins, blocks.start), jnp.minimum(begins + SPAN - 1, jnp.minimum(blocks.committed, now))
    lengths = [jnp.maximum(jnp.minimum(last, until) - first + 1, 0) for until in (last, blocks.released)]
    taken = jnp.where(blocks.owner >= 0, jnp.stack(lengths), 0)
    of_slots = (taken[:, :, :, None] * blocks.shares.astype(jnp.int32)).sum(2, dtype=jnp.int32)
    ring = state.past[(now + 1 + jnp.arange(BINS, dtype=jnp.int32)) % BINS].astype(jnp.int32)
    of_past = ring.reshape(COARSE, SPAN, 2, COARSE).sum(1, dtype=jnp.int32)
    return (of_slots.transpose(0, 2, 1) + of_past.transpose(1, 2, 0)).reshape(2 * COARSE, COARSE)


def observe(state: GameState, params: GameParams) -> Array:
    """Return the flat observation of a state, float32[546].

    It is computed in float64 if times are in picoseconds, else in float32.
    """
    tables, costs = params.tables, params.tables.costs
    real = jnp.float64 if tables.rest_ps.dtype == jnp.int64 else jnp.float32
    going, use = state.use < params.uses, jnp.minimum(state.use, len(tables.use_is_result) - 1)
    op, blocks, coming, mask = state.op, state.blocks, state.coming, state.mask
    now, ops = jnp.minimum(op, params.ops - 1), params.ops.astype(real)
    mean = tables.rest_ps[0].astype(real) / ops

    def beside(time: Array) -> Array:
        return time.astype(real) / jnp.maximum(time.astype(real) + mean, 1)

    # The decisions ahead, the current one first.
    uses = state.use + jnp.arange(AHEAD, dtype=jnp.int32)
    known = params.unchanging.features[uses]
    tensors = tables.use_tensor[uses]
    slots, has, intact, valid = found(state, tensors)
    exists, backed = uses < params.uses, valid <= op
    distance = jnp.minimum((known[:, AHEAD_DISTANCE] - op.astype(jnp.float32)) / BINS, 1)
    distances = jnp.where(exists, distance, 0)[:, None]
    static = jnp.concatenate([known[:, :AHEAD_DISTANCE], distances, known[:, AHEAD_DISTANCE + 1 : STATIC]], axis=1)
    ahead = jnp.concatenate([static, (exists & intact)[:, None], (exists & backed)[:, None]], axis=1)

    # The tensor of the current one.
    tensor, slot, following = tensors[0], slots[0], params.unchanging.following[use]
    result, kept = tables.use_is_result[use], intact[0]
    sent = has[0] & (blocks.turn[slot] >= state.head)
    owed = state.sent_time - state.ended_time - state.served[-1]
    backlog_until = jnp.where(result, coming.until[0], blocks.turn[slot] + 1)
    waited = (blocks.turn >= state.head) & (blocks.turn < backlog_until)
    backlog = jnp.maximum(jnp.where(waited, blocks.mark - state.ended_time, 0).max() - state.served[-1], 0)
    waits = jnp.where(result, mask[:DROP].any(), kept & ~backed[0] & mask[DROP])
    placed = jnp.where(result, mask[:DROP].any(), ~kept & mask[COPY])
    wait = jnp.where(result | kept, jnp.where(waits, backlog, 0), jnp.where(placed, coming.wait, 0))
    ahead_of = jnp.minimum((op - jnp.where(result, op, coming.start)).astype(real) / BINS, 1)
    copy = jnp.where(
        tables.is_result[tensor],
        costs.writeback_ps[tensor],
        costs.prefetch_ps[tensor],
    )
    whole = jnp.maximum(tables.rest_ps[now] - tables.rest_ps[now + 1], 1)
    spent = costs.use_ps[use]
    work = costs.compute_ps[now] + costs.overhead_ps[now]
    saved = jnp.minimum(spent[1] - jnp.where(costs.serial, spent[0], 0), whole - work)
    of_tensor = [
        *known[0, AHEAD_SIZE : AHEAD_SIZE + 2],
        *(params.unchanging.kind[tensor] == kind for kind in range(4)),
        known[0, AHEAD_IS_RESULT],
        kept,
        sent,
        backed[0],
        jnp.minimum(following[1].astype(real) / 8, 1),
        jnp.minimum((following[0] - op).astype(real) / BINS, 1),
        beside(copy),
        jnp.clip(saved.astype(real) / whole.astype(real), 0, 1),
        jnp.where(placed, ahead_of, 0),
        jnp.where(placed, coming.offset[0].astype(real) / tables.capacity.astype(real), 0),
        beside(wait),
    ]
    of_tensor = [jnp.where(going, number, 0) for number in of_tensor]
    estimate = state.estimate.astype(real)
    progress = [
        state.use.astype(real) / params.uses.astype(real),
        jnp.clip(estimate / tables.rest_ps[0].astype(real), 0, 1),
        op.astype(real) / ops,
        state.stalled.astype(real) / jnp.maximum(estimate, 1),
        jnp.minimum((state.tail - state.head).astype(real) / 8, 1),
        beside(jnp.where(op >= params.ops, state.tail_time, owed)),
    ]
    # Port time that is left in the last ops, means of eight.
    recent = now + 1 - BINS + jnp.arange(BINS, dtype=jnp.int32)
    at = jnp.clip(recent, 0, len(costs.compute_ps) - 1)
    idle = state.idle[at] - jnp.where(at > 0, state.idle[at - 1], 0)
    each = jnp.maximum(tables.rest_ps[at] - tables.rest_ps[at + 1], 1)
    share = jnp.minimum(idle.astype(real) / each.astype(real), 1).astype(jnp.float32)
    share = jnp.where((recent >= 0) & (recent < op), share, 0).reshape(COARSE, SPAN)
    bandwidth = jnp.minimum(sum(share[:, part] for part in range(SPAN)) / SPAN, 1)
    profile = _profile(state, now).astype(real) / (_FULL * SPAN * SPAN)
    numbers = [jnp.stack([number.astype(jnp.float32) for number in part]) for part in (of_tensor, progress)]
    parts = [*numbers, mask, bandwidth, profile.reshape(-1), ahead.reshape(-1)]
    return jnp.concatenate([part.astype(jnp.float32) for part in parts])

"""mallocGame for JAX: the rules of `malloc_game.rules` without lists and loops, on blocks in slots.

Gaps are found by comparing every address at which one may begin or end with all blocks. The window of a copy follows
from the latest op until which each such place is needed. Of the port, states keep sums up to each op: the time that is
idle, the write-backs that have arrived, and what these would be served, oldest first.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from memplace_env.envs.jax.jax_game_observation import drawn, found, observe, shares
from memplace_env.envs.jax.jax_game_tables import FOR_EVER, NEVER, BlockSlots, Coming, GameParams, GameState
from memplace_env.envs.malloc_game.observation import BINS
from memplace_env.envs.malloc_game.occupancy import COARSE
from memplace_env.envs.malloc_game.state import COPY, DROP, LASTING, NO_COPY, PASSING


def init(key: Array | None, params: GameParams) -> tuple[GameState, Array]:
    """Return the state before the first decision and its observation float32[546]; nothing is drawn from the key."""
    del key
    tables, time = params.tables, params.tables.rest_ps.dtype
    zero, no_time, nothing = jnp.int32(0), jnp.zeros((), time), jnp.zeros(len(tables.rest_ps), time)
    empty, none = jnp.zeros(len(params.slots), jnp.int32), jnp.full(len(params.slots), -1, jnp.int32)
    of_write_backs = none, none, empty.astype(time)
    shown = jnp.zeros((len(none), COARSE), jnp.int16)
    blocks = BlockSlots(none, params.slots, *(empty,) * 3, *(none,) * 4, empty, *of_write_backs, shown)
    places, past = jnp.zeros(1 + (len(tables.usable) > 0), jnp.int32), jnp.zeros((BINS, 2 * COARSE), jnp.int16)
    times = no_time, no_time, no_time, params.open_ps[0], tables.rest_ps[0], no_time, no_time
    ready = jnp.where(tables.is_result, NEVER, 0).astype(jnp.int32)
    of_tensors = jnp.full(tables.size.shape, -1, jnp.int16), ready
    coming, actions = Coming(places, places, zero, no_time), jnp.full(tables.use_is_result.shape, -1, jnp.int8)
    state = GameState(
        *(zero,) * 4, *times, jnp.zeros(3, bool), no_time, no_time, *of_tensors, blocks, *(nothing,) * 3, past, coming,
        zero - 1, jnp.bool_(False), actions,
    )  # fmt: skip
    state = _prepared(state, params)
    return state, observe(state, params)


def step(state: GameState, action: Array, params: GameParams) -> tuple[GameState, Array, Array, Array]:
    """Play a decision.

    Args:
        state: a game; a finished one stays as it is.
        action: Copy, NoCopy or Drop, int 0..2; an illegal one is replaced as by `MallocGameEnv`.
        params: what is played.

    Returns:
        The state after it, its observation float32[546], the reward (by how much it lowers the estimated latency, in
        percent of the latency with everything in the backing memory), and whether the game is over.
    """
    before = state.estimate
    state = _prepared(_closed(*_played(state, action, params), params), params)
    reward = 100 * (before - state.estimate).astype(jnp.float32) / params.tables.rest_ps[0].astype(jnp.float32)
    return state, observe(state, params), reward, state.use >= params.uses


def _ended(blocks: BlockSlots, which: Array, op: Array) -> BlockSlots:
    """End the write-backs of some blocks in `op`; these are protected no longer."""
    committed = jnp.where(which, jnp.maximum(blocks.used, op), blocks.committed)
    return blocks._replace(
        committed=committed,
        live=jnp.where(which & (blocks.live == NEVER), committed, blocks.live),
        released=jnp.where(which, op, blocks.released),
        valid=jnp.where(which, op + 1, blocks.valid),
    )


def _played(state: GameState, action: Array, params: GameParams) -> tuple[GameState, Array]:
    """Return the state after a move whose op is not closed yet, and whether the op may close."""
    tables, costs = params.tables, params.tables.costs
    going, use = state.use < params.uses, jnp.minimum(state.use, len(tables.use_is_result) - 1)
    tensor, op, blocks, coming = tables.use_tensor[use], state.op, state.blocks, state.coming
    size, result, later = tables.size[tensor], tables.use_is_result[use], tables.last_use[tensor] > use
    slot, _, kept, valid = found(state, tensor)

    lazy = jnp.where(result | (valid <= op), DROP, jnp.where(state.mask[NO_COPY], NO_COPY, COPY))
    legal = (action >= 0) & (action <= DROP) & state.mask[jnp.clip(action, 0, DROP)]
    action = jnp.where(legal, action, lazy).astype(jnp.int32)
    drop, copy = action == DROP, action == COPY
    makes, brings = going & result & ~drop, going & ~result & ~kept & ~drop
    form = jnp.where(copy, len(coming.until) - 1, 0)

    # Write-backs that the op waits for get what they would be served; they end in the op before.
    late = going & ~result & drop & (valid > op)
    until = jnp.where(makes, coming.until[form], jnp.where(late, blocks.turn[slot] + 1, 0))
    waited = (blocks.turn >= state.head) & (blocks.turn < until)
    owed = jnp.where(waited, blocks.mark - state.ended_time, 0).max()
    wait = jnp.maximum(owed - state.served[-1], 0) + jnp.where(brings, coming.wait, 0)
    idle = state.idle - jnp.minimum(state.served, owed)
    blocks = _ended(blocks, waited, op - 1)
    # A copy that comes in takes what is idle from its start on, the earliest first.
    need = jnp.where(brings, costs.prefetch_ps[tensor], 0)
    idle = idle - jnp.clip(idle - jnp.where(coming.start > 0, idle[coming.start - 1], 0), 0, need)

    forgets = going & ~result & drop & kept & ~later
    places, index = makes | brings, jnp.arange(len(blocks.owner), dtype=jnp.int32)
    live = jnp.where(forgets & (index == slot), blocks.committed, blocks.live)
    offset, start = coming.offset[form], jnp.where(makes, op, coming.start)
    lost = places & blocks.holds & (blocks.offset < offset + size) & (blocks.top > offset)
    blocks = blocks._replace(holds=blocks.holds & ~lost, live=jnp.where(lost, blocks.committed, live))
    # The new block takes the slot of the one that has ended first.
    ends = jnp.maximum(blocks.committed, blocks.live)
    new = jnp.argmin(ends).astype(jnp.int32)
    old, old_end = blocks.owner[new], blocks.committed[new]
    leaves = places & (old >= 0)
    drawn_last = jnp.minimum(op, params.ops - 1)
    past = state.past + jnp.where(leaves, drawn(jax.tree.map(lambda x: x[new], blocks), drawn_last), 0)
    ready_of = jnp.where(leaves & (state.slot[old] == new), old, jnp.where(going & result & drop, tensor, NEVER))
    ready = jnp.where(places, jnp.maximum(blocks.valid[new], old_end + 1), op + 1)
    nowhere, shown = jnp.int32(-1), shares(offset, offset + size, tables.capacity)
    fresh = BlockSlots(
        tensor, jnp.bool_(True), offset, offset + size, start, op, op, nowhere, op, valid, nowhere, nowhere,
        jnp.zeros_like(wait), shown,
    )  # fmt: skip
    at_new = places & (index == new)
    put = jax.vmap(jnp.where, in_axes=(0, None, 0))
    blocks = jax.tree.map(lambda one, all_: put(at_new, one, all_), fresh, blocks)
    slot = jnp.where(places, new, slot)

    sends, here = going & copy & (result | kept), index == slot
    sent_time = state.sent_time + jnp.where(sends, costs.writeback_ps[tensor], 0)
    turn = jnp.where(here & sends, state.tail, blocks.turn)
    # The block is needed from now on: for ever while it is protected, else until this op.
    head, uses = jnp.maximum(state.head, until), here & going & ~drop
    protected = (turn >= head) | (later & (blocks.valid == NEVER))
    committed = jnp.where(protected, NEVER, op)
    released = jnp.where(protected, NEVER, jnp.minimum(blocks.released, op))
    blocks = blocks._replace(
        turn=turn,
        sent=jnp.where(here & sends, op + 1, blocks.sent),
        mark=jnp.where(here & sends, sent_time, blocks.mark),
        used=jnp.where(uses, op, blocks.used),
        committed=jnp.where(uses, committed, blocks.committed),
        released=jnp.where(uses, released, blocks.released),
        live=jnp.where(uses, jnp.where(later, tables.last_op[tensor], committed), blocks.live),
    )
    spent = jnp.where(going, costs.use_ps[use], 0)
    state = state._replace(
        use=state.use + going,
        head=head,
        tail=state.tail + sends,
        stalled=state.stalled + wait,
        open=state.open - spent[1],
        fast=state.fast + jnp.where(drop, 0, spent[0]),
        backing=state.backing + jnp.where(drop, spent[1], 0),
        sent_time=sent_time,
        ended_time=state.ended_time + owed,
        slot=state.slot.at[jnp.where(places, tensor, NEVER)].set(new.astype(jnp.int16), mode="drop"),
        ready=state.ready.at[ready_of].set(ready, mode="drop"),
        blocks=blocks,
        idle=idle,
        arrived=jnp.where(jnp.arange(len(idle)) > op, sent_time, state.arrived),
        past=past.astype(jnp.int16),
        gone=jnp.where(leaves, jnp.maximum(state.gone, old_end), state.gone),
        inexact=state.inexact | (leaves & (ends[new] >= op - 1)),
        actions=state.actions.at[jnp.where(going, use, NEVER)].set(action.astype(jnp.int8), mode="drop"),
    )
    return state, going & (use + 1 == tables.use_ptr[state.op + 1])


def _closed(state: GameState, closing: Array, params: GameParams) -> GameState:
    """Return the state once its op is final, if all of its uses are decided, with what write-backs are served."""
    op, blocks = state.op, state.blocks
    now = jnp.minimum(op, params.ops - 1)
    time, busy = _op_time(params, now, state.fast, state.backing)
    idle = state.idle + jnp.where(closing & (jnp.arange(len(state.idle)) >= op), time - busy, 0)
    # The port serves whatever has arrived: it has served all but the largest backlog that has come up so far.
    owed = jnp.maximum(state.arrived - state.ended_time, 0)
    served = idle + jnp.minimum(jax.lax.cummin(owed - idle), 0)
    over = closing & (op + 1 == params.ops)
    pending = blocks.turn >= state.head
    done = closing & pending & (blocks.sent <= op) & (blocks.mark - state.ended_time <= served[-1])
    paid = jnp.where(done, blocks.mark - state.ended_time, 0).max()
    lacking = state.sent_time - state.ended_time - served[-1]
    booked = jnp.where(over, served, jnp.minimum(served, paid))
    final, after = state.final + jnp.where(closing, time, 0), op + closing
    following = jnp.minimum(after, params.ops - 1)
    moved = closing & ~over
    state = state._replace(
        op=after,
        head=state.head + done.sum(dtype=jnp.int32),
        final=final,
        tail_time=jnp.where(over, lacking, state.tail_time),
        open=jnp.where(closing, jnp.where(over, 0, params.open_ps[following]), state.open),
        fast=jnp.where(closing, 0, state.fast),
        backing=jnp.where(closing, 0, state.backing),
        ended_time=state.ended_time + paid,
        blocks=_ended(blocks, done, op),
        idle=idle - booked,
        served=served - booked,
        past=jnp.where(moved & (jnp.arange(BINS)[:, None] == following % BINS), jnp.int16(0), state.past),
    )
    current, _ = _op_time(params, following, state.fast, state.backing + state.open)
    rest = jnp.where(after >= params.ops, state.tail_time, current + params.tables.rest_ps[following + 1])
    return state._replace(estimate=final + state.stalled + rest)


def _op_time(params: GameParams, op: Array, fast: Array, backing: Array) -> tuple[Array, Array]:
    """Return the time of an op and of its backing port, see `op_time_kernels.op_time`."""
    used = jnp.stack([fast, backing])
    busy = used + jnp.where(used > 0, params.tables.costs.latency_ps, 0)
    memory = jnp.where(params.tables.costs.serial, busy[0] + busy[1], busy.max())
    return jnp.maximum(params.tables.costs.compute_ps[op], memory) + params.tables.costs.overhead_ps[op], busy[1]


def _prepared(state: GameState, params: GameParams) -> GameState:
    """Return the state with what is legal in the next decision, and where its block would go."""
    tables, costs = params.tables, params.tables.costs
    going, use = state.use < params.uses, jnp.minimum(state.use, len(tables.use_is_result) - 1)
    tensor, op, blocks = tables.use_tensor[use], state.op, state.blocks
    size, result, ceiling = tables.size[tensor], tables.use_is_result[use], tables.room[use]
    later, output = tables.last_use[tensor] > use, tables.is_output[tensor]
    slot, has, kept, valid = found(state, tensor)
    earliest = jnp.where(has, jnp.maximum(valid, blocks.committed[slot] + 1), valid)
    pending = blocks.turn >= state.head

    # What stands in the way of a block at each begin: write-backs that an op can wait for, by their turn, or ops.
    waitable = pending & (blocks.sent < op) & (blocks.used < op)
    turns = jnp.where(blocks.committed < op, 0, jnp.where(waitable, blocks.turn + 1, FOR_EVER))
    begins = jnp.append(0, blocks.top)
    ends = begins + size
    overlaps = (blocks.offset < ends[:, None]) & (blocks.top > begins[:, None])
    reach = jnp.where(overlaps, jnp.where(result, turns, blocks.committed), jnp.where(result, 0, -1)).max(1)
    ceilings = ceiling[: len(state.coming.until)]
    until = jnp.where(ends <= ceilings[:, None], reach, FOR_EVER).min(1)
    # The first op from which on there is room for a copy, then the latest start that leaves it enough of the port.
    ops = jnp.arange(len(costs.compute_ps), dtype=jnp.int32)
    if len(tables.usable):
        least = jax.lax.cummin(jnp.where(ops < op - 1, tables.usable, FOR_EVER), reverse=True)
        tight = (least < ends[:, None]).sum(1, dtype=jnp.int32) - 1
        reach = jnp.where(result, reach, jnp.maximum(reach, tight))
    first = jnp.maximum(jnp.where(ends <= ceiling[PASSING], reach + 1, FOR_EVER).min(), earliest)
    need = costs.prefetch_ps[tensor]
    brings = ~result & ~kept & (need > 0) & (first < op)
    idle = jnp.append(jnp.zeros(1, state.idle.dtype), state.idle)  # of the ops before each one
    limit = jnp.where(pending, blocks.sent, op).min(initial=FOR_EVER)
    limit, before = jnp.minimum(limit, op), idle[: len(ops)]
    possible = (ops >= first) & (ops < op)
    early, late = (jnp.where(possible & (before <= idle[end] - need), ops, -1).max() for end in (limit, op))
    longest = jnp.where(possible & (idle[1 : len(ops) + 1] > before), ops, op - 1).min()
    start = jnp.where(early >= 0, early, jnp.where(late >= 0, late, longest))
    wait = jnp.where((early >= 0) | (late >= 0), 0, need - jnp.maximum(idle[op] - idle[start], 0))
    low = ceilings
    if len(tables.usable):
        within = (ops >= start) & (ops < op - 1)
        lowest = jnp.where(within, tables.usable, FOR_EVER).min()
        low = jnp.where(result, ceilings, jnp.minimum(ceiling[PASSING], lowest))
    fit = jax.vmap(_fit, in_axes=(None, None, None, 0, None, 0, None))
    offset = fit(blocks, pending, size, low, jnp.where(result, op, start), jnp.where(result, until, 0), op)

    backed, sent = valid <= op, has & (blocks.turn[slot] >= state.head)
    unsaved, serves = ~backed & ~sent, later | output
    of_result = jnp.stack([(until[-1] < FOR_EVER) & serves, (until[0] < FOR_EVER) & (later | ~output), going])
    stays, comes_back = blocks.top[slot] <= ceiling[LASTING], sent & (blocks.sent[slot] < op)
    of_kept = jnp.stack([unsaved & serves & stays, later | ~output | ~unsaved, backed | comes_back])
    of_other = jnp.stack([brings, jnp.bool_(False), backed])
    return state._replace(
        mask=going & jnp.where(result, of_result, jnp.where(kept, of_kept, of_other)),
        coming=Coming(until, offset, start, wait),
        inexact=state.inexact | (going & brings & (start <= state.gone)),
    )


def _fit(
    blocks: BlockSlots, pending: Array, size: Array, ceiling: Array, since: Array, until: Array, op: Array
) -> Array:
    """Return the offset of a block that is needed from op `since` on, as `room.fit` does; any if there is no room."""
    waits = pending & (blocks.turn < until)
    after = jnp.maximum(blocks.used, op - 1)
    committed = jnp.where(waits, after, blocks.committed)
    live = jnp.where(waits & (blocks.live == NEVER), after, blocks.live)
    # 2: needed; 1: has uses left, so that it is spared if there is room beside it.
    busy = jnp.where(committed >= since, 2, jnp.where(live >= since, 1, 0))
    # A block lies at the begin of a gap, first half, or at its end.
    begins = jnp.concatenate([jnp.zeros(1, jnp.int32), blocks.top, ceiling[None] - size, blocks.offset - size])
    ends = begins + size
    overlaps = (blocks.offset < ends[:, None]) & (blocks.top > begins[:, None])
    blocked = jnp.where(overlaps, busy, 0).max(1)
    inside = (begins >= 0) & (ends <= ceiling)
    least = jnp.where((inside & (blocked == 0)).any(), 1, 2)
    half = len(begins) // 2
    touches = jnp.concatenate([blocks.top == begins[:half, None], blocks.offset == ends[half:, None]])
    longest = jnp.where(touches & (busy >= least), live, -1).max(1)
    longest = longest.at[jnp.array([0, half])].set(FOR_EVER)  # the ends of memory
    longest = jnp.where(inside & (blocked < least), longest, -1)
    best = longest.max()
    return jnp.where((longest == best) & (best >= 0), begins, FOR_EVER).min()

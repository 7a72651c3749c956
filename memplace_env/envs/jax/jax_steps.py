"""The one-shot problem in steps for JAX: the same integers as `steps.step_kernels`, with times in units of 32 bits.

No segment tree: an entry's bytes are compared with those free in every op. Times of the ports stand once for each op,
with undecided entries in the backing memory (columns 0..2), and with those in their fastest levels (3..5).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from memplace_env._lib.errors import EnvError
from memplace_env.envs.jax.jax_arrays import MOST, check_problem, in_units, on_device, rounded_costs
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.envs.steps.step_tables import BACKING, LEVELS, StepTables
from memplace_env.machine.costs import op_times
from memplace_env.program.program import Ints

_HALF = 2**16
"""Bytes times ops are kept as two numbers: multiples of this one, and the rest."""


class StepsParams(NamedTuple):
    """A program with E entries and T ops, or longer tables that are padded; all integers int32, or times int64.

    Attributes:
        tables: StepTables, but what belongs to an entry stands in a row: `segment_*` [E, S], `entry_op` [E, P]; and
            `byte_ops` is [E, 2]. What is not needed is empty.
        entries, ops: E and T.
        own_ps: times[E, P, 3], what an entry adds to each port in its ops.
        ports_ps: times[T, 6] before any decision, see the module.
    """

    tables: Any
    entries: Array
    ops: Array
    own_ps: Array
    ports_ps: Array


class StepsState(NamedTuple):
    """An episode.

    Attributes:
        cursor: entry that is decided next, E at the end.
        estimate: latency with undecided entries in the backing memory, a time.
        mask: bool[3], levels that have room for the next entry.
        fewest, saved, missed: bytes[2], times[2], times[2] of the next entry, as `step_kernels` has them.
        taken: int32[2, 2], bytes times ops that decided entries hold in a level, as two numbers.
        free: bytes[2, T]. ports: times[T, 6], see the module.
        actions: int8[E], levels given, -1 for undecided entries; `replayed` takes them.
    """

    cursor: Array
    estimate: Array
    mask: Array
    fewest: Array
    saved: Array
    missed: Array
    taken: Array
    free: Array
    ports: Array
    actions: Array


def steps_params(problem: StepsProblem, *, estimate: bool = False, picoseconds: bool = False) -> StepsParams:
    """Return what JAX needs of a problem, as `gym.make("MemPlaceSteps-BERT-v0").unwrapped.problem` is one.

    The return of an episode is latency(native) / latency by the bytes that levels hold. Where whole weights stay on the
    chip the compiler nearly always grants exactly these levels. Elsewhere it moves tensors, so that the return is an
    estimate. It is never a result: that is what the compiler says of `replayed`.

    Args:
        problem: the problem; its results share no place.
        estimate: True to take an estimate for granted where weights are streamed, tensors are sliced, a black box
            judges, or tensors may not lie in the backing memory.
        picoseconds: whether times are int64 in picoseconds, with `jax_enable_x64` only.

    Raises:
        EnvError: for no `StepsProblem`, where the return would be an estimate without `estimate=True`, results share
            places, a level holds 2 GiB or more, or picoseconds have no 64 bits.
    """
    check_problem(problem, StepsProblem, "MemPlaceSteps-BERT-v0")
    task, tables = problem.task, problem.tables
    reasons = {
        "weights are streamed": task.streams_weights,
        "tensors are sliced": task.program.slices is not None,
        "a black box judges": task.is_black_box,
        "tensors may not lie in the backing memory": bool(task.must_leave.any()),
    }
    for reason in [reason for reason, applies in reasons.items() if applies and not estimate]:
        raise EnvError(
            f"Where {reason} the compiler's plan differs from the levels decided, so that returns in JAX are "
            "estimates; pass estimate=True to learn from them, and report what the compiler says."
        )
    if len(tables.pair) or tables.capacity.max() > MOST:
        raise EnvError("In JAX no result takes an operand's place (in_place), and no fast level holds 2 GiB or more.")
    rounded = rounded_steps(problem, picoseconds)
    costs, entries, ops = rounded.costs, len(tables.decision), len(tables.costs.compute_ps)
    used, use_op = tables.use_entry >= 0, np.repeat(np.arange(ops), np.diff(tables.use_ptr))
    entry_op, pairs = _rows(tables.op_ptr, tables.entry_op, MOST), tables.use_entry[used]
    own, uses = np.zeros((*entry_op.shape, LEVELS), dtype=np.int64), np.arange(len(used))
    np.add.at(own, (pairs, (entry_op[pairs] == use_op[used, None]).argmax(axis=1)), costs.use_ps[used])
    ports = np.zeros((ops, 2 * LEVELS), dtype=np.int64)
    fastest = np.where(used, tables.fastest[tables.use_entry], BACKING)
    np.add.at(ports[:, BACKING], use_op, costs.use_ps[:, BACKING])
    np.add.at(ports, (use_op, LEVELS + fastest), costs.use_ps[uses, fastest])
    none: Any = np.zeros(0, dtype=np.int64)
    names = "decision segment_ptr op_ptr use_ptr use_entry pair_ptr pair first_state"
    kept = rounded._replace(
        **dict.fromkeys(names.split(), none),
        segment_first=_rows(tables.segment_ptr, tables.segment_first, 0),
        segment_last=_rows(tables.segment_ptr, tables.segment_last, -1),
        segment_bytes=_rows(tables.segment_ptr, tables.segment_bytes, 0),
        entry_op=entry_op,
        byte_ops=np.stack([tables.byte_ops // _HALF, tables.byte_ops % _HALF], axis=1),
        costs=costs._replace(**dict.fromkeys(set(costs._fields) - {"compute_ps", "latency_ps", "serial"}, none)),
    )
    return on_device(StepsParams(kept, entries, ops, own, ports), picoseconds)  # type: ignore[arg-type]


def rounded_steps(problem: StepsProblem, picoseconds: bool = False) -> StepTables:
    """Return the tables with times in the units of JAX, int64; the compiled kernels play the same episodes on them.

    Raises:
        EnvError: for picoseconds where JAX has 32 bits.
    """
    tables, costs = problem.tables, problem.tables.costs
    # No episode is longer than if each use were served by all of the ports, one after the other.
    most = costs.use_ps.sum() + costs.work_ps.sum() + len(costs.use_ps) * costs.latency_ps.sum()
    costs, unit = rounded_costs(costs, float(most), picoseconds)
    used = np.zeros((len(costs.compute_ps), LEVELS), dtype=np.int64)
    use_op = np.repeat(np.arange(len(used)), np.diff(tables.use_ptr))
    np.add.at(used[:, BACKING], use_op, costs.use_ps[:, BACKING])
    native, fastest = (int(in_units(np.array(ps), unit)) for ps in (tables.native_ps, tables.all_fastest_ps))
    backing = int(op_times(costs, used).op_ps.sum())
    return tables._replace(costs=costs, native_ps=native, all_fastest_ps=fastest, all_backing_ps=backing)


def _rows(ptr: Ints, values: Ints, fill: int) -> Ints:
    """Return the values ptr[e]..ptr[e + 1] - 1 of each entry side by side, padded."""
    lengths = np.diff(ptr)
    rows = np.full((len(lengths), int(lengths.max())), fill, dtype=np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = values
    return rows


def init(key: Array | None, params: StepsParams) -> tuple[StepsState, Array]:
    """Return the state before the first decision and its observation float32[71]; nothing is drawn from the key."""
    del key
    tables, zeros = params.tables, jnp.zeros((2, 2), jnp.int32)
    times, actions = jnp.zeros(2, params.own_ps.dtype), jnp.full(tables.fastest.shape, -1, jnp.int8)
    head = zeros[0, 0], tables.all_backing_ps, jnp.zeros(LEVELS, bool), zeros[0], times, times
    state = StepsState(*head, zeros, tables.free, params.ports_ps, actions)
    state = _prepared(state, params)
    return state, observe(state, params)


def step(state: StepsState, action: Array, params: StepsParams) -> tuple[StepsState, Array, Array, Array]:
    """Decide the next entry.

    Args:
        state: an episode; a finished one stays as it is.
        action: the level wanted, int 0..2; one that is not allowed is replaced as by `StepsEnv`.
        params: what is played.

    Returns:
        The state after it, its observation float32[71], the reward (latency(native) / latency with the last decision,
        else 0), and whether the episode is over.
    """
    tables = params.tables
    going, entry = state.cursor < params.entries, jnp.minimum(state.cursor, len(tables.fastest) - 1)
    levels = jnp.arange(LEVELS, dtype=jnp.int32)
    slower = state.mask & (levels >= action)
    slowest = BACKING - jnp.argmax(state.mask[::-1])
    level = jnp.where(slower.any(), jnp.argmax(slower), slowest).astype(jnp.int32)
    chosen = (levels[:BACKING] == level) & going
    bytes_, _ = _bytes(params, entry)
    # What moves from one port to another: out of the backing memory, or out of the fastest level.
    given, fastest = levels == level, levels == tables.fastest[entry]
    moves = jnp.concatenate([given * 1 - (levels == BACKING), given * 1 - fastest])
    change = jnp.where(going, jnp.tile(params.own_ps[entry], 2) * moves.astype(params.own_ps.dtype), 0)
    state = state._replace(
        cursor=state.cursor + going,
        estimate=state.estimate - jnp.where(chosen, state.saved, 0).sum(dtype=state.saved.dtype),
        taken=state.taken + chosen[:, None] * tables.byte_ops[entry],
        free=state.free - jnp.where(chosen[:, None], bytes_, 0),
        ports=state.ports.at[tables.entry_op[entry]].add(change, mode="drop"),
        actions=state.actions.at[jnp.where(going, state.cursor, MOST)].set(level.astype(jnp.int8), mode="drop"),
    )
    state = _prepared(state, params)
    over = state.cursor >= params.entries
    speedup = tables.native_ps.astype(jnp.float32) / state.estimate.astype(jnp.float32)
    return state, observe(state, params), jnp.where(going & over, speedup, 0), over


def _bytes(params: StepsParams, entry: Array) -> tuple[Array, Array]:
    """Return int32[T], bytes that an entry holds in each op, and bool[T], whether that is in its life."""
    tables = params.tables
    ops = jnp.arange(tables.free.shape[1], dtype=jnp.int32)[:, None]
    within = (ops >= tables.segment_first[entry]) & (ops <= tables.segment_last[entry])
    return jnp.where(within, tables.segment_bytes[entry], 0).sum(1, dtype=jnp.int32), within.any(1)


def _prepared(state: StepsState, params: StepsParams) -> StepsState:
    """Return the state with the fields about the next entry; zeros once there is none."""
    tables = params.tables
    going, entry = state.cursor < params.entries, jnp.minimum(state.cursor, len(tables.fastest) - 1)
    bytes_, within = _bytes(params, entry)
    fits = (state.free >= bytes_).all(1) & tables.may[entry, :BACKING]
    mask = jnp.append(fits, tables.may[entry, BACKING] | ~fits.any())
    ops, own = tables.entry_op[entry], params.own_ps[entry]
    levels = jnp.arange(LEVELS, dtype=jnp.int32)
    here = jnp.stack([levels == BACKING, levels == tables.fastest[entry]])
    ports = jnp.take(state.ports, ops, axis=0, mode="clip").reshape(-1, 2, LEVELS)
    without = ports - jnp.where(here, own[:, None], 0)
    # Times of each op with the entry in each level: axes op, what others do, level, port.
    used = without[:, :, None] + jnp.where(jnp.eye(LEVELS, dtype=bool), own[:, None, None], 0)
    busy = used + jnp.where(used > 0, tables.costs.latency_ps, 0)
    memory = jnp.where(tables.costs.serial, busy.sum(3, dtype=busy.dtype), busy.max(3))
    compute = jnp.take(tables.costs.compute_ps, ops, mode="clip")[:, None, None]
    time = jnp.maximum(compute, memory).sum(0, dtype=busy.dtype)
    saved = jnp.where(going & (tables.capacity > 0), time[:, BACKING:] - time[:, :BACKING], 0)
    return state._replace(
        mask=mask & going,
        fewest=jnp.where(going, jnp.where(within, state.free, MOST).min(1), 0),
        saved=saved[0],
        missed=saved[1],
    )


def observe(state: StepsState, params: StepsParams) -> Array:
    """Return the observation of a state, float32[71], see `steps.observation.flat_space`.

    It is computed in float64 if times are in picoseconds, else in float32.
    """
    tables = params.tables
    real = jnp.float64 if tables.native_ps.dtype == jnp.int64 else jnp.float32
    going, entry = state.cursor < params.entries, jnp.minimum(state.cursor, len(tables.fastest) - 1)
    ops, backing, estimate = (x.astype(real) for x in (params.ops, tables.all_backing_ps, state.estimate))
    capacity = jnp.maximum(tables.capacity, 1).astype(real)
    held = jnp.where(going, tables.segment_bytes[entry].max(), 0)
    saved, missed = (jnp.maximum(time, 0).astype(real) for time in (state.saved, state.missed))
    high, low = (state.taken[:, half].astype(real) for half in range(2))
    scale, least = backing / ops, jnp.minimum(state.free.min(1), tables.capacity)
    most = jnp.maximum(tables.all_backing_ps - tables.all_fastest_ps, 1).astype(real)
    pairs = [
        state.fewest.astype(real) / capacity,
        jnp.maximum(state.fewest - held, 0).astype(real) / capacity,
        saved / (saved + scale),
        missed / (missed + scale),
        (high * _HALF + low) / (capacity * ops),
        1 - least.astype(real) / capacity,
    ]
    numbers = [
        state.cursor.astype(real) / params.entries.astype(real),
        jnp.minimum(estimate / jnp.maximum(backing, 1), 1),
        jnp.clip((tables.all_backing_ps - state.estimate).astype(real) / most, 0, 1),
        tables.native_ps.astype(real) / (tables.native_ps.astype(real) + estimate),
    ]
    known = jnp.where(going, tables.entry_features[entry], 0)
    row = [state.mask, known, *pairs, jnp.stack(numbers), tables.program_features]
    return jnp.concatenate([part.astype(jnp.float32) for part in row])

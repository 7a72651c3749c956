"""The one-shot problem in steps for JAX: the same integers as `steps.step_kernels`, with times in units of 32 bits.

No segment tree: an entry's bytes are compared with those free in every op. Times of the ports stand once for each op,
with undecided entries in the backing memory (columns 0..2), and with those in their fastest levels (3..5).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from memplace_env._lib.errors import EnvError
from memplace_env.envs.jax.jax_arrays import MOST, in_units, on_device, unit_ps
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.envs.steps.step_tables import BACKING, LEVELS, StepTables
from memplace_env.machine.costs import op_times
from memplace_env.program.program import Ints

_HALF = 2**16
"""Bytes times ops are kept as two numbers: multiples of this one, and the rest."""


class StepsParams(NamedTuple):
    """Tables of a program with E entries and T ops, or longer ones that are padded; see `StepTables`.

    An entry has S segments and P ops at most. Times are int32 in units, or int64 in picoseconds; other integers are
    int32.

    Attributes:
        entries, ops: E and T.
        native, all_backing, all_fastest: times of these plans.
        serial: whether ports' times add up.
        latency: times[3]. compute: times[T]. ports: times[T, 6] before any decision, see the module.
        capacity: bytes[2]. free: bytes[2, T] before any decision.
        may: bool[E, 3]. fastest: int8[E].
        segment_first, segment_last, segment_bytes: [E, S].
        byte_ops: [E, 2], as two numbers.
        entry_op: [E, P], ops that use an entry. own: times[E, P, 3], what it adds to each port there.
        entry_features: float32[E, 43]. program_features: float32[9].
    """

    entries: Array
    ops: Array
    native: Array
    all_backing: Array
    all_fastest: Array
    serial: Array
    latency: Array
    compute: Array
    ports: Array
    capacity: Array
    free: Array
    may: Array
    fastest: Array
    segment_first: Array
    segment_last: Array
    segment_bytes: Array
    byte_ops: Array
    entry_op: Array
    own: Array
    entry_features: Array
    program_features: Array


class StepsState(NamedTuple):
    """An episode.

    Attributes:
        cursor: entry that is decided next, E at the end.
        estimate: latency with undecided entries in the backing memory, a time.
        mask: bool[3], levels that have room for the next entry.
        fewest: bytes[2], free during its life. saved, missed: times[2] that it saves with undecided entries in the
            backing memory, and in their fastest levels.
        taken: int[2, 2], bytes times ops that decided entries hold, as two numbers.
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
    """Return the tables of a problem, as `gym.make("MemPlaceSteps-BERT-v0").unwrapped.problem` is one.

    The return of an episode is latency(native) / latency by the bytes that levels hold. Where whole weights stay on the
    chip the compiler nearly always grants exactly these levels. Elsewhere it moves tensors, so that the return is an
    estimate only. It is never a result: that is what `replayed` and the compiler say.

    Args:
        problem: the problem; its results share no place.
        estimate: True to take an estimate for granted where weights are streamed, tensors are sliced, a black box
            judges, or tensors must lie in certain levels.
        picoseconds: whether times are int64 in picoseconds, with `jax_enable_x64` only.

    Raises:
        EnvError: where the return would be an estimate without `estimate=True`, results share places, a level holds
            2 GiB or more, or picoseconds have no 64 bits.
    """
    task, tables = problem.task, problem.tables
    reasons = {
        "weights are streamed": task.streams_weights,
        "tensors are sliced": task.program.slices is not None,
        "a black box judges": task.is_black_box,
        "tensors must leave the backing memory": bool(task.must_leave.any()),
    }
    for reason, applies in reasons.items():
        if applies and not estimate:
            raise EnvError(
                f"Where {reason} the compiler's plan differs from the levels decided, so that returns in JAX are "
                "estimates; pass estimate=True to learn from them, and report what the compiler says."
            )
    if len(tables.pair):
        raise EnvError("In JAX no result takes the place of an operand; pass a task without in_place.")
    if tables.capacity.max() > MOST:
        raise EnvError("In JAX bytes have 32 bits; a fast level of this chip has 2 GiB or more.")
    rounded, time = rounded_steps(problem, picoseconds), np.int64 if picoseconds else np.int32
    costs, starts = rounded.costs, tables.segment_ptr[:-1]
    own = np.zeros((len(tables.entry_op), LEVELS), dtype=np.int64)
    entry_of_row = np.repeat(np.arange(len(starts)), np.diff(tables.op_ptr))
    used, use_op = tables.use_entry >= 0, np.repeat(np.arange(len(costs.compute_ps)), np.diff(tables.use_ptr))
    rows = {pair: row for row, pair in enumerate(zip(entry_of_row.tolist(), tables.entry_op.tolist(), strict=True))}
    for entry, op, use_ps in zip(tables.use_entry[used].tolist(), use_op[used].tolist(), costs.use_ps[used], strict=True):
        own[rows[entry, op]] += use_ps
    ports = np.zeros((len(costs.compute_ps), 2 * LEVELS), dtype=np.int64)
    np.add.at(ports[:, BACKING], use_op, costs.use_ps[:, BACKING])
    fastest = np.where(used, tables.fastest[tables.use_entry], BACKING)
    np.add.at(ports, (use_op, LEVELS + fastest), costs.use_ps[np.arange(len(fastest)), fastest])
    return on_device(
        StepsParams(
            *(np.int32(number) for number in (len(starts), len(costs.compute_ps))),  # type: ignore[arg-type]
            *(time(ps) for ps in (rounded.native_ps, rounded.all_backing_ps, rounded.all_fastest_ps)),
            np.bool_(costs.serial),
            *(array.astype(time) for array in (costs.latency_ps, costs.compute_ps, ports)),
            tables.capacity.astype(np.int32),
            tables.free.astype(np.int32),
            tables.may,
            tables.fastest.astype(np.int8),
            _rows(tables.segment_ptr, tables.segment_first, 0),
            _rows(tables.segment_ptr, tables.segment_last, -1),
            _rows(tables.segment_ptr, tables.segment_bytes, 0),
            np.stack([tables.byte_ops // _HALF, tables.byte_ops % _HALF], axis=1).astype(np.int32),
            _rows(tables.op_ptr, tables.entry_op, MOST),
            _rows(tables.op_ptr, own, 0).astype(time),
            tables.entry_features,
            tables.program_features,
        )
    )


def rounded_steps(problem: StepsProblem, picoseconds: bool = False) -> StepTables:
    """Return the tables with times in the units of JAX, int64; the compiled kernels play the same episodes on them.

    Raises:
        EnvError: for picoseconds where JAX has 32 bits.
    """
    tables, costs = problem.tables, problem.tables.costs
    use_op = np.repeat(np.arange(len(costs.compute_ps)), np.diff(tables.use_ptr))
    # No episode is longer than if every use were served by each of the ports, one after the other.
    most = costs.use_ps.sum(axis=1) + costs.latency_ps.sum()
    longest = float(most.sum() + costs.work_ps.sum())
    unit = unit_ps(longest, picoseconds)
    fields = ("compute_ps", "overhead_ps", "use_ps", "latency_ps")
    costs = costs._replace(**{name: in_units(getattr(costs, name), unit) for name in fields})
    used = np.zeros((len(costs.compute_ps), LEVELS), dtype=np.int64)
    np.add.at(used[:, BACKING], use_op, costs.use_ps[:, BACKING])
    native, fastest = (int(in_units(np.array(ps), unit)) for ps in (tables.native_ps, tables.all_fastest_ps))
    backing = int(op_times(costs, used).op_ps.sum())
    return tables._replace(costs=costs, native_ps=native, all_fastest_ps=fastest, all_backing_ps=backing)


def _rows(ptr: Ints, values: Ints, fill: int) -> Ints:
    """Return the rows ptr[e]..ptr[e + 1] - 1 of each entry side by side, padded; int32."""
    lengths = np.diff(ptr)
    rows = np.full((len(lengths), int(lengths.max()), *values.shape[1:]), fill, dtype=np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = values
    return rows if values.ndim > 1 else rows.astype(np.int32)


def init(key: Array | None, params: StepsParams) -> tuple[StepsState, Array]:
    """Return the state before the first decision and its observation float32[71]; nothing is drawn from the key."""
    del key
    zeros = jnp.zeros(2, jnp.int32)
    times = jnp.zeros(2, params.native.dtype)
    actions = jnp.full(params.fastest.shape, -1, jnp.int8)
    taken = jnp.zeros((2, 2), jnp.int32)
    state = StepsState(
        zeros[0], params.all_backing, jnp.zeros(LEVELS, bool), zeros, times, times, taken, params.free, params.ports,
        actions,
    )  # fmt: skip
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
    going, entry = state.cursor < params.entries, jnp.minimum(state.cursor, len(params.fastest) - 1)
    levels = jnp.arange(LEVELS, dtype=jnp.int32)
    slower = state.mask & (levels >= action)
    slowest = BACKING - jnp.argmax(state.mask[::-1])
    level = jnp.where(slower.any(), jnp.argmax(slower), slowest).astype(jnp.int32)
    chosen = (levels[:BACKING] == level) & going
    bytes_, _ = _bytes(params, entry)
    # What moves from one port to another: out of the backing memory, or out of the fastest level.
    given, fastest = levels == level, levels == params.fastest[entry]
    moves = jnp.concatenate([given * 1 - (levels == BACKING), given * 1 - fastest])
    change = jnp.where(going, jnp.tile(params.own[entry], 2) * moves.astype(params.own.dtype), 0)
    state = state._replace(
        cursor=state.cursor + going,
        estimate=state.estimate - jnp.where(chosen, state.saved, 0).sum(dtype=state.saved.dtype),
        taken=state.taken + chosen[:, None] * params.byte_ops[entry],
        free=state.free - jnp.where(chosen[:, None], bytes_, 0),
        ports=state.ports.at[params.entry_op[entry]].add(change, mode="drop"),
        actions=state.actions.at[jnp.where(going, state.cursor, MOST)].set(level.astype(jnp.int8), mode="drop"),
    )
    state = _prepared(state, params)
    over = state.cursor >= params.entries
    reward = jnp.where(going & over, params.native.astype(jnp.float32) / state.estimate.astype(jnp.float32), 0)
    return state, observe(state, params), reward, over


def _bytes(params: StepsParams, entry: Array) -> tuple[Array, Array]:
    """Return int32[T], bytes that an entry holds in each op, and bool[T], whether that is in its life."""
    ops = jnp.arange(params.free.shape[1], dtype=jnp.int32)[:, None]
    within = (ops >= params.segment_first[entry]) & (ops <= params.segment_last[entry])
    return jnp.where(within, params.segment_bytes[entry], 0).sum(1, dtype=jnp.int32), within.any(1)


def _prepared(state: StepsState, params: StepsParams) -> StepsState:
    """Return the state with the fields about the next entry; zeros once there is none."""
    going, entry = state.cursor < params.entries, jnp.minimum(state.cursor, len(params.fastest) - 1)
    bytes_, within = _bytes(params, entry)
    fits = (state.free >= bytes_).all(1) & params.may[entry, :BACKING]
    mask = jnp.append(fits, params.may[entry, BACKING] | ~fits.any())
    ops, own = params.entry_op[entry], params.own[entry]
    levels = jnp.arange(LEVELS, dtype=jnp.int32)
    here = jnp.stack([levels == BACKING, levels == params.fastest[entry]])
    ports = jnp.take(state.ports, ops, axis=0, mode="clip").reshape(-1, 2, LEVELS)
    without = ports - jnp.where(here, own[:, None], 0)
    # Times of each op with the entry in each level: axes op, what others do, level, port.
    used = without[:, :, None] + jnp.where(jnp.eye(LEVELS, dtype=bool), own[:, None, None], 0)
    busy = used + jnp.where(used > 0, params.latency, 0)
    memory = jnp.where(params.serial, busy.sum(3, dtype=busy.dtype), busy.max(3))
    compute = jnp.take(params.compute, ops, mode="clip")[:, None, None]
    time = jnp.maximum(compute, memory).sum(0, dtype=busy.dtype)
    saved = jnp.where(going & (params.capacity > 0), time[:, BACKING:] - time[:, :BACKING], 0)
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
    real = jnp.float64 if params.native.dtype == jnp.int64 else jnp.float32
    going, entry = state.cursor < params.entries, jnp.minimum(state.cursor, len(params.fastest) - 1)
    ops, backing, estimate = (x.astype(real) for x in (params.ops, params.all_backing, state.estimate))
    capacity = jnp.maximum(params.capacity, 1).astype(real)
    held = jnp.where(going, params.segment_bytes[entry].max(), 0)
    saved, missed = (jnp.maximum(time, 0).astype(real) for time in (state.saved, state.missed))
    high, low = (state.taken[:, half].astype(real) for half in range(2))
    scale, least = backing / ops, jnp.minimum(state.free.min(1), params.capacity)
    most = jnp.maximum(params.all_backing - params.all_fastest, 1).astype(real)
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
        jnp.clip((params.all_backing - state.estimate).astype(real) / most, 0, 1),
        params.native.astype(real) / (params.native.astype(real) + estimate),
    ]
    row = [
        state.mask,
        jnp.where(going, params.entry_features[entry], 0),
        *pairs,
        jnp.stack(numbers),
        params.program_features,
    ]
    return jnp.concatenate([part.astype(jnp.float32) for part in row])


batch_step = jax.vmap(step, in_axes=(0, 0, None))
"""`step` of many episodes of one program."""

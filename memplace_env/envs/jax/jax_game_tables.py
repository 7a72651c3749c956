"""Parts of a game in JAX: tables that never change, and a state that holds its blocks in slots."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from jax import Array

from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described
from memplace_env.envs.arguments import is_integer
from memplace_env.envs.jax.jax_arrays import MOST, check_problem, on_device, rounded_costs
from memplace_env.envs.malloc_game.observation import AHEAD
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.malloc_game.state import GIVERS, LASTING, PASSING, Tables
from memplace_env.machine.costs import op_times

NEVER: Final = 2**30
"""Op of an event that has not happened: later than every op."""
FOR_EVER: Final = MOST
"""Op until which the ends of memory are live: later than NEVER."""


class GameParams(NamedTuple):
    """A game of U uses and T ops, or longer tables that are padded; all integers int32, or times int64.

    Attributes:
        tables: Tables, but `use_tensor` has 32 more uses, `size` is at most a byte more than the fast level has, and
            `usable` is empty where ops reserve no bytes, which saves the passes over it.
        unchanging: parts of observations, `Unchanging`.
        uses, ops: U and T.
        open_ps: times[T], of all uses of each op in the backing memory.
        slots: bool[S], for the size of states alone.
    """

    tables: Any
    unchanging: Any
    uses: Array
    ops: Array
    open_ps: Array
    slots: Array


class BlockSlots(NamedTuple):
    """BlockSlots in S slots; an empty slot has owner -1. Meaning as in `malloc_game.state.StateLayout`.

    Attributes:
        owner: the tensor. holds: bool, whether its data is intact.
        offset, top, start, committed, live, released, used: those of the block; `committed_until` and `live_until`.
        valid: first op at which the backing memory holds the tensor, or NEVER.
        turn, sent: of the block's write-back, -1 before. mark: time of all write-backs up to and with it.
        shares: int16[S, 8], what the block adds to each address bin of the coarse profile.
    """

    owner: Array
    holds: Array
    offset: Array
    top: Array
    start: Array
    committed: Array
    live: Array
    released: Array
    used: Array
    valid: Array
    turn: Array
    sent: Array
    mark: Array
    shares: Array


class Coming(NamedTuple):
    """The block that the next decision would place, for NoCopy and, where ops reserve bytes, also for Copy (C = 2).

    Attributes:
        until: int32[C], turn before which write-backs must end for a result to find room; FOR_EVER: none suffices.
        offset: int32[C]. start: first op of a copy. wait: of a copy, a time.
    """

    until: Array
    offset: Array
    start: Array
    wait: Array


class GameState(NamedTuple):
    """A game.

    Attributes:
        use, op, head, tail: as in `malloc_game.state`: next use, its op, oldest pending write-back, number of all.
        final, stalled, tail_time, open, estimate, fast, backing: times, likewise.
        mask: bool[3], legal actions; all False at the end.
        sent_time, ended_time: of all write-backs begun, and ended.
        slot: int16[K], slot of a tensor's latest block, valid while it is the slot's owner.
        ready: int32[K], op from which a copy may start of a tensor that has no slot, at the earliest.
        blocks: see `BlockSlots`.
        idle: times[T + 1], port time that no copy has booked in the ops up to each one.
        arrived: times[T + 1], of all write-backs that begin up to each op.
        served: times[T + 1], that pending write-backs would get up to each op.
        past: int16[64, 16], the ring of the coarse profile, without blocks that have a slot.
        coming: see `Coming`.
        gone: int32, last op of the blocks that have lost their slot.
        inexact: bool, whether the slots did not suffice; the game may then differ from the real one.
        actions: int8[U], actions played, -1 for undecided uses; `replayed` takes them.
    """

    use: Array
    op: Array
    head: Array
    tail: Array
    final: Array
    stalled: Array
    tail_time: Array
    open: Array
    estimate: Array
    fast: Array
    backing: Array
    mask: Array
    sent_time: Array
    ended_time: Array
    slot: Array
    ready: Array
    blocks: BlockSlots
    idle: Array
    arrived: Array
    served: Array
    past: Array
    coming: Coming
    gone: Array
    inexact: Array
    actions: Array


def game_params(problem: MallocGameProblem, *, slots: int = 64, picoseconds: bool = False) -> GameParams:
    """Return what JAX needs of a game, as `gym.make("MallocGame-BERT-v0").unwrapped.problem` is one.

    Args:
        problem: the game; no black box judges it, and its results share no place.
        slots: blocks that states remember, 1..32767. Where they do not suffice, states say `inexact`: take more.
        picoseconds: whether times are int64 in picoseconds, with `jax_enable_x64` only.

    Raises:
        EnvError: for no `MallocGameProblem`, another number of slots, if a black box judges, results share places, an
            op has no uses, the fast level has 1 GiB or more, or picoseconds have no 64 bits.
    """
    check_problem(problem, MallocGameProblem, "MallocGame-BERT-v0")
    if not is_integer(slots) or not 1 <= slots < 2**15:  # a tensor's slot has 16 bits
        raise EnvError(f"slots is an integer in 1..32767, not {described(slots)}.")
    tables = problem.tables
    refused = {
        "is judged by a black box": problem.task.is_black_box,
        "lets results take the place of operands": tables.room.shape[1] > GIVERS,
        "has an op without uses": bool((np.diff(tables.use_ptr) == 0).any()),
        "has a fast level of 1 GiB or more": tables.capacity >= 2**30,
    }
    for reason in [reason for reason, applies in refused.items() if applies]:
        raise EnvError(f"JAX does not play a game that {reason}; play it with the compiled kernels.")
    rounded = rounded_game(problem, picoseconds)
    reserves = (tables.usable != tables.usable.max()).any() or (
        tables.room[:, PASSING] != tables.room[:, LASTING]
    ).any()
    none = np.zeros(0, dtype=np.int64)
    kept = rounded._replace(
        use_tensor=np.append(tables.use_tensor, np.zeros(AHEAD, dtype=np.int64)),
        size=np.minimum(tables.size, tables.capacity + 1),
        usable=tables.usable if reserves else none,
        use_op=none,
        costs=rounded.costs._replace(compute_pj=none, use_pj=none, copy_pj=none, reserved_bytes=none),
    )
    ops = len(tables.usable)
    open_ps = np.add.reduceat(rounded.costs.use_ps[:, 1], tables.use_ptr[:-1])
    numbers: Any = len(tables.use_op), ops, open_ps, np.zeros(slots, bool)
    return on_device(GameParams(kept, problem.unchanging, *numbers), picoseconds)


def rounded_game(problem: MallocGameProblem, picoseconds: bool = False) -> Tables:
    """Return the tables with times in the units of JAX, int64; the compiled kernels play the same games on them.

    Raises:
        EnvError: for picoseconds where JAX has 32 bits.
    """
    tables, costs = problem.tables, problem.tables.costs
    # A game is no longer than if ops waited for a copy of each use, and for each write-back, that has room.
    copies = costs.prefetch_ps[tables.use_tensor][tables.room[:, PASSING] >= tables.size[tables.use_tensor]].sum()
    longest = float(tables.rest_ps[0] + copies + costs.writeback_ps[tables.size <= tables.capacity].sum())
    longest = max(longest, float(costs.prefetch_ps.max()), float(costs.writeback_ps.max()))
    costs, _ = rounded_costs(costs, longest, picoseconds)
    used = np.zeros((len(costs.compute_ps), 2), dtype=np.int64)
    np.add.at(used[:, 1], tables.use_op, costs.use_ps[:, 1])
    return tables._replace(costs=costs, rest_ps=np.append(np.cumsum(op_times(costs, used).op_ps[::-1])[::-1], 0))

"""The fastest plan of a tiny task by exhaustion: every level of every use, every block, copy and address.

It shares nothing with the agents, the compiler or the simulator: only a task's arrays go in, and a plan comes out.

Why the plans that it tries are enough. A plan's latency is the time of its ops, plus the port time of its copies, minus
the most of these that fits into what ops leave of the port: serving the earliest deadline first is the greedy matching
of unit jobs to a row of slots, which is a maximum one (Glover). So no plan gets slower, and its backing port no busier,
if a copy is left out or its window gets wider. Hence of any valid plan, and no slower:

1. Copies out are left out but the one of a tensor that ends first. Its block is the one that the producer filled, as
   any other was filled from the backing memory, and it may begin with the op behind the producer.
2. A block that no copy filled and no producer, but for resident weights over all ops, serves nothing and goes. Of
   copies into one block the first to end stays, and none of a block with another source. It may last to the op before
   the first use that the block serves, and the block begins with it.
3. A block ends with its last use, or with its copy out. Less is held than before, so the addresses stay valid.
4. Blocks of one level, in order of address, can each be pushed down onto those below that share an op with it. So
   some order in which each lies on the highest of those before it that share an op with it gives addresses. A result
   in an operand's place moves with it. A pinned block stays where it is.

What is left is tried, all of it, but for what already has more bytes at some op than there are, or takes as long as the
best plan without its further ops' waits. Maps, the plans with one level for each tensor, are a part of it: one block a
tensor, no copy but one in for each streamed weight, resident weights over all ops, inputs and outputs where they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.kernel import kernel
from memplace_env.machine.costs import Costs
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, TensorKind

NEVER = 2**62
MOST = 500_000
"""Most decisions tried, about half a second; a task with more is given up."""


class Puzzle(NamedTuple):
    """A task's arrays, the least time of ops t..T-1 for each t, and what is asked for.

    `handover` int64[K, K] has the op at which a result may take an operand's place, or -1; `spare` int64[T + 1] the
    bytes of all such results of each op.
    """

    costs: Costs
    op: Ints
    tensor: Ints
    result: NDArray[np.bool_]
    first_use: Ints
    last_op: Ints
    size: Ints
    room: Ints
    resident: NDArray[np.bool_]
    output: NDArray[np.bool_]
    placeable: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    pinned: Ints
    handover: Ints
    spare: Ints
    least_ps: Ints
    before: Ints
    between_ps: Ints
    moves: bool
    one_level: bool
    by_port: bool


class Trial(NamedTuple):
    """The decisions for the uses so far, and the best of all plans.

    Attributes:
        level: int64[U]; `ports` int64[T, L], picoseconds of the uses that each level serves.
        held: int64[L, T + 1], bytes in blocks.
        ready: int64[K], op from which the backing memory has the data.
        row: int64[K, L], latest block of a tensor in a level, or -1.
        blocks: int64[U L, 9]: tensor, level, offset, start, end, first and last op of its copy, the level from which
            that fills it, or -1, and the op from which it has the data. Of no copy the last op is -1.
        best: int64[5]: latency, time of the backing port, number of blocks; most latency allowed; decisions tried.
    """

    level: Ints
    ports: Ints
    held: Ints
    ready: Ints
    row: Ints
    blocks: Ints
    best: Ints
    best_level: Ints
    best_blocks: Ints


class Optimum(NamedTuple):
    """The best plan, its latency and how long it keeps the backing memory's port busy, in picoseconds."""

    plan: MemoryPlan
    latency_ps: int
    port_ps: int


def best_plan(task: Task, *, one_level: bool = False, within_ps: int | None = None) -> Optimum | None:
    """Return the fastest of all valid plans of a task without aliases, or None if it has too many.

    Args:
        task: the task.
        one_level: True for the fastest map, see above.
        within_ps: if given, the plan that keeps the backing memory's port least busy of those that take no longer.
    """
    program, levels = task.program, task.accelerator.num_levels
    assert (program.alias_of < 0).all()
    uses, tensors, ops = program.num_uses, program.num_tensors, program.num_ops
    op, k = program.use_op, program.use_tensor
    puzzle = Puzzle(  # copies, as arrays that cannot be written have another type, for which kernels compile again
        Costs(*(np.array(part) if isinstance(part, np.ndarray) else bool(part) for part in task.costs)),
        op=program.use_op.astype(np.int64),
        tensor=program.use_tensor.astype(np.int64),
        result=program.use_is_result.copy(),
        first_use=program.first_use.astype(np.int64),
        last_op=program.live_end.astype(np.int64),
        size=program.tensor_bytes.copy(),
        room=np.stack([task.room_bytes(level) for level in range(levels)]),
        resident=(program.tensor_kind == TensorKind.WEIGHT) & (not task.streams_weights),
        output=program.tensor_kind == TensorKind.OUTPUT,
        placeable=program.is_placeable.copy(),
        allowed=task.allowed.copy(),
        pinned=task.pinned.copy(),
        handover=np.full((tensors, tensors), -1),
        spare=np.zeros(ops + 1, dtype=np.int64),
        least_ps=np.zeros(ops + 1, dtype=np.int64),
        before=np.array([max(op[:use][k[:use] == k[use]], default=-1) for use in range(uses)], dtype=np.int64),
        between_ps=_between(task),
        moves=task.fast_copies and not one_level,
        one_level=one_level,
        by_port=within_ps is not None,
    )
    trial = Trial(
        level=np.zeros(uses, dtype=np.int64),
        ports=np.zeros((ops, levels), dtype=np.int64),
        held=np.zeros((levels, ops + 1), dtype=np.int64),
        ready=np.where(program.producer < 0, 0, NEVER),
        row=np.full((tensors, levels), -1),
        blocks=np.zeros((uses * levels, 9), dtype=np.int64),
        best=np.array([NEVER, NEVER, 0, NEVER if within_ps is None else within_ps, 0]),
        best_level=np.zeros(uses, dtype=np.int64),
        best_blocks=np.zeros((uses * levels, 9), dtype=np.int64),
    )
    for use, its in program.inplace.tolist():
        operand, result, op = int(program.use_tensor[use]), int(program.use_tensor[its]), int(program.use_op[use])
        if not ((program.use_tensor == operand) & (program.use_op > op)).any():
            puzzle.handover[operand, result] = op
    for operand, result in np.argwhere(puzzle.handover >= 0).tolist():
        puzzle.spare[puzzle.handover[operand, result]] += program.tensor_bytes[result]
    _fill_least(puzzle, program.use_ptr, levels)
    _decide(puzzle, trial, 0, 0, 0, 0)
    latency_ps, port_ps, count, _, tried = trial.best.tolist()
    if tried > MOST:
        return None
    blocks = trial.best_blocks[:count]
    copies = [
        (k, source, level, begin, end) if source >= 0 else (k, level, task.backing, begin, end)
        for k, level, _, _, _, begin, end, source, _ in blocks[blocks[:, 6] >= 0].tolist()
    ]
    plan = task.make_plan(trial.best_level, blocks[:, :5], np.array(copies, dtype=np.int64))
    return Optimum(plan, latency_ps, port_ps)


def _between(task: Task) -> Ints:
    """Return int64[K, L, L], time of the slower port that a copy from one fast level to another takes."""
    chip, sizes = task.accelerator, task.program.tensor_bytes.tolist()
    reads, writes = ([getattr(level, f"{way}_bytes_per_s") for level in chip.levels] for way in ("read", "write"))
    rates = [[int(min(read, write) * chip.dma_efficiency) for write in writes] for read in reads]
    return np.array([[[-(-size * 10**12 // max(rate, 1)) for rate in row] for row in rates] for size in sizes])


@kernel
def _op_ps(costs, op, used_ps):
    """Return the time of an op and that of its backing port; `used_ps` int64[L] are the times of its uses by level."""
    slowest, total, port = 0, 0, 0
    for level in range(len(used_ps)):
        port = used_ps[level] + costs.latency_ps[level] if used_ps[level] else 0
        slowest, total = max(slowest, port), total + port
    return max(costs.compute_ps[op], total if costs.serial else slowest) + costs.overhead_ps[op], port


@kernel
def _fill_least(puzzle, use_ptr, levels):
    """Set the least times from all ways to serve the uses of each op."""
    for op in range(len(use_ptr) - 2, -1, -1):
        least = NEVER
        for way in range(levels ** (use_ptr[op + 1] - use_ptr[op])):
            used, rest = np.zeros(levels, dtype=np.int64), way
            for use in range(use_ptr[op], use_ptr[op + 1]):
                level, rest = rest % levels, rest // levels
                used[level] += puzzle.costs.use_ps[use, level]
            least = min(least, _op_ps(puzzle.costs, op, used)[0])
        puzzle.least_ps[op] = puzzle.least_ps[op + 1] + least


@kernel
def _decide(puzzle, trial, use, count, elapsed, stage):
    """Try all that can be decided for this use and the later ones, after `count` blocks.

    `elapsed` is the time of the ops before the previous use's. Stage 0 decides the level that serves the use, stage
    1 + l whether a block is in level l, too, from which later copies may read; only where they may.
    """
    best, backing = trial.best, trial.ports.shape[1] - 1
    ops, over = len(trial.ports), use == len(puzzle.op)
    best[4] += 1
    op = ops if over else puzzle.op[use]
    for before in range(puzzle.op[use - 1] if use else 0, op if stage == 0 else 0):
        elapsed += _op_ps(puzzle.costs, before, trial.ports[before])[0]
    if best[4] > MOST or elapsed + puzzle.least_ps[op] > best[3]:
        return
    if over:
        _finish(puzzle, trial, count, elapsed)
        return
    k, result = puzzle.tensor[use], puzzle.result[use]
    first, more = puzzle.first_use[k], puzzle.moves and not result and stage < backing
    after, then = (use, stage + 1) if more else (use + 1, 0)
    if stage:
        _decide(puzzle, trial, after, count, elapsed, then)
    for level in range(backing + 1):
        allowed = level == trial.level[first] if use > first else puzzle.placeable[k] or level == backing
        if (puzzle.one_level and not allowed) or not puzzle.allowed[k, level]:
            continue
        if stage and (level != stage - 1 or level == trial.level[use]):
            continue
        if not stage:
            trial.level[use] = level
            trial.ports[op, level] += puzzle.costs.use_ps[use, level]
        row = trial.row[k, level]
        held = -1 if row < 0 else trial.blocks[row, 4]
        # What happens at op `choice` is the end of a result's copy out or the begin of an operand's copy in; if it is
        # this op, there is no copy.
        for choice in range(op, ops + 1) if result else range(op + (stage == 0)):
            possible, new, start, end = _span(puzzle, trial, use, level, choice)
            if not possible:
                continue
            if result:
                trial.ready[k] = choice + 1 if choice > op or level == backing else NEVER
            if new:
                block, trial.row[k, level] = trial.blocks[count], count
                block[0], block[1], block[3], block[4] = k, level, start, end
                block[5], block[6] = (start + 1, choice) if result else (start, op - 1)
                block[7], block[8] = -1 if result else backing, op
                if choice == op:
                    block[6], block[8] = -1, op if result else 0
            elif row >= 0:
                trial.blocks[row, 4] = max(held, end)
            if _hold(puzzle, trial, level, start, end, puzzle.size[k]):
                _decide(puzzle, trial, after, count + new, elapsed, then)
            _hold(puzzle, trial, level, start, end, -puzzle.size[k])
            trial.row[k, level] = row
            if row >= 0:
                trial.blocks[row, 4] = held
        # Copies from another fast level, in ops choice..last.
        for source in range(backing if puzzle.moves and not result and level < backing else 0):
            for block in range(count + 1):
                if source == level or not _is_source(puzzle, trial, use, source, block, count):
                    continue
                its, size, new = trial.row[k, source], puzzle.size[k], block == count
                if new:
                    trial.row[k, source] = count
                    trial.blocks[count] = np.array([k, source, 0, 0, ops - 1, 0, -1, -1, 0])
                    _hold(puzzle, trial, source, 0, ops - 1, size)
                end = trial.blocks[block, 4]
                for choice in range(max(puzzle.before[use], held) + 1, op):
                    for last in range(choice, op):
                        stays = max(end, last)
                        if _is_again(trial, k, source, trial.blocks[block, 3], stays, count):
                            continue
                        trial.blocks[block, 4], trial.row[k, level] = stays, count + new
                        trial.blocks[count + new] = np.array([k, level, 0, choice, op, choice, last, source, last + 1])
                        fits = _hold(puzzle, trial, source, end + 1, stays, size)
                        fits &= _hold(puzzle, trial, level, choice, op, size)
                        if fits:
                            _decide(puzzle, trial, after, count + new + 1, elapsed, then)
                        _hold(puzzle, trial, level, choice, op, -size)
                        _hold(puzzle, trial, source, end + 1, stays, -size)
                        trial.blocks[block, 4], trial.row[k, level] = end, row
                if new:
                    _hold(puzzle, trial, source, 0, ops - 1, -size)
                    trial.row[k, source] = its
        if not stage:
            trial.ports[op, level] -= puzzle.costs.use_ps[use, level]


@kernel
def _is_source(puzzle, trial, use, source, block, count):
    """Return whether a copy for a use may read a block of a level, which is a new resident one if it is `count`."""
    k, before, ops = puzzle.tensor[use], puzzle.before[use], len(trial.ports)
    if block == count:
        return puzzle.resident[k] and puzzle.allowed[k, source] and trial.row[k, source] < 0
    its, level, _, start, end, _, _, _, ready = trial.blocks[block]
    always = puzzle.resident[k] and start == 0 and end >= ops - 1
    return its == k and level == source and (always or max(start, ready) <= before)


@kernel
def _is_again(trial, k, level, start, end, count):
    """Return whether the tensor has a later block of a level than that from `start`, and by the op `end`."""
    for row in range(count):
        its = trial.blocks[row]
        if its[0] == k and its[1] == level and start < its[3] <= end:
            return True
    return False


@kernel
def _span(puzzle, trial, use, level, choice):
    """Return whether a choice is possible, whether it begins a block, and the ops in which more bytes are held."""
    op, k = puzzle.op[use], puzzle.tensor[use]
    ready, row, copies = trial.ready[k], trial.row[k, level], choice != op
    held = -1 if row < 0 else trial.blocks[row, 4]
    if level == trial.ports.shape[1] - 1:
        return not copies and (puzzle.result[use] or ready <= op), False, 0, -1
    if puzzle.result[use]:
        useful = puzzle.output[k] or (puzzle.last_op[k] > op and not puzzle.one_level and puzzle.allowed[k, -1])
        return useful if copies else not puzzle.output[k], True, op, choice
    if copies:
        fetched = not puzzle.one_level or (use == puzzle.first_use[k] and not puzzle.resident[k])
        return fetched and choice >= max(ready, held + 1), True, choice, op
    if row >= 0:
        return True, False, held + 1, op
    return puzzle.resident[k], True, 0, len(trial.ports) - 1


@kernel
def _hold(puzzle, trial, level, start, end, size):
    """Add bytes to what blocks hold, and return whether there is room by the sum if all results are in place."""
    fits = True
    for op in range(start, end + 1):
        trial.held[level, op] += size
        fits &= trial.held[level, op] <= puzzle.room[level, op] + puzzle.spare[op]
    return fits


@kernel
def _finish(puzzle, trial, count, elapsed):
    """Time the copies of a plan whose ops take `elapsed`, find addresses, and keep it if it is the best."""
    best, (waits, port) = trial.best, _copies_ps(puzzle, trial, count)
    if elapsed + waits > best[3] or (puzzle.by_port and port >= best[1]):
        return
    for level in range(trial.ports.shape[1] - 1):
        if not _join(puzzle, trial, count, level, 0, np.arange(count), 0):
            return
    best[0], best[1], best[2] = elapsed + waits, port, count
    if not puzzle.by_port:
        best[3] = best[0] - 1
    trial.best_level[:], trial.best_blocks[:] = trial.level, trial.blocks


@kernel
def _copies_ps(puzzle, trial, count):
    """Return for how long ops and the end wait for copies, and for how long the backing port is busy in all."""
    blocks, left, ops = trial.blocks, np.zeros(count, dtype=np.int64), len(trial.ports)
    backing, port = trial.ports.shape[1] - 1, np.zeros(count, dtype=np.int64)
    for row in range(count):
        k, level, source, end = blocks[row, 0], blocks[row, 1], blocks[row, 7], blocks[row, 6]
        if end >= 0:
            left[row] = puzzle.costs.prefetch_ps[k] if source >= 0 else puzzle.costs.writeback_ps[k]
            if 0 <= source < backing:
                left[row] = puzzle.between_ps[k, source, level]
            port[row] = backing if source < 0 else max(source, level)
    free, waits, busy = np.zeros(backing + 1, dtype=np.int64), 0, left[port == backing].sum()
    for op in range(ops + 1):
        free[:] = 0
        for row in range(count):
            if blocks[row, 6] < op or op == ops:
                free[port[row]] += left[row]
        wait = free.max()
        free[:] = wait
        waits += wait
        for row in range(count):  # first what is due, as all else has later deadlines
            if blocks[row, 6] < op or op == ops:
                free[port[row]], left[row] = free[port[row]] - left[row], 0
        for during in range(2 if op < ops else 0):
            if during:
                time, own = _op_ps(puzzle.costs, op, trial.ports[op])
                busy += own
                for level in range(backing + 1):
                    used = trial.ports[op, level]
                    free[level] = time - (used + puzzle.costs.latency_ps[level] if used else 0)
            while True:
                soonest = -1
                for row in range(count):
                    begun = left[row] > 0 and free[port[row]] > 0 and blocks[row, 5] < op + during
                    if begun and (soonest < 0 or blocks[row, 6] < blocks[soonest, 6]):
                        soonest = row
                if soonest < 0:
                    break
                done = min(free[port[soonest]], left[soonest])
                free[port[soonest]], left[soonest] = free[port[soonest]] - done, left[soonest] - done
    return waits, busy


@kernel
def _join(puzzle, trial, count, level, row, head, given):
    """Return whether the blocks of a level find room with any choice of results in place, from block `row` on.

    `head` int64[count] is the first block of those in one place; operands that have `given` theirs have a bit each.
    """
    if row == count:
        return _pack(puzzle, trial, count, level, np.zeros(trial.held.shape[1], dtype=np.int64), 0, head)
    if _join(puzzle, trial, count, level, row + 1, head, given):
        return True
    blocks = trial.blocks
    for other in range(row):  # an operand's block is decided before the result's
        op = puzzle.handover[blocks[other, 0], blocks[row, 0]]
        there = blocks[row, 1] == level and blocks[other, 1] == level and not given >> other & 1
        if there and blocks[row, 3] == op and blocks[other, 4] == op and blocks[other, 6] < op:
            head[row] = head[other]
            if _join(puzzle, trial, count, level, row + 1, head, given | 1 << other):
                return True
            head[row] = row
    return False


@kernel
def _pack(puzzle, trial, count, level, height, placed, head):
    """Return whether blocks of a level that are not `placed` (a bit for each) find room on top of the others.

    `height` int64[T + 1] is the top of what is placed during each op; blocks of one `head` have one offset.
    """
    done = True
    for row in range(count):
        if trial.blocks[row, 1] != level or head[row] != row or placed >> row & 1:
            continue
        done, offset, size, pin = False, 0, puzzle.size[trial.blocks[row, 0]], -1
        for other in range(count):
            if head[other] == row:
                start, end = trial.blocks[other, 3], trial.blocks[other, 4]
                offset, at = max(offset, height[start : end + 1].max()), puzzle.pinned[trial.blocks[other, 0]]
                if at >= 0 <= pin != at:
                    return False
                pin = max(pin, at)
        if offset > pin >= 0:
            return False
        offset = max(offset, pin)
        higher = height.copy()
        for other in range(count):
            if head[other] == row:
                start, end = trial.blocks[other, 3], trial.blocks[other, 4]
                if offset + size > puzzle.room[level, start : end + 1].min():
                    return False  # nor does it fit on top of more
                trial.blocks[other, 2], higher[start : end + 1] = offset, offset + size
        if _pack(puzzle, trial, count, level, higher, placed | 1 << row, head):
            return True
    return done

"""Compiled parts of the search for an order: its value by density-greedy placement, and annealing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.machine.costs import Costs
from memplace_env.machine.costs.op_time_kernels import op_time
from memplace_env.program.program import Ints

ATTEMPTS = 2_000
"""Most tries to find a move that keeps all dependences. Our choice."""


class Ground(NamedTuple):
    """Arrays that orders are valued by, for T ops, K tensors, L levels. Lists are pairs: where each begins, and items.

    Attributes:
        costs: those of the file's order; what ops reserve is in `own` and `ahead`.
        use_ptr, use_tensor: those of the program.
        touching: the ops that use each tensor.
        size, stays: int64[K], bytes, and 1 for weights that are there from the first op to the last.
        early: int64[K], 1 for weights that are copied in during the op before their first use.
        saved: float64[K, L-1], picoseconds that a level saves a tensor; 0 where it cannot be.
        capacity: int64[L-1].
        own, ahead: int64[T], see `Freedom`.
        before, after: the ops that must come before each op, and after it.
        takes, gives: the operands whose place each tensor may take, and the results that may take its place.
    """

    costs: Costs
    use_ptr: Ints
    use_tensor: Ints
    touching: tuple[Ints, Ints]
    size: Ints
    stays: Ints
    early: Ints
    saved: np.ndarray
    capacity: Ints
    own: Ints
    ahead: Ints
    before: tuple[Ints, Ints]
    after: tuple[Ints, Ints]
    takes: tuple[Ints, Ints]
    gives: tuple[Ints, Ints]


@kernel
def value(ground, order, place):
    """Return the latency in ps of a density-greedy placement in an order int64[T]; op t stands at `place[t]`.

    Level by level, by falling time saved per byte and op: a tensor lies there if all ops of its life have the bytes. A
    result takes the place of an operand that dies at its op, where the program has the pair and both lie there.
    """
    ops, tensors, backing = len(order), len(ground.size), len(ground.capacity)
    first, last = np.full(tensors, ops), np.full(tensors, -1)
    for tensor in range(tensors):
        for at in range(ground.touching[0][tensor], ground.touching[0][tensor + 1]):
            stands = place[ground.touching[1][at]]
            first[tensor], last[tensor] = min(first[tensor], stands), max(last[tensor], stands)
        first[tensor] = max(first[tensor] - ground.early[tensor], 0)
    level, used = np.full(tensors, backing), np.empty(ops, dtype=np.int64)
    score, given, taken = np.empty(tensors), np.zeros(tensors, np.bool_), np.zeros(tensors, np.bool_)
    for fast in range(backing):
        used[:] = 0
        if fast == 0:
            for at in range(ops):
                staged = ground.ahead[order[at + 1]] if at + 1 < ops else 0
                used[at] = min(ground.own[order[at]] + staged, ground.capacity[0])
        # `held` are bytes of weights that stay, `peak` the most of all else in any op.
        held, peak = np.int64(0), used.max()
        for tensor in range(tensors):
            life = ops if ground.stays[tensor] else last[tensor] - first[tensor] + 1
            free = level[tensor] == backing
            score[tensor] = -ground.saved[tensor, fast] / (ground.size[tensor] * max(life, 1)) if free else 0.0
        for tensor in np.argsort(score):
            size = ground.size[tensor]
            if score[tensor] >= 0:
                break
            if ground.stays[tensor]:
                if held + peak + size <= ground.capacity[fast]:
                    held += size
                    level[tensor] = fast
                continue
            since, until, operand, result = first[tensor], last[tensor], -1, -1
            for at in range(ground.takes[0][tensor], ground.takes[0][tensor + 1]):
                other = ground.takes[1][at]
                if level[other] == fast and last[other] == since and not given[other]:
                    operand = other
            for at in range(ground.gives[0][tensor], ground.gives[0][tensor + 1]):
                other = ground.gives[1][at]
                if level[other] == fast and first[other] == until and not taken[other]:
                    result = other
            begin, end = since + (operand >= 0), until - (result >= 0)
            most = np.int64(0)
            for at in range(begin, end + 1):
                most = max(most, used[at])
            if most + held + size > ground.capacity[fast]:
                continue
            for at in range(begin, end + 1):
                used[at] += size
                peak = max(peak, used[at])
            level[tensor] = fast
            if operand >= 0:
                given[operand] = taken[tensor] = True
            if result >= 0:
                taken[result] = given[tensor] = True
    latency, port = np.int64(0), np.empty(backing + 1, dtype=np.int64)
    for op in range(ops):
        port[:] = 0
        for use in range(ground.use_ptr[op], ground.use_ptr[op + 1]):
            served = level[ground.use_tensor[use]]
            port[served] += ground.costs.use_ps[use, served]
        latency += op_time(ground.costs, op, port)[0]
    return latency


@kernel
def anneal(ground, heats, seed, current, best):
    """Run one chain of simulated annealing over orders; return the value of the best in ps.

    A move takes an op to another place between the last op that it depends on and the first that depends on it, or lets
    two neighbouring stretches of ops change places.

    Args:
        ground: the Ground.
        heats: float64[N], ps by which a worse order is accepted with probability 1/e, one for each order tried.
        seed: seed of the chain.
        current: int64[T], the order where the chain begins; filled with the one where it ends.
        best: int64[T], filled with the best order, the first one included.
    """
    np.random.seed(seed)
    ops = len(current)
    place, trial = np.empty(ops, dtype=np.int64), current.copy()
    place[current] = np.arange(ops)
    latency = value(ground, current, place)
    best[:], best_latency = current, latency
    # Invariant: `trial` equals `current`, and `place` its places, at the start of each pass.
    for heat in heats:
        left, right = 0, -1
        for _ in range(ATTEMPTS):
            left, right = _moved(ground, current, place, trial)
            if right >= left:
                break
        if right < left:
            break  # nothing is free
        for at in range(left, right + 1):
            place[trial[at]] = at
        found = value(ground, trial, place)
        if found <= latency or np.random.random() < np.exp((latency - found) / heat):
            latency = found
            current[left : right + 1] = trial[left : right + 1]
            if found < best_latency:
                best[:], best_latency = current, found
        else:
            trial[left : right + 1] = current[left : right + 1]
            for at in range(left, right + 1):
                place[trial[at]] = at
    return best_latency


@kernel
def _moved(ground, current, place, trial):
    """Change `trial`, which equals `current`, by a move; return the first and last place changed, 0 and -1 if none."""
    ops = len(current)
    if np.random.random() < 0.5:
        at = np.random.randint(ops)
        op, low, high = current[at], 0, ops - 1
        for index in range(ground.before[0][op], ground.before[0][op + 1]):
            low = max(low, place[ground.before[1][index]] + 1)
        for index in range(ground.after[0][op], ground.after[0][op + 1]):
            high = min(high, place[ground.after[1][index]] - 1)
        to = np.random.randint(low, high + 1)
        if to == at:
            return 0, -1
        if to > at:
            trial[at:to] = current[at + 1 : to + 1]
        else:
            trial[to + 1 : at + 1] = current[to:at]
        trial[to] = op
        return min(at, to), max(at, to)
    # Lengths of all sizes: uniform in the logarithm.
    lengths = np.exp(np.random.random(2) * np.log(max(ops // 2, 1))).astype(np.int64)
    begin = np.random.randint(ops)
    middle, end = begin + lengths[0], begin + lengths[0] + lengths[1]
    if end > ops:
        return 0, -1
    for at in range(begin, middle):
        op = current[at]
        for index in range(ground.after[0][op], ground.after[0][op + 1]):
            if middle <= place[ground.after[1][index]] < end:
                return 0, -1
    trial[begin : begin + end - middle] = current[middle:end]
    trial[begin + end - middle : end] = current[begin:middle]
    return begin, end - 1

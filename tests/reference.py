"""Plain, slow implementations of the contracts, against which the kernels are held exactly equal."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.plan import MemoryPlan
from memplace_env.workload.program import Program, TensorKind

PS = 10**12


def compute_ps(program: Program, chip: Accelerator, op: int) -> int:
    matrix = ceil(Fraction(int(program.macs[op]) * PS, chip.matrix_macs_per_s[program.dtype]))
    vector = ceil(Fraction(int(program.vector_ops[op]) * PS, chip.vector_ops_per_s[program.dtype]))
    array = 0
    if chip.systolic:
        unit = chip.systolic
        count, rows, depth, columns = map(int, program.gemm[op])
        fill = 2 * unit.rows + unit.columns - 2 if unit.fill == "exposed" else 0
        cycles = count * ceil(Fraction(depth, unit.rows)) * ceil(Fraction(columns, unit.columns)) * (rows + fill)
        array = ceil(Fraction(cycles * PS, unit.arrays * unit.clock_hz)) if rows else 0
    return max(matrix, vector, array)


def use_ps(program: Program, chip: Accelerator, use: int, level: int) -> int:
    memory = chip.levels[level]
    rate = memory.write_bytes_per_s if program.use_is_result[use] else memory.read_bytes_per_s
    return ceil(Fraction(int(program.use_bytes[use]) * PS, rate))


def copy_ps(program: Program, chip: Accelerator, tensor: int, *, prefetch: bool) -> int:
    backing = chip.levels[-1]
    rate = backing.read_bytes_per_s if prefetch else backing.write_bytes_per_s
    return ceil(Fraction(int(program.tensor_bytes[tensor]) * PS, int(rate * Fraction(str(chip.dma_efficiency)))))


def op_ports(program: Program, chip: Accelerator, op: int, use_level: dict[int, int]) -> list[int]:
    """Port time of each level during the op; `use_level` gives the level of each of the op's uses."""
    ports = [0] * chip.num_levels
    for use, level in use_level.items():
        ports[level] += use_ps(program, chip, use, level)
    return [time + chip.levels[level].latency_ps if time else 0 for level, time in enumerate(ports)]


def op_time(program: Program, chip: Accelerator, op: int, ports: list[int]) -> int:
    memory = sum(ports) if chip.ports == "serial" else max(ports)
    return max(compute_ps(program, chip, op), memory) + chip.op_overhead_ps


def uses_of(program: Program, op: int) -> range:
    return range(program.use_ptr[op], program.use_ptr[op + 1])


class Timing(NamedTuple):
    latency: int
    op_times: list[int]
    stalls: list[int]
    tail: int


def simulate(program: Program, chip: Accelerator, plan: MemoryPlan) -> Timing:
    """Op by op; each copy is a small record, served by earliest end, then start, then place in the plan."""
    copies = []
    for row, (tensor, source, _target, start, end) in enumerate(plan.transfers.tolist()):
        need = copy_ps(program, chip, tensor, prefetch=source == chip.backing)
        copies.append({"key": (end, start, row), "start": start, "end": end, "left": need})
    copies.sort(key=lambda copy: copy["key"])
    op_times, stalls = [], []
    for op in range(program.num_ops):
        late = [copy for copy in copies if copy["end"] < op]
        stalls.append(sum(copy["left"] for copy in late))
        for copy in late:
            copy["left"] = 0
        ports = op_ports(program, chip, op, {use: int(plan.use_level[use]) for use in uses_of(program, op)})
        op_times.append(op_time(program, chip, op, ports))
        free = op_times[-1] - ports[-1]
        for copy in copies:
            if copy["start"] <= op:
                done = min(free, copy["left"])
                copy["left"] -= done
                free -= done
    tail = sum(copy["left"] for copy in copies)
    return Timing(sum(op_times) + sum(stalls) + tail, op_times, stalls, tail)


class Block(NamedTuple):
    level: int
    offset: int
    size: int
    start: int
    end: int


def gaps(blocks: list[Block], capacity: int, start: int, end: int) -> list[tuple[int, int]]:
    """(offset, size) of every maximal stretch of addresses free during all of start..end."""
    found, cursor = [], 0
    for block in sorted(blocks, key=lambda block: block.offset):
        if block.start <= end and block.end >= start:
            if block.offset > cursor:
                found.append((cursor, block.offset - cursor))
            cursor = max(cursor, block.offset + block.size)
    if capacity > cursor:
        found.append((cursor, capacity - cursor))
    return found


def compile_mapping(program: Program, chip: Accelerator, mapping: list[int], order: str) -> tuple[MemoryPlan, int]:
    """The rectifier by its description: visit, try the wanted level, then each one down."""
    ops, backing = program.num_ops, chip.backing
    streamed = chip.weights == "streamed"
    level = [backing] * program.num_tensors
    placed: dict[int, Block] = {}
    windows: dict[int, tuple[int, int]] = {}
    free: list[int] = []
    reassigned = 0

    first_uses = dict.fromkeys(program.use_tensor.tolist())
    weights = {k for k in first_uses if program.tensor_kind[k] == TensorKind.WEIGHT}
    weights_at: list[list[int]] = [[] for _ in range(ops)]
    results_at: list[list[int]] = [[] for _ in range(ops)]
    for k in first_uses:
        if k in weights:
            weights_at[0 if order == "all-weights-first" and not streamed else program.live_start[k]].append(k)
        elif program.tensor_kind[k] == TensorKind.ACTIVATION:
            results_at[program.producer[k]].append(k)

    for op, (due_weights, due_results) in enumerate(zip(weights_at, results_at, strict=True)):
        due = due_results + due_weights if order == "results-before-weights" else due_weights + due_results
        for k in due:
            size, is_weight = int(program.tensor_bytes[k]), k in weights
            start, end = op, int(program.live_end[k])
            if is_weight and not streamed:
                start, end = 0, ops - 1
            candidates = list(range(mapping[k], backing))
            if is_weight and streamed:
                need = copy_ps(program, chip, k, prefetch=True)
                starts = [s for s in range(op) if sum(free[s:op]) >= need]
                start, candidates = (max(starts), candidates) if starts else (0, [])
            for at in candidates:
                others = [block for block in placed.values() if block.level == at]
                capacity = chip.levels[at].capacity_bytes
                fitting = [gap for gap in gaps(others, capacity, start, end) if gap[1] >= size]
                if fitting:
                    # The gap below resident weights counts as the largest of all.
                    floor = min((placed[w].offset for w in weights if w in placed and level[w] == at), default=capacity)
                    below_weights = {gap: not streamed and sum(gap) == floor for gap in fitting}
                    offset, room = min(fitting, key=lambda gap: (below_weights[gap], gap[1], gap[0]))
                    if is_weight and not streamed:
                        offset += room - size
                    placed[k] = Block(at, offset, size, start, end)
                    level[k] = at
                    break
            if is_weight and k in placed and streamed:
                windows[k] = (start, op - 1)
                for during in range(start, op):
                    taken = min(need, free[during])
                    free[during] -= taken
                    need -= taken
            if level[k] != mapping[k]:
                reassigned += size
        ports = op_ports(program, chip, op, {use: level[program.use_tensor[use]] for use in uses_of(program, op)})
        free.append(op_time(program, chip, op, ports) - ports[-1])

    rows = [(k, *(block.level, block.offset, block.start, block.end)) for k, block in sorted(placed.items())]
    copies = [(k, backing, level[k], *window) for k, window in sorted(windows.items())]
    plan = MemoryPlan.of(
        program,
        chip,
        np.array([level[k] for k in program.use_tensor]),
        np.array(rows, dtype=np.int64).reshape(-1, 5),
        np.array(copies, dtype=np.int64).reshape(-1, 5),
    )
    return plan, reassigned

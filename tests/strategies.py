"""Hypothesis strategies for random programs, accelerators, costs, tasks and levels; the only user of hypothesis.

Example:
    >>> from hypothesis import given
    >>> from memplace_env.placement.compiler import native_plan
    >>> from memplace_env.placement.validation import violations
    >>> @given(tasks())
    ... def test_whatever_the_compiler_makes_can_run(task):
    ...     assert violations(task, native_plan(task)) == []
    >>> test_whatever_the_compiler_makes_can_run()
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from memplace_env._lib.errors import AcceleratorError
from memplace_env._lib.units import ceil_div
from memplace_env.machine.accelerator import Accelerator, MemoryLevel, Systolic
from memplace_env.machine.accelerator.accelerator import ANY, BACKING, KINDS, Weights
from memplace_env.machine.costs import CostModel, Roofline
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program, TensorKind
from memplace_env.program.reordering import dependences
from memplace_env.program.slicing import sliced
from memplace_env.testing.cost_models import RandomCosts, ReservingRoofline

WEIGHTS: tuple[Weights, ...] = ("resident", "streamed")


@st.composite
def programs(draw: st.DrawFn, max_ops: int = 14) -> Program:
    """Draw random programs with sizes from bytes to several kilobytes, so that levels of a few kilobytes fill up."""
    return random_dag(draw(st.integers(0, 2**32)), ops=draw(st.integers(1, max_ops)), largest=4000)


@st.composite
def accelerators(draw: st.DrawFn, weights: Weights | None = None) -> Accelerator:
    """Draw small machines of 2 to 4 levels with odd bandwidths, which reveal wrong rounding."""
    capacities = np.cumsum([draw(st.integers(500, 9000)) for _ in range(draw(st.integers(1, 3)))]).tolist()
    rates = sorted((draw(st.integers(10**6, 10**12)) for _ in range(len(capacities) + 1)), reverse=True)
    levels = tuple(
        MemoryLevel(
            name=f"M{index}",
            capacity_bytes=capacity,
            read_bytes_per_s=rate,
            write_bytes_per_s=draw(st.integers(10**6, rate)),
            latency_ps=draw(st.sampled_from([0, 7, 1000])),
            pj_per_byte=draw(st.sampled_from([0.5, 3.0, 64.0])),
        )
        for index, (capacity, rate) in enumerate(zip([*capacities, 2**40], rates, strict=True))
    )
    systolic = st.builds(
        Systolic,
        rows=st.integers(1, 64),
        columns=st.integers(1, 64),
        arrays=st.integers(1, 4),
        clock_hz=st.integers(10**6, 10**9),
        fill=st.sampled_from(["hidden", "exposed"]),
    )
    return Accelerator(
        name="random",
        description="",
        ports=draw(st.sampled_from(["parallel", "serial"])),
        weights=draw(st.sampled_from(WEIGHTS)) if weights is None else weights,
        fusion="none",
        dtype="int8",
        matrix_macs_per_s={"int8": draw(st.integers(10**9, 10**14))},
        vector_ops_per_s={"int8": draw(st.integers(10**8, 10**12))},
        mac_pj={"int8": 0.1},
        vector_pj={"int8": 0.03},
        op_overhead_ps=draw(st.sampled_from([0, 13])),
        static_power_w=1.0,
        dma_efficiency=draw(st.sampled_from([1.0, 0.9, 0.37])),
        systolic=draw(st.none() | systolic),
        levels=levels,
    )


def cost_models() -> st.SearchStrategy[CostModel]:
    """Return a strategy for cost models: the roofline, with and without reserved bytes, and random arrays."""
    seeds = st.integers(0, 2**32)
    return st.just(Roofline()) | st.builds(ReservingRoofline, seeds) | st.builds(RandomCosts, seeds)


@st.composite
def tasks(
    draw: st.DrawFn,
    program: st.SearchStrategy[Program] | None = None,
    accelerator: st.SearchStrategy[Accelerator] | None = None,
    costs: st.SearchStrategy[CostModel] | None = None,
) -> Task:
    """Draw random tasks, by default of small `programs` on `accelerators` of 2 to 4 levels with any `cost_models`.

    Now and then the largest tensors are cut into slices.
    """
    drawn = (
        draw(sliced_now_and_then(programs() if program is None else program)),
        draw(accelerators() if accelerator is None else accelerator),
    )
    return make_task(*drawn, costs=draw(cost_models() if costs is None else costs))


@st.composite
def tasks_of_roles(draw: st.DrawFn, program: st.SearchStrategy[Program] | None = None) -> Task:
    """Draw tasks with memories that hold one kind of tensors, aligned blocks, inputs and outputs in blocks, and flash.

    The last fast memory has room for all, so that few programs are refused.
    """
    chip, holds = draw(accelerators()), st.sampled_from([KINDS, KINDS, *((kind,) for kind in KINDS)])
    limit = st.none() | st.none() | st.integers(1, 4000)
    fast = [replace(level, holds=draw(holds), largest_block_bytes=draw(limit)) for level in chip.levels[:-2]]
    last = replace(chip.levels[-2], capacity_bytes=2**20) if draw(st.booleans()) else chip.levels[-2]
    flash = draw(st.booleans())
    slow = replace(chip.levels[-1], alignment_bytes=draw(st.sampled_from([1, 1, 32, 256])))
    slow = replace(slow, holds=("weights",), writable=False) if flash else slow
    levels = (*fast, last, slow)
    names = [level.name for level in levels[:-1] if "activations" in level.holds]
    options = {
        "alignment": draw(st.sampled_from([1, 2, 16, 256])),
        "io_level": draw(st.sampled_from([ANY, *names, *([] if flash else [BACKING])])),
        "slices": draw(st.sampled_from([None, None, 0.5])),
        "costs": draw(st.just("roofline") | st.builds(RandomCosts, st.integers(0, 2**32))),
    }
    try:
        return resolve_task(draw(programs() if program is None else program), replace(chip, levels=levels), **options)
    except AcceleratorError:
        reject()


def game_tasks(program: st.SearchStrategy[Program] | None = None) -> st.SearchStrategy[Task]:
    """Return a strategy for tasks of the game, by default of `programs_with_idle_ops`, half of them with pairs."""
    idle = programs_with_idle_ops()
    return tasks(idle | programs_with_pairs(idle) if program is None else program, two_level_accelerators())


@st.composite
def tensor_levels(draw: st.DrawFn, task: Task) -> list[int]:
    """Draw a level for each tensor; now and then the same for all, with which levels overflow most."""
    level, tensors = st.integers(0, task.backing), task.program.num_tensors
    if draw(st.booleans()):
        return [draw(level)] * tensors
    return draw(st.lists(level, min_size=tensors, max_size=tensors))


@st.composite
def programs_with_idle_ops(draw: st.DrawFn, max_ops: int = 14) -> Program:
    """Draw random programs, now and then with ops that compute but use no tensor at all, first, between and last."""
    program = draw(programs(max_ops))
    at = sorted(draw(st.lists(st.integers(0, program.num_ops), max_size=3)))
    return with_idle_ops(program, at, vector_ops=draw(st.sampled_from([0, 50, 4000])))


def with_idle_ops(program: Program, at: list[int], vector_ops: int) -> Program:
    """Return the program with an op that uses no tensor before each op in `at` (T: after the last)."""
    op_type, op_name = (
        tuple(np.insert(np.array(names, dtype=object), at, "Idle").tolist())
        for names in (program.op_type, program.op_name)
    )
    moved = program.producer + np.searchsorted(at, program.producer, side="right")
    return replace(
        program,
        producer=np.where(program.producer < 0, -1, moved),
        op_type=op_type,
        op_name=op_name,
        gemm=np.insert(program.gemm, at, 0, axis=0),
        vector_ops=np.insert(program.vector_ops, at, vector_ops),
        geometry=np.insert(program.geometry, at, 0, axis=0),
        use_ptr=np.insert(program.use_ptr, at, program.use_ptr[at]),
    )


@st.composite
def programs_with_rows(draw: st.DrawFn, program: st.SearchStrategy[Program] | None = None) -> Program:
    """Draw random programs whose tensors say where they may be cut: rows of whole bytes or not, with halos or not."""
    drawn = draw(programs() if program is None else program)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = rng.integers(1, rng.choice([2, 9, 200, 10**5], drawn.num_tensors))
    # Most tensors have rows of a whole number of bytes.
    rows = np.where(rng.random(drawn.num_tensors) < 0.7, np.gcd(rows, drawn.tensor_bytes), rows)
    rows = np.where(rng.random(drawn.num_tensors) < 0.5, drawn.tensor_bytes, rows)
    blocks = rng.integers(1, 4, drawn.num_tensors)
    halo = rng.integers(0, 4, drawn.num_uses) * draw(st.integers(0, 1))
    return replace(drawn, tensor_rows=np.stack([blocks, rows], 1), use_halo=halo)


@st.composite
def programs_with_pairs(draw: st.DrawFn, program: st.SearchStrategy[Program] | None = None) -> Program:
    """Draw random programs in which results have the bytes of an operand, and may take its place."""
    return with_pairs(draw(programs() if program is None else program), draw(st.integers(0, 2**32)))


def with_pairs(program: Program, seed: int) -> Program:
    """Return a program in which results have the bytes of an operand, and may take its place."""
    rng = np.random.default_rng(seed)
    size, inner = program.tensor_bytes.copy(), program.tensor_kind == TensorKind.ACTIVATION
    pairs = []
    for first, end in pairwise(program.use_ptr.tolist()):
        uses = first + rng.permutation(end - first)
        uses = uses[inner[program.use_tensor[uses]]]
        operands, results = (uses[program.use_is_result[uses] == is_result] for is_result in (False, True))
        for result in results.tolist() if len(operands) else ():
            size[program.use_tensor[result]] = size[program.use_tensor[operands[0]]]
        pairs += [
            (use, result)
            for result in results.tolist()
            for use in operands.tolist()
            if size[program.use_tensor[use]] == size[program.use_tensor[result]] and rng.random() < 0.8
        ]
    moved = np.where(inner[program.use_tensor], size[program.use_tensor], program.use_bytes)
    return replace(program, tensor_bytes=size, use_bytes=moved, inplace=np.array(pairs, dtype=np.int64).reshape(-1, 2))


@st.composite
def orders(draw: st.DrawFn, program: Program) -> Ints:
    """Draw an order of a program's ops, int64[T]: of those that may come next, any."""
    rank = draw(st.permutations(range(program.num_ops)))
    before = {op: set[int]() for op in range(program.num_ops)}
    for first, later in dependences(program).tolist():
        before[later].add(first)
    order: list[int] = []
    while len(order) < program.num_ops:
        done = set(order)
        order.append(min(before.keys() - done, key=lambda op: (not before[op] <= done, rank[op])))
    return np.array(order, dtype=np.int64)


@st.composite
def sliced_now_and_then(draw: st.DrawFn, program: st.SearchStrategy[Program]) -> Program:
    """Draw programs of a strategy, and now and then cut their largest tensors into slices."""
    if draw(st.integers(0, 2)):
        return draw(program)
    drawn = draw(programs_with_rows(program))
    largest = int(drawn.tensor_bytes[drawn.is_placeable].max(initial=1))
    return sliced(drawn, max(1, largest // draw(st.integers(2, 4))), draw(st.sampled_from([1, 1, 64])))


def magnitudes(largest_exponent: int, smallest_exponent: int = 0) -> st.SearchStrategy[int]:
    """Return a strategy for integers of all orders of magnitude: 1..99 times a power of ten, plus its exponent."""
    exponents = st.integers(smallest_exponent, largest_exponent)
    return st.builds(lambda digits, exponent: digits * 10**exponent + exponent, st.integers(1, 99), exponents)


@st.composite
def two_level_accelerators(draw: st.DrawFn) -> Accelerator:
    """Draw machines for the game: streamed weights, fast memory for one tensor up to all, slow or fast compute."""
    backing = draw(magnitudes(10, 7))
    fast = backing * draw(st.integers(1, 50))
    rates = ((draw(magnitudes(4, 1)), fast), (2**40, backing))
    levels = tuple(
        MemoryLevel(
            name=name,
            capacity_bytes=capacity,
            read_bytes_per_s=rate,
            write_bytes_per_s=ceil_div(rate, draw(st.integers(1, 3))),
            latency_ps=draw(st.sampled_from([0, 7, 10**5])),
            pj_per_byte=1.0,
        )
        for name, (capacity, rate) in zip(("fast", "backing"), rates, strict=True)
    )
    return Accelerator(
        name="random-two-levels",
        description="",
        ports=draw(st.sampled_from(["parallel", "serial"])),
        weights="streamed",
        fusion="none",
        dtype="int8",
        matrix_macs_per_s={"int8": draw(magnitudes(13, 10))},
        vector_ops_per_s={"int8": draw(magnitudes(11, 6))},
        mac_pj={"int8": 0.1},
        vector_pj={"int8": 0.03},
        op_overhead_ps=draw(st.sampled_from([0, 13, 10**6])),
        static_power_w=1.0,
        dma_efficiency=draw(st.sampled_from([1.0, 0.75, 0.37])),
        systolic=None,
        levels=levels,
    )

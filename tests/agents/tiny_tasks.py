"""Tasks so small that every plan can be tried, and as odd as they can be; a seed decides everything."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from memplace_env._lib.errors import AcceleratorError
from memplace_env.machine.accelerator import MemoryLevel, load_accelerator
from memplace_env.machine.accelerator.accelerator import KINDS
from memplace_env.machine.costs import Roofline
from memplace_env.placement.compiler.heuristics import native_plan
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from memplace_env.testing import RandomCosts
from memplace_env.testing.cost_models import ReservingRoofline

SEEDS = st.integers(0, 2**24 - 1)  # of wider ranges hypothesis draws small numbers again and again
LARGEST = 4000
"""Bytes that every tensor stays below."""
NNP_I = load_accelerator("nnp-i")


def tiny_tasks(ops, levels=4, weights=None):
    """Tasks of up to so many ops and memory levels at any cost; ops reserve nothing, evenly or unevenly."""
    return st.builds(tiny_task, SEEDS, st.just(ops), st.just(levels), st.just(weights))


def tiny_task(seed, most_ops, most_levels, weights=None):
    """One of `tiny_tasks`."""
    rng = np.random.default_rng(seed)
    program = tiny_program(rng, int(rng.integers(1, most_ops + 1)))
    fast = int(rng.integers(1, most_levels))
    capacity = [*rng.integers(LARGEST // 8, 3 * LARGEST, fast).tolist(), 2**40]
    rates = np.sort(10 ** rng.uniform(6, 12, fast + 1)).astype(np.int64)[::-1].tolist()
    latency = rng.choice([0, 7, 10**6], fast + 1).tolist()
    table = zip("ABCD", capacity, rates, rates, latency, [1.0] * 4, strict=False)
    memories = tuple(MemoryLevel(*row) for row in table)
    ports, weights = str(rng.choice(["parallel", "serial"])), weights or str(rng.choice(["resident", "streamed"]))
    chip = replace(NNP_I, levels=memories, ports=ports, weights=weights)
    task = make_task(program, chip, costs=Roofline() if rng.random() < 0.2 else RandomCosts(seed))
    reserved = np.zeros_like(task.costs.reserved_bytes)
    rows = [0, 1, program.num_ops][rng.integers(3)]
    if rows:
        reserved[:, :-1] = rng.integers(0, np.array(capacity[:-1]) * rng.random() + 1, (rows, fast))
    return replace(task, costs=task.costs._replace(reserved_bytes=reserved))


def tasks_with_roles(ops, levels=4, weights=None):
    """Tiny tasks on chips whose memories are aligned, equally fast or closed to some tensors; the last may be flash."""
    return st.builds(task_with_roles, SEEDS, st.just(ops), st.just(levels), st.just(weights)).filter(lambda task: task)


def task_with_roles(seed, most_ops, most_levels, weights=None):
    """One of `tasks_with_roles`, None where a tensor may lie nowhere or native finds no plan."""
    task, rng = tiny_task(seed, most_ops, most_levels, weights), np.random.default_rng(seed)
    *fast, last = task.accelerator.levels
    rates = {name: getattr(fast[0], name) for name in ("read_bytes_per_s", "write_bytes_per_s")}
    equal = rates if rng.random() < 0.4 else {}
    some, alignment = rng.random() < 0.6, int(rng.choice([1, 4, 64]))
    fast = [
        replace(
            level,
            **equal,
            alignment_bytes=alignment,
            holds=tuple(rng.choice(KINDS, 1)) if some and rng.random() < 0.4 else KINDS,
            largest_block_bytes=int(rng.integers(LARGEST // 2, LARGEST)) if rng.random() < 0.3 else None,
        )
        for level in fast
    ]
    flash = rng.random() < 0.5
    io_level = str(rng.choice(["any", fast[0].name] if flash else ["backing", "any", fast[0].name]))
    last = replace(last, holds=("weights",) if flash else KINDS, writable=not flash)
    chip = replace(task.accelerator, levels=(*fast, last), io_level=io_level)
    model = Roofline() if rng.random() < 0.2 else RandomCosts(seed)
    try:
        with_roles = resolve_task(task.program, chip, costs=model)
        native_plan(with_roles)
    except AcceleratorError:
        return None
    return with_roles


def tasks_with_pins(ops, levels=4, weights=None):
    """Tiny tasks in which some tensors lie at a given byte of a level."""
    return st.builds(task_with_pins, SEEDS, st.just(ops), st.just(levels), st.just(weights)).filter(lambda task: task)


def task_with_pins(seed, most_ops, most_levels, weights=None):
    """One of `tasks_with_pins`, None where nothing can be pinned or native finds no plan."""
    task, rng = tiny_task(seed, most_ops, most_levels, weights), np.random.default_rng(seed)
    names = tuple(f"t{number}" for number in range(task.program.num_tensors))
    program, pins = replace(task.program, tensor_name=names), {}
    for tensor in rng.permutation(np.flatnonzero(program.is_placeable))[: rng.integers(1, 4)].tolist():
        level = task.accelerator.levels[rng.integers(task.backing)]
        room = max(level.capacity_bytes - int(program.tensor_bytes[tensor]), 0)
        at = rng.integers(room + 1) if rng.random() < 0.6 else rng.choice([0, room])
        pins[names[tensor]] = f"{level.name}@{at}"
    model = [Roofline(), ReservingRoofline(seed), RandomCosts(seed)][rng.integers(3)]
    try:
        pinned = resolve_task(program, task.accelerator, costs=model, pins=pins)
        native_plan(pinned)
    except AcceleratorError:
        return None
    return pinned


def tasks_with_fast_copies(ops):
    """Tiny tasks of two fast levels in which plans may copy tensors from one to the other."""
    return st.builds(task_with_fast_copies, SEEDS, st.just(ops))


def task_with_fast_copies(seed, most_ops):
    """One of `tasks_with_fast_copies`; every second one is a chain of short and long ops, in which copies have time."""
    rng = np.random.default_rng(seed)
    while (task := tiny_task(int(rng.integers(2**24)), most_ops, 3)).backing < 2:
        pass
    if rng.random() < 0.5:
        rates, capacity = (10**12, 10**10, 10**9), (int(rng.integers(LARGEST, 1.6 * LARGEST)), 4 * LARGEST, 2**40)
        memories = tuple(
            MemoryLevel(name, size, rate, rate, 0, 1.0) for name, size, rate in zip("ABC", capacity, rates, strict=True)
        )
        chip = replace(task.accelerator, levels=memories, weights=str(rng.choice(["resident", "resident", "streamed"])))
        task = make_task(chain(rng, 4), chip, costs=Roofline())
        task = replace(task, costs=task.costs._replace(compute_ps=rng.permutation([1, 1, 10**6, 10**6])))
    return replace(task, settings={**task.settings, "copies": "all"})


def chain(rng, ops):
    """A chain of ops with large and small results, some of which read a large weight."""
    builder = ProgramBuilder("chain", "int8")
    last = builder.tensor("x", 8, TensorKind.INPUT)
    for op in range(ops):
        size = int(rng.integers(LARGEST // 2, LARGEST)) if op == 0 or (rng.random() < 0.2 and op < ops - 1) else 8
        kind = TensorKind.ACTIVATION if op < ops - 1 else TensorKind.OUTPUT
        reads = [last]
        if rng.random() < 0.2 or op == ops - 1:
            reads.append(builder.tensor("w", int(rng.integers(LARGEST // 2, LARGEST)), TensorKind.WEIGHT))
        last = builder.tensor("y", size, kind)
        builder.op("Link", reads, [last])
    return builder.build()


def tiny_program(rng, ops):
    """A program of one to three operands and a result or two for each op; now and then nobody reads a result."""
    builder = ProgramBuilder("tiny", "int8")

    def tensor(kind):
        return builder.tensor(kind.name.lower(), int(rng.integers(1, LARGEST)), kind)

    inputs, weights = [tensor(TensorKind.INPUT) for _ in range(rng.integers(1, 3))], []
    sources, unread = inputs, set(inputs)
    for op in range(ops):
        last, reads = op == ops - 1, set(rng.choice(sources, rng.integers(1, 3)).tolist())
        if last:
            reads |= {source for source in unread if source in inputs or rng.random() < 0.8}
        if rng.random() < 0.5:
            old = weights and rng.random() < 0.3
            weights.append(int(rng.choice(weights)) if old else tensor(TensorKind.WEIGHT))
            reads.add(weights[-1])
        results = [
            tensor(TensorKind.OUTPUT if last or rng.random() < 0.15 else TensorKind.ACTIVATION)
            for _ in range(1 + (rng.random() < 0.15))
        ]
        work = (1, *rng.integers(1, 64, 3).tolist()) if rng.random() < 0.5 else (0, 0, 0, 0)
        builder.op("Tiny", sorted(reads), results, gemm=work, vector_ops=int(rng.integers(0, LARGEST)))
        sources, unread = sources + results, (unread - reads) | set(results)
    return builder.build()

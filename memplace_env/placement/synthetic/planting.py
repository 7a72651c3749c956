"""Synthetic programs with a planted optimum, so that learning has ground truth.

They follow the idea of generators that know their own solution. A level is drawn for the tensors of each op, so that
what is drawn for a fast level exactly fills it. Every op's compute time is then set to what its traffic takes with all
tensors where they were drawn, by the roofline. No plan can beat the sum of the compute times, and the planted levels
reach it; rules that hand out the fast levels first come, first served, do not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.units import PS_PER_S, ceil_div
from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.machine.accelerator.accelerator import KINDS
from memplace_env.machine.costs import Roofline, op_times
from memplace_env.placement.synthetic.random_programs import MOST_OPS, SEEDS, TOPOLOGIES, Wiring
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Ints, Program, TensorKind

LARGEST = 2**62
"""Limit of sums of bytes, and of work, so that they fit int64."""


class Planted(NamedTuple):
    """A program and its best levels.

    Attributes:
        program: the program.
        levels: int64[K], the level of each tensor in an optimal plan.
    """

    program: Program
    levels: Ints


def planted(
    topology: str, *, ops: int = 24, seed: int = 0, hot: float = 0.6, accelerator: str | Accelerator = "nnp-i"
) -> Planted:
    """Return a program whose optimal latency on the accelerator, under roofline costs, is the sum of its compute times.

    Args:
        topology: a key of `TOPOLOGIES`.
        ops: number of ops, at least 4.
        seed: draws the levels, and the sizes of what is left to the backing memory.
        hot: share of ops whose tensors are planted in fast levels, in [0, 1].
        accelerator: the chip whose levels are filled. Where it streams weights, weights are planted in the backing
            memory.

    Raises:
        WorkloadError: for an unknown topology or a value out of range.
    """
    if topology not in TOPOLOGIES:
        raise WorkloadError(f"No synthetic topology is called {topology!r}; there are {', '.join(TOPOLOGIES)}.")
    if not 4 <= ops <= MOST_OPS or not 0 <= hot <= 1 or not 0 <= seed < SEEDS:
        raise WorkloadError(
            f"A planted program has 4..{MOST_OPS} ops, hot in [0, 1] and a seed of 0..2**64 - 1, not ops={ops}, "
            f"hot={hot}, seed={seed}."
        )
    chip = load_accelerator(accelerator)
    if any(level.holds != KINDS for level in chip.levels):
        raise WorkloadError(
            f"Programs are planted on chips whose memories hold weights and results, not {chip.name!r}."
        )
    rng = np.random.default_rng(seed)
    wiring = TOPOLOGIES[topology](ops)
    level = np.where(rng.random(ops) < hot, rng.integers(0, chip.backing, ops), chip.backing)
    weight_level = level if chip.weights == "resident" else np.full(ops, chip.backing)
    result_level = np.where(np.arange(ops) < ops - 1, level, chip.backing)
    weight_bytes, result_bytes = _sizes_that_fill(chip, wiring, weight_level, result_level, rng)
    if (weight_bytes + result_bytes).sum(dtype=float) > LARGEST:
        raise WorkloadError(
            f"{ops} tensors that fill {chip.name!r} are more bytes than can be counted; pass fewer ops."
        )

    settings = f"ops={ops}&seed={seed}&hot={hot:g}&accelerator={chip.name}"
    builder = ProgramBuilder(f"synthetic:{topology}?{settings}", chip.dtype)
    entry = builder.tensor("input", chip.levels[0].capacity_bytes // 4, TensorKind.INPUT)
    planted_levels = [chip.backing]
    results: list[int] = []
    for op, sources in enumerate(wiring):
        reads = [entry if source < 0 else results[source] for source in sources]
        reads.append(builder.tensor(f"weight_{op}", int(weight_bytes[op]), TensorKind.WEIGHT))
        kind = TensorKind.OUTPUT if op == ops - 1 else TensorKind.ACTIVATION
        results.append(builder.tensor(f"result_{op}", int(result_bytes[op]), kind))
        planted_levels += [int(weight_level[op]), int(result_level[op])]
        builder.op("Synthetic", reads, [results[-1]])
    draft, levels = builder.build(), np.array(planted_levels)
    return Planted(_with_compute(draft, chip, _planted_memory_ps(draft, chip, levels)), levels)


def _sizes_that_fill(
    chip: Accelerator, wiring: Wiring, weight_level: Ints, result_level: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Return int64[T] twice, bytes of each op's weight and result: all of a fast level goes to what is planted in it.

    A level's results have one size, and as many of them as are ever alive at once share what the weights leave.
    """
    fastest = chip.levels[0].capacity_bytes
    weight_bytes, result_bytes = rng.integers(fastest // 8, fastest, size=(2, len(wiring)))
    for level, memory in enumerate(chip.levels[:-1]):
        weights, results = weight_level == level, result_level == level
        slots = int(_live_count(wiring, results).max())
        weights_share = rng.uniform(0.3, 0.7) if weights.any() and slots else float(weights.any())
        result_bytes[results] = int(memory.capacity_bytes * (1 - weights_share)) // max(slots, 1)
        left = memory.capacity_bytes - slots * int(result_bytes[results].max(initial=0))
        weight_bytes[weights] = _split(left, int(weights.sum()), rng)
    return weight_bytes, result_bytes


def _live_count(wiring: Wiring, counted: np.ndarray) -> Ints:
    """Return int64[T], the number of the counted results that are alive during each op."""
    last_reader = np.arange(len(wiring))
    for reader, sources in enumerate(wiring):
        last_reader[[source for source in sources if source >= 0]] = reader
    change = np.zeros(len(wiring) + 1, dtype=np.int64)
    np.add.at(change, np.flatnonzero(counted), 1)
    np.add.at(change, last_reader[counted] + 1, -1)
    return change.cumsum()[:-1]


def _split(total: int, parts: int, rng: np.random.Generator) -> Ints:
    """Return int64[parts], positive random integers with the given sum."""
    if parts == 0:
        return np.empty(0, dtype=np.int64)
    shares = np.floor(rng.dirichlet(np.ones(parts)) * (total - parts)).astype(np.int64) + 1
    shares[0] += total - shares.sum()
    return shares


def _planted_memory_ps(program: Program, chip: Accelerator, level: Ints) -> Ints:
    """Return int64[T], the time in ps of each op's traffic by the roofline when `level[k]` serves tensor k."""
    costs, served_by = Roofline().costs(program, chip), level[program.use_tensor]
    used = np.zeros((program.num_ops, chip.num_levels), dtype=np.int64)
    np.add.at(used, (program.use_op, served_by), costs.use_ps[np.arange(program.num_uses), served_by])
    return op_times(costs, used).memory_ps


def _with_compute(program: Program, chip: Accelerator, at_least_ps: Ints) -> Program:
    """Return the program with just enough vector work that no op can take less."""
    rate = chip.vector_ops_per_s[program.dtype]
    work = [ceil_div(int(time) * rate, PS_PER_S) for time in at_least_ps]
    if sum(work) > LARGEST:
        raise WorkloadError(f"Work that takes as long as memory on {chip.name!r} is more than can be counted.")
    return replace(program, vector_ops=np.array(work, dtype=np.int64))

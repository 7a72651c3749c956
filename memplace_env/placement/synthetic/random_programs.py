"""Random programs for tests, and the topologies that planted ones are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Program, TensorKind


def random_dag(seed: int, *, ops: int = 12, dtype: str = "int8", largest: int = 6_000_000) -> Program:
    """Return a random program: several inputs, outputs, results and weights per op, shared weights, partial reads.

    Args:
        seed: decides everything else.
        ops: number of ops.
        dtype: the deployed dtype of its floating-point tensors.
        largest: bytes that every tensor stays below; sizes are drawn evenly on a logarithmic scale.

    Raises:
        WorkloadError: no ops or too many, or a seed out of range.
    """
    if not 1 <= ops <= MOST_OPS or not 0 <= seed < SEEDS:
        raise WorkloadError(
            f"A random program has 1..{MOST_OPS} ops and a seed of 0..2**64 - 1, not ops={ops}, seed={seed}."
        )
    rng = np.random.default_rng(seed)
    builder = ProgramBuilder(f"synthetic:random?ops={ops}&seed={seed}", dtype)

    def size() -> int:
        return int(np.exp(rng.uniform(0, np.log(largest))))

    sizes: list[int] = []

    def tensor(name: str, kind: TensorKind) -> int:
        sizes.append(size())
        return builder.tensor(name, sizes[-1], kind)

    sources = [tensor(f"input_{i}", TensorKind.INPUT) for i in range(rng.integers(1, 3))]
    unread, weights = set(sources), list[int]()
    for op in range(ops):
        last = op == ops - 1
        drawn = rng.choice(len(sources), size=min(len(sources), int(rng.integers(1, 4))), replace=False)
        reads = {sources[index] for index in drawn.tolist()}
        reads |= unread if last else set()
        unread -= reads
        for _ in range(rng.integers(0, 3)):
            if weights and rng.random() < 0.2:
                reads.add(weights[int(rng.choice(len(weights)))])
            else:
                weights.append(tensor(f"weight_{len(weights)}", TensorKind.WEIGHT))
                reads.add(weights[-1])
        results = []
        for i in range(1 if last else rng.integers(1, 3)):
            kind = TensorKind.OUTPUT if last or rng.random() < 0.1 else TensorKind.ACTIVATION
            results.append(tensor(f"result_{op}_{i}", kind))
        partial = {t: int(rng.integers(1, sizes[t] + 1)) for t in sorted(reads) if rng.random() < 0.1}
        work = (int(rng.integers(1, 9)), size(), int(rng.integers(1, 257)), int(rng.integers(1, 257)))
        builder.op(
            "Random",
            sorted(reads),
            results,
            gemm=work if rng.random() < 0.6 else (0, 0, 0, 0),
            vector_ops=size() if rng.random() < 0.5 else 0,
            bytes_read=partial,
        )
        sources += results
    return builder.build()


MOST_OPS: Final = 100_000
"""Most ops of a synthetic program, our choice: built in seconds."""
SEEDS: Final = 2**64
"""Number of seeds of synthetic programs."""

Wiring = list[tuple[int, ...]]
"""Operands of each op: the ops whose results it reads, -1 for the graph input."""


def chain(ops: int) -> Wiring:
    """Let each op read the one before."""
    return [(op - 1,) for op in range(ops)]


def diamond(ops: int) -> Wiring:
    """Repeat residual blocks: two ops in a row, then one that adds the block's own input."""
    wiring: Wiring = []
    entry = -1
    while len(wiring) < ops:
        last = len(wiring)
        wiring += [(entry,), (last,), (last + 1, entry)]
        entry = last + 2
    return wiring[:ops]


def fan_out(ops: int, width: int = 3) -> Wiring:
    """Repeat: one result read by `width` ops whose results are then joined."""
    wiring: Wiring = []
    entry = -1
    while len(wiring) < ops:
        first = len(wiring)
        wiring += [(entry,)] * width + [tuple(range(first, first + width))]
        entry = first + width
    return _joined(wiring[:ops])


TOPOLOGIES: dict[str, Callable[[int], Wiring]] = {"chain": chain, "diamond": diamond, "fan-out": fan_out}


def _joined(wiring: Wiring) -> Wiring:
    """Let the last op read every result that is not read, so that none is dead."""
    read = {source for sources in wiring for source in sources}
    loose = tuple(op for op in range(len(wiring) - 1) if op not in read)
    return [*wiring[:-1], tuple(dict.fromkeys((*wiring[-1], *loose)))]

"""Synthetic programs: with a planted optimum, so that learning has ground truth, and random ones for tests.

The planted programs follow the idea of generators that know their own solution. A level is drawn for the tensors of
each op, so that what is drawn for a fast level exactly fills it. Every op's compute time is then set to what its
traffic takes with all tensors where they were drawn. No plan can beat the sum of the compute times, and the planted
mapping reaches it; rules that hand out the fast levels first come, first served, do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from memplace_env.accelerator import Accelerator, load_accelerator
from memplace_env.errors import WorkloadError
from memplace_env.workload.builder import ProgramBuilder
from memplace_env.workload.matmul import matmul_program
from memplace_env.workload.program import Ints, Program, TensorKind

PS_PER_S = 10**12
Wiring = list[tuple[int, ...]]
"""For each op, the ops whose results it reads; -1 is the graph input."""


class Planted(NamedTuple):
    """A program and its best mapping.

    Attributes:
        program: the program.
        mapping: int64[K], the level of each tensor in an optimal plan.
    """

    program: Program
    mapping: Ints


def chain(ops: int) -> Wiring:
    """Each op reads the one before."""
    return [(op - 1,) for op in range(ops)]


def diamond(ops: int) -> Wiring:
    """Residual blocks: two ops in a row, then one that adds the block's own input."""
    wiring: Wiring = []
    entry = -1
    while len(wiring) < ops:
        last = len(wiring)
        wiring += [(entry,), (last,), (last + 1, entry)]
        entry = last + 2
    return wiring[:ops]


def fan_out(ops: int, width: int = 3) -> Wiring:
    """One result read by `width` ops whose results are then joined, again and again."""
    wiring: Wiring = []
    entry = -1
    while len(wiring) < ops:
        first = len(wiring)
        wiring += [(entry,)] * width + [tuple(range(first, first + width))]
        entry = first + width
    return _joined(wiring[:ops])


TOPOLOGIES: dict[str, Callable[[int], Wiring]] = {"chain": chain, "diamond": diamond, "fan-out": fan_out}


def planted(
    topology: str, *, ops: int = 24, seed: int = 0, hot: float = 0.6, accelerator: str | Accelerator = "nnp-i"
) -> Planted:
    """A program of the given topology whose optimal latency on the accelerator is the sum of its compute times.

    Args:
        topology: a key of `TOPOLOGIES`.
        ops: number of ops, at least 4.
        seed: draws the levels, and the sizes of what is left to the backing memory.
        hot: share of ops whose tensors are planted in fast levels, in [0, 1].
        accelerator: whose levels are filled. On machines that stream weights, weights are planted in the backing
            memory.

    Raises:
        WorkloadError: for an unknown topology or a value out of range.
    """
    if topology not in TOPOLOGIES:
        raise WorkloadError(f"No synthetic topology is called {topology!r}; there are {', '.join(TOPOLOGIES)}.")
    if not 4 <= ops <= 100_000 or not 0 <= hot <= 1 or seed < 0:
        raise WorkloadError(
            f"A planted program has 4..100000 ops, hot in [0, 1] and seed >= 0, not ops={ops}, hot={hot}, seed={seed}."
        )
    chip = load_accelerator(accelerator)
    rng = np.random.default_rng(seed)
    wiring = TOPOLOGIES[topology](ops)
    level = np.where(rng.random(ops) < hot, rng.integers(0, chip.backing, ops), chip.backing)
    weight_level = level if chip.weights == "resident" else np.full(ops, chip.backing)
    result_level = np.where(np.arange(ops) < ops - 1, level, chip.backing)
    fastest = chip.levels[0].capacity_bytes
    weight_bytes, result_bytes = rng.integers(fastest // 8, fastest, size=(2, ops))
    for at, memory in enumerate(chip.levels[:-1]):
        weights, results = weight_level == at, result_level == at
        slots = int(_live_count(wiring, results).max())
        share = rng.uniform(0.3, 0.7) if weights.any() and slots else float(weights.any())
        result_bytes[results] = int(memory.capacity_bytes * (1 - share)) // max(slots, 1)
        left = memory.capacity_bytes - slots * int(result_bytes[results].max(initial=0))
        weight_bytes[weights] = _split(left, int(weights.sum()), rng)

    settings = f"ops={ops}&seed={seed}&hot={hot:g}&accelerator={chip.name}"
    builder = ProgramBuilder(f"synthetic:{topology}?{settings}", chip.dtype)
    entry = builder.tensor("input", fastest // 4, TensorKind.INPUT)
    mapping = [chip.backing]
    made: list[int] = []
    for op, sources in enumerate(wiring):
        reads = [entry if source < 0 else made[source] for source in sources]
        reads.append(builder.tensor(f"weight_{op}", int(weight_bytes[op]), TensorKind.WEIGHT))
        kind = TensorKind.OUTPUT if op == ops - 1 else TensorKind.ACTIVATION
        made.append(builder.tensor(f"result_{op}", int(result_bytes[op]), kind))
        mapping += [int(weight_level[op]), int(result_level[op])]
        builder.op("Synthetic", reads, [made[-1]])
    draft, levels = builder.build(), np.array(mapping)
    return Planted(_with_compute(draft, chip, _planted_port_time(draft, chip, levels)), levels)


def random_dag(seed: int, *, ops: int = 12, dtype: str = "int8", largest: int = 6_000_000) -> Program:
    """Any program at all: several inputs, outputs, results and weights per op, shared weights, partial reads."""
    if ops < 1 or seed < 0:
        raise WorkloadError(f"A random program has ops >= 1 and seed >= 0, not ops={ops}, seed={seed}.")
    rng = np.random.default_rng(seed)
    builder = ProgramBuilder(f"synthetic:random?ops={ops}&seed={seed}", dtype)

    def size() -> int:
        return int(np.exp(rng.uniform(0, np.log(largest))))

    sizes: list[int] = []

    def tensor(name: str, kind: TensorKind) -> int:
        sizes.append(size())
        return builder.tensor(name, sizes[-1], kind)

    made = [tensor(f"input_{i}", TensorKind.INPUT) for i in range(rng.integers(1, 3))]
    unread, weights = set(made), list[int]()
    for op in range(ops):
        last = op == ops - 1
        reads = set(rng.choice(made, size=min(len(made), int(rng.integers(1, 4))), replace=False).tolist())
        reads |= unread if last else set()
        unread -= reads
        for _ in range(rng.integers(0, 3)):
            if weights and rng.random() < 0.2:
                reads.add(int(rng.choice(weights)))
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
        made += results
    return builder.build()


def from_spec(spec: str) -> Program:
    """The program that a text like `synthetic:chain?ops=24&seed=1` names.

    `synthetic:random?...` is `random_dag`, and `synthetic:matmul?factorisation=strassen-squared&size=8192` is
    `matmul_program`.

    Raises:
        WorkloadError: naming what it does not understand.
    """
    parts = urlsplit(spec)
    if parts.path not in TOPOLOGIES and parts.path not in _SETTINGS:
        known = ", ".join((*TOPOLOGIES, *_SETTINGS))
        raise WorkloadError(f"No synthetic workload is called {parts.path!r}; there are {known}.")
    kinds = _SETTINGS.get(parts.path, _PLANTED_SETTINGS)
    settings: dict[str, Any] = {}
    for key, text in parse_qsl(parts.query, keep_blank_values=True):
        if key not in kinds:
            raise WorkloadError(f"{spec!r} sets {key!r}; a synthetic {parts.path} takes {', '.join(kinds)}.")
        try:
            settings[key] = kinds[key](text)
        except ValueError:
            raise WorkloadError(f"{spec!r} sets {key} to {text!r}, which is no {kinds[key].__name__}.") from None
    if parts.path == "random":
        return random_dag(settings.pop("seed", 0), **settings)
    if parts.path == "matmul":
        return matmul_program(**settings)
    return planted(parts.path, **settings).program


_PLANTED_SETTINGS: dict[str, Callable[[str], Any]] = {"ops": int, "seed": int, "hot": float, "accelerator": str}
_SETTINGS: dict[str, dict[str, Callable[[str], Any]]] = {
    "random": {"ops": int, "seed": int},
    "matmul": {"factorisation": str, "size": int, "dtype": str},
}


def _joined(wiring: Wiring) -> Wiring:
    """Let the last op read every result that nobody reads, so that none is dead."""
    read = {source for sources in wiring for source in sources}
    loose = tuple(op for op in range(len(wiring) - 1) if op not in read)
    return [*wiring[:-1], tuple(dict.fromkeys((*wiring[-1], *loose)))]


def _live_count(wiring: Wiring, counted: np.ndarray) -> Ints:
    """int64[T], how many of the counted results are alive during each op."""
    last_reader = np.arange(len(wiring))
    for reader, sources in enumerate(wiring):
        last_reader[[source for source in sources if source >= 0]] = reader
    change = np.zeros(len(wiring) + 1, dtype=np.int64)
    np.add.at(change, np.flatnonzero(counted), 1)
    np.add.at(change, last_reader[counted] + 1, -1)
    return change.cumsum()[:-1]


def _split(total: int, parts: int, rng: np.random.Generator) -> Ints:
    """Positive integers with the given sum."""
    if parts == 0:
        return np.empty(0, dtype=np.int64)
    shares = np.floor(rng.dirichlet(np.ones(parts)) * (total - parts)).astype(np.int64) + 1
    shares[0] += total - shares.sum()
    return shares


def _planted_port_time(program: Program, chip: Accelerator, level: Ints) -> Ints:
    """int64[T], ps at least: what each op's traffic takes when tensor k is served by `level[k]`."""
    port = np.zeros((program.num_ops, chip.num_levels), dtype=np.int64)
    for use in range(program.num_uses):
        at = level[program.use_tensor[use]]
        memory = chip.levels[at]
        rate = memory.write_bytes_per_s if program.use_is_result[use] else memory.read_bytes_per_s
        op = program.use_op[use]
        port[op, at] += -(-int(program.use_bytes[use]) * PS_PER_S // rate) + (port[op, at] == 0) * memory.latency_ps
    return np.asarray(port.sum(axis=1) if chip.ports == "serial" else port.max(axis=1))


def _with_compute(program: Program, chip: Accelerator, at_least_ps: Ints) -> Program:
    """The same program with just enough vector work that no op can take less."""
    rate = chip.vector_ops_per_s[program.dtype]
    work = [-(-int(time) * rate // PS_PER_S) for time in at_least_ps]
    return replace(program, vector_ops=np.array(work, dtype=np.int64))

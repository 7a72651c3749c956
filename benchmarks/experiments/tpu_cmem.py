"""Compare the gain of CMEM on tpu-v4i with the published figures.

Published: Jouppi et al., "Ten Lessons From Three Generations Shaped Google's TPUv4i" (ISCA 2021): speed-ups by CMEM in
MLPerf's scenarios (figure 10), performance by capacity of CMEM (figure 13). Batch 16 for ResNet-50 in the server
scenario is the paper's (table 5); batch 128 offline, and for BERT BERT-Large (as in MLPerf) with sequences of 384 and
batches of 8 and 32, are assumptions.

"Off" is everything in HBM, "on" the best of the plans that XLA's memory-space assignment makes with its public option
sets and of greedy play: all cheap, deterministic, with copies that run beside the ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import memplace_agents
from benchmarks.harness import Rows, as_rows
from memplace_agents.xla_msa import PUBLIC_SETS
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.machine.costs import CostModel
from memplace_env.machine.costs.tiled import Tiled
from memplace_env.placement.simulator import Simulator
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.program import Program

MIB = 2**20


class Case(NamedTuple):
    """A network in one of MLPerf's scenarios, and the published gain of CMEM there."""

    workload: str
    batch: int
    published: float
    scenario: str


SERVER = Case("ResNet50", 16, 1.50, "server")
OFFLINE = Case("ResNet50", 128, 1.11, "offline")
BERT_SERVER = Case("BERT-Large", 8, 1.33, "server")
BERT_OFFLINE = Case("BERT-Large", 32, 1.11, "offline")
CASES = (SERVER, OFFLINE, BERT_SERVER, BERT_OFFLINE)

CAPACITY = {0: 0.76, 16: 0.87, 72: 0.97, 112: 1.0, 128: 1.0}
"""Published performance by MiB of CMEM as a fraction of that with 128, mean of MLPerf's networks."""

MEMORIES = (
    ("0.75, from the roofline's turn", "0.75", 0),
    ("0.9, and 2 us an op", "0.9", 2_000_000),
    ("1, as published", "1", 0),
)
"""Fractions of HBM's published bandwidth, and overheads of an op in ps, that are compared."""


@cache
def program_of(workload: str, batch: int) -> Program:
    """Return the network in bfloat16 as XLA fuses it."""
    dims = {"sequence": 384} if workload.startswith("BERT") else None
    return resolve_workload(workload, batch=batch, dims=dims, dtype="bfloat16", fusion="epilogue")


def latencies_s(
    program: Program, chip: Accelerator, model: CostModel, simulator: Simulator | None = None
) -> tuple[float, float]:
    """Return the latencies without and with CMEM, by a simulator or else by the costs."""
    env = MallocGameEnv(program, chip, costs=model, simulator=simulator)
    solvers: Sequence[memplace_agents.Agent] = [
        *(memplace_agents.XlaMsa(public.options) for public in PUBLIC_SETS),
        memplace_agents.GreedyPlayer(),
    ]
    solutions = [solver.solve(env) for solver in solvers]
    return solutions[0].native_latency_s, min(
        solution.report.latency_s for solution in solutions if solution.report is not None
    )


def speedup(case: Case, model: CostModel, chip: Accelerator | None = None, simulator: Simulator | None = None) -> float:
    """Return the latency without CMEM over that with it; the default chip is tpu-v4i."""
    off, on = latencies_s(program_of(case.workload, case.batch), chip or load_accelerator("tpu-v4i"), model, simulator)
    return off / on


def with_memory(share: str, overhead_ps: int) -> Accelerator:
    """Return the chip with a fraction of HBM's published bandwidth and an overhead of each op."""
    chip = load_accelerator("tpu-v4i")
    hbm = chip.levels[-1]
    rate = int(hbm.read_bytes_per_s * Fraction(share))
    levels = (*chip.levels[:-1], replace(hbm, read_bytes_per_s=rate, write_bytes_per_s=rate))
    return replace(chip, levels=levels, op_overhead_ps=overhead_ps)


def memory_table() -> Rows:
    """Return a row for each bandwidth of HBM, under tiled costs."""
    rows = []
    for name, share, overhead_ps in MEMORIES:
        chip = with_memory(share, overhead_ps)
        rows.append([name, *(f"{speedup(case, Tiled(), chip):.2f}" for case in CASES)])
    rows.append(["published", *(f"{case.published:.2f}" for case in CASES)])
    return as_rows(["fraction of HBM's 614 GB/s", *(f"{case.workload}, batch {case.batch}" for case in CASES)], rows)


def performance_by_capacity(case: Case, model: CostModel) -> dict[int, float]:
    """Return performance by MiB of CMEM as a fraction of that with 128."""
    chip, program, latency = load_accelerator("tpu-v4i"), program_of(case.workload, case.batch), {}
    for mib in CAPACITY:
        levels = (replace(chip.levels[0], capacity_bytes=max(mib, 1) * MIB), *chip.levels[1:])
        off, on = latencies_s(program, replace(chip, levels=levels), model)
        latency[mib] = on if mib else off
    return {mib: latency[128] / latency[mib] for mib in CAPACITY}


def capacity_table() -> Rows:
    """Return a row for each capacity, under tiled costs."""
    curves = [performance_by_capacity(case, Tiled()) for case in (SERVER, BERT_SERVER)]
    rows = []
    for mib, published in CAPACITY.items():
        shares = [curve[mib] for curve in curves]
        rows.append([f"{mib} MiB", *(f"{share:.0%}" for share in (*shares, sum(shares) / len(shares), published))])
    return as_rows(["CMEM", "ResNet-50, batch 16", "BERT-Large, batch 8", "mean", "published, MLPerf"], rows)

"""Part `open`: a learning agent on games that are not proven, beside the exact agent and searches at equal time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.learning import statistics
from benchmarks.learning.part import Part, Shown
from benchmarks.learning.runs import EXACT, PROOF_S, SEARCHES, limited
from benchmarks.learning.statistics import Shares
from benchmarks.ledger import Record
from benchmarks.tables import DataFile, markdown_table
from memplace_env.envs.registration import Formulation
from memplace_env.leaderboard.suite import best_known

GAMES: Final = (
    "MallocGame-ViT-small-train-v0",
    "MallocGame-DenseNet121-ethos-u65-v0",
    "MallocGame-GPT2-train-v0",
    "MallocGame-Swin-tiny-edge-tpu-v0",
    "MallocGame-PNASNet-5-intel-npu-4000-v0",
    "MallocGame-Llama-blocks-train-v0",
    "MallocGame-DenseNet121-edge-tpu-v0",
    "MallocGame-BART-edge-tpu-v0",
    "MallocGame-RoBERTa-edge-tpu-v0",
    "MallocGame-ConvNeXt-base-edge-tpu-v0",
    "MallocGame-ALBERT-edge-tpu-v0",
    "MallocGame-Swin-base-intel-npu-4000-v0",
)
"""The twelve games without slices that best-known.toml left farthest from their bounds on 2026-11-27."""
SOLVERS: Final = {
    EXACT: "exact",
    SEARCHES[Formulation.GAME]: "local search",
    "plan-gradient": "plan-gradient",
    "cross-entropy": "cross-entropy",
    "xla-autotune": "xla-autotune",
}
"""Solvers, and their names in tables."""


def runs(seeds: int, records: Sequence[Record] = ()) -> list[Record]:
    """Return the settings of all runs, which have seed 0 only."""
    return [limited(env_id, solver, seconds=PROOF_S) for env_id in GAMES for solver in SOLVERS]


def all_shares(records: Sequence[Record]) -> dict[str, Shares]:
    """Return the shares of each solver by its name."""
    return {title: Shares.of(records, GAMES, solver, seconds=PROOF_S) for solver, title in SOLVERS.items()}


def table(shares: dict[str, Shares]) -> str:
    """Return a Markdown table with a row for each solver."""
    heads = ["solver", "mean", "worst game", "ahead of exact", "s"]
    rows = [
        [
            title,
            found.cell(),
            f"{found.of_instances.min():.1f}",
            "" if title == SOLVERS[EXACT] else f"{statistics.ahead(found, shares[SOLVERS[EXACT]])} of {len(GAMES)}",
            f"{found.seconds.mean():.1f}",
        ]
        for title, found in shares.items()
    ]
    return markdown_table(heads, rows)


def data_file(shares: dict[str, Shares]) -> DataFile:
    """Return all figures: a row for each game."""
    heads = ["game", "best known ms", "bound ms", *(f"{title} %" for title in shares), *(f"{t} s" for t in shares)]
    rows = []
    for column, env_id in enumerate(GAMES):
        known = best_known()[env_id]
        row = [env_id, f"{known.best_ps / 1e9:.6f}", f"{known.bound_ps / 1e9:.6f}"]
        row += [f"{found.of_instances[column]:.2f}" for found in shares.values()]
        rows.append([*row, *(f"{found.seconds[0, column]:.1f}" for found in shares.values())])
    return DataFile(heads, rows)


def show(records: Sequence[Record]) -> Shown:
    """Return the table and all figures."""
    shares = all_shares(records)
    return Shown({"learning-open": table(shares)}, {"learning-open.csv": data_file(shares)}, {})


PART = Part(runs, show, ("learning.md",))

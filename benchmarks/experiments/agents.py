"""Agents by the command line at its defaults: `memplace solve MemPlace-PROGRAM-v0 --agent density-greedy --agent ...`.

Every agent has the default budget of 4,000 plans and seed 0, and the chip's own costs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from benchmarks.harness import Experiment, Records, heads, table
from benchmarks.ledger import Record
from memplace_env.envs.registration import Formulation

PROGRAMS = ("ResNet50", "BERT", "AlexNet")
AGENTS = ("density-greedy", "best-rule", "random", "greedy-dp", "local-search", "cross-entropy", "egrl", "exact")


def measure(run: Record) -> Record:
    """Return speed-ups over native of all agents, and of the proven bound, on a program."""
    agents = [word for name in AGENTS for word in ("--agent", name)]
    env_id = Formulation.ONE_SHOT.traits.env_id(run["program"])
    command = [sys.executable, "-m", "memplace", "solve", env_id, *agents, "--json", "--out"]
    with tempfile.TemporaryDirectory() as folder:
        printed = subprocess.run([*command, folder], check=True, stdout=subprocess.PIPE, text=True).stdout
    result = json.loads(printed)
    speedups = {row["name"]: row["speedup"] for row in result["stage_results"]}
    return {**run, "speedups": speedups | {"proven bound": result["native_latency_s"] / result["bound_s"]}}


def rows(records: Records) -> list[dict[str, str]]:
    """Return speed-ups over native: a row for each agent, a cell for each program."""
    found = {record["program"]: {"native": 1.0, **record["speedups"]} for record in records}
    return [
        {"speed-up over native": agent} | {program: f"{speedups[agent]:.3f}" for program, speedups in found.items()}
        for agent in ("native", *AGENTS, "proven bound")
    ]


EXPERIMENTS = [
    Experiment(
        "agents",
        __doc__,
        {"docs/how-it-is-solved.md#agents": table(heads, rows)},
        lambda records: [{"program": program} for program in PROGRAMS],
        measure,
        key=("program",),
    )
]

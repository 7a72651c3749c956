"""Compare agents by the command line at its defaults: `memplace solve PROGRAM --agent density-greedy --agent ...`.

    python -m benchmarks.agents                                   # some minutes
    python -m benchmarks.agents --write README.md docs/agents.md

Every agent has the default budget of 4,000 plans and seed 0, and the chip's own costs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import Any

from rich.progress import track

from benchmarks.tables import benchmark_parser, markdown_table, publish

PROGRAMS = ("ResNet50", "BERT", "AlexNet")
AGENTS = ("density-greedy", "best-rule", "random", "greedy-dp", "local-search", "cross-entropy", "egrl", "exact")


def measure(program: str) -> dict[str, Any]:
    """Return the JSON that the command prints for a program."""
    agents = [word for name in AGENTS for word in ("--agent", name)]
    command = [sys.executable, "-m", "memplace", "solve", program, *agents, "--json", "--out"]
    with tempfile.TemporaryDirectory() as folder:
        printed = subprocess.run([*command, folder], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(printed)  # type: ignore[no-any-return]


def table(results: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table of speed-ups over native: a row for each agent, a column for each program."""
    speedups = {
        program: {row["name"]: row["speedup"] for row in result["stage_results"]} for program, result in results.items()
    }
    rows = [["native", *("1.000" for _ in results)]]
    rows += [[agent, *(f"{speedups[program][agent]:.3f}" for program in results)] for agent in AGENTS]
    bounds = [result["native_latency_s"] / result["bound_s"] for result in results.values()]
    rows.append(["proven bound", *(f"{bound:.3f}" for bound in bounds)])
    return markdown_table(["speed-up over native", *results], rows)


def main() -> None:
    options = benchmark_parser(__doc__).parse_args()
    results = {program: measure(program) for program in track(PROGRAMS, "solving")}
    publish({"agents": table(results)}, options.write)


if __name__ == "__main__":
    main()
